"""slipway.doctor/1: what was asked of an account, what came back, and the fix."""

from typing import Any

from launcher.model.diagnosis import Diagnosis


def diagnosis_document(found: Diagnosis) -> dict[str, Any]:
    """A diagnosis as the contract's JSON."""
    return {
        "schema": "slipway.doctor/1",
        "name": found.name,
        "verdict": found.verdict,
        "checks": [
            {"name": each.name, "result": each.result.value, "asked": each.asked, "got": each.got, "fix": each.fix}
            for each in found.checks
        ],
    }
