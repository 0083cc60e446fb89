"""What AWS's calculator said of a quote, as JSON: the key `verified` of slipway.quote/1."""

from typing import Any

from launcher.model.verification import Verification
from launcher.records.documents import money


def verification_document(found: Verification) -> dict[str, Any]:
    """All lines, and the sums of those that were compared; `apart` is a fraction."""
    return {
        "rate_type": found.rate_type,
        "holds": found.holds,
        "apart": None if found.apart is None else float(found.apart),
        "quoted_usd": money(found.quoted_usd),
        "aws_usd": money(found.aws_usd),
        "lines": [
            {
                "names": list(each.names),
                "quoted_usd": money(each.quoted_usd),
                "aws_usd": money(each.aws_usd),
                "difference_usd": money(each.difference_usd),
                "reason": each.reason or None,
            }
            for each in found.lines
        ],
    }
