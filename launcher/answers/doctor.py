"""What an account lacks: a sign for each check, what came back, and the fix: `slipway doctor`."""

from collections import Counter

from launcher.answers.lines import wrapped
from launcher.model.diagnosis import Check, Diagnosis, Outcome
from launcher.records.codec import Json, picked

SIGNS = {Outcome.OK: "✓", Outcome.FAILED: "✗", Outcome.UNKNOWN: "?", Outcome.ADVICE: "!"}
WORDS = {Outcome.FAILED: "failed", Outcome.UNKNOWN: "not known", Outcome.ADVICE: "advice", Outcome.OK: "passed"}


def document(found: Diagnosis) -> Json:
    """slipway.doctor/1."""
    return {"schema": "slipway.doctor/1", **picked(found, "name verdict checks")}


def page(found: Diagnosis, region: str, width: int) -> list[str]:
    """The whole page; what has to be mended comes with its question and its fix."""
    title = f"{found.name} in {region}" if found.name is not None else f"the account in {region}"
    lines = ["", f"  {title}", ""]
    for check in found.checks:
        lines += _check(check, width)
    counts = Counter(check.result for check in found.checks)
    tally = ", ".join(f"{counts[outcome]} {words}" for outcome, words in WORDS.items() if counts[outcome])
    ends = "a launch would be refused" if found.failed else "no known problem prevents a launch"
    return [
        *lines,
        "",
        *wrapped(f"  {found.verdict}: {tally}; {ends}.", width),
        "  Nothing was made and nothing was spent.",
    ]


def _check(each: Check, width: int) -> list[str]:
    """One check: its line, and below it the question and the fix where there is something to do."""
    first, *rest = wrapped(f"    {each.name}: {each.got}", width)
    lines = [f"  {SIGNS[each.result]} {first.lstrip()}", *(f"  {line}" for line in rest)]
    if each.result is Outcome.OK:
        return lines
    lines += wrapped(f"      check: {each.asked}", width)
    # A command is pasted, so it is not broken.
    return [*lines, f"      fix: {each.fix}"] if each.fix else lines
