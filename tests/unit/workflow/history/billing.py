"""The period of the test run, and Cost Explorer's answers for it."""

from datetime import UTC, datetime, timedelta

MADE = datetime(2026, 11, 10, 0, 0, tzinfo=UTC)
ENDED = MADE + timedelta(hours=12)


def cost(usd, amortized=None, quantity="1", unit="N/A"):
    """The metrics of a group of Cost Explorer's."""
    return {
        "UnblendedCost": {"Amount": str(usd), "Unit": "USD"},
        "AmortizedCost": {"Amount": str(usd if amortized is None else amortized), "Unit": "USD"},
        "UsageQuantity": {"Amount": str(quantity), "Unit": unit},
    }


def day(begin, *groups, estimated=False):
    """A day of Cost Explorer's; groups are two keys and metrics."""
    following = (datetime.fromisoformat(begin) + timedelta(days=1)).date().isoformat()
    return {
        "TimePeriod": {"Start": begin, "End": following},
        "Total": {},
        "Groups": [{"Keys": [first, second], "Metrics": metrics} for first, second, metrics in groups],
        "Estimated": estimated,
    }


def explorer(used, rest=()):
    """What Cost Explorer answers to the question for usage and to the one for the rest."""

    def answer(sent):
        by = [group["Key"] for group in sent["GroupBy"]]
        days = list(used if by == ["SERVICE", "USAGE_TYPE"] else rest)
        return {"ResultsByTime": days}

    return answer
