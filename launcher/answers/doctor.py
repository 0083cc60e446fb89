"""What an account lacks: a sign for each check, what came back, and the fix: `slipway doctor`."""

from collections import Counter

from launcher.answers.lines import wrapped
from launcher.model.diagnosis import Check, Diagnosis, Outcome
from launcher.records.codec import Json, picked

SIGNS = {Outcome.OK: "✓", Outcome.FAILED: "✗", Outcome.UNKNOWN: "?", Outcome.ADVICE: "!"}
WORDS = {Outcome.FAILED: "failed", Outcome.UNKNOWN: "not known", Outcome.ADVICE: "advice", Outcome.OK: "passed"}


def document(diagnosis: Diagnosis) -> Json:
    """slipway.doctor/1."""
    return {"schema": "slipway.doctor/1", **picked(diagnosis, "name verdict checks")}


def page(diagnosis: Diagnosis, region: str, width: int) -> list[str]:
    """The whole page; what has to be mended comes with its question and its fix."""
    title = f"{diagnosis.name} in {region}" if diagnosis.name is not None else f"the account in {region}"
    lines = ["", f"  {title}", ""]
    for check in diagnosis.checks:
        lines += _check(check, width)
    counts = Counter(check.result for check in diagnosis.checks)
    tally = ", ".join(f"{counts[outcome]} {words}" for outcome, words in WORDS.items() if counts[outcome])
    ends = "a launch would be refused" if diagnosis.failed else "no known problem prevents a launch"
    return [
        *lines,
        "",
        *wrapped(f"  {diagnosis.verdict}: {tally}; {ends}.", width),
        "  Nothing was created and nothing was spent.",
    ]


def _check(check: Check, width: int) -> list[str]:
    first, *rest = wrapped(f"    {check.name}: {check.got}", width - 2)  # later lines are two columns further right
    lines = [f"  {SIGNS[check.result]} {first.lstrip()}", *(f"  {line}" for line in rest)]
    if check.result is Outcome.OK:
        return lines
    lines += wrapped(f"      check: {check.asked}", width)
    # A command is pasted, so it is not broken.
    return [*lines, f"      fix: {check.fix}"] if check.fix else lines
