"""The requirements that an account lacks: each check with its result, the answer, and the fix: `slipway doctor`."""

from collections import Counter
from typing import Literal

from launcher.answers.lines import fold
from launcher.model.administrator import REMARK
from launcher.model.diagnosis import Check, Diagnosis, Outcome
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object

SIGNS = {Outcome.OK: "✓", Outcome.FAILED: "✗", Outcome.UNKNOWN: "?", Outcome.ADVICE: "!"}
OUTCOME_TEXTS = {Outcome.FAILED: "failed", Outcome.UNKNOWN: "not known", Outcome.ADVICE: "advice", Outcome.OK: "passed"}

PROGRAMS = ("aws", "cdk", "kept=$(aws", "pip", "slipway")
"""First words of a fix that is a command; every other fix is a sentence or a line of a plan file."""


@json_object
class DoctorDocument:
    """The checks of an account, and the verdict."""

    schema: Literal["slipway.doctor/1"] = "slipway.doctor/1"
    name: str | None
    verdict: str
    checks: tuple[Check, ...]


def document(diagnosis: Diagnosis) -> Json:
    """slipway.doctor/1."""
    return as_json(fill_record(DoctorDocument, diagnosis))


def page(diagnosis: Diagnosis, region: str, width: int) -> list[str]:
    """The complete page; checks that need a fix show their question and the fix."""
    title = f"{diagnosis.name} in {region}" if diagnosis.name is not None else f"the account in {region}"
    lines = ["", f"  {title}", ""]
    for check in diagnosis.checks:
        lines += _check(check, width)
    counts = Counter(check.result for check in diagnosis.checks)
    tally = ", ".join(f"{counts[outcome]} {label}" for outcome, label in OUTCOME_TEXTS.items() if counts[outcome])
    ends = "a launch would be refused" if diagnosis.failures else "no known problem prevents a launch"
    return [
        *lines,
        "",
        *fold(f"  {diagnosis.verdict}: {tally}; {ends}.", width),
        "  Nothing was created and nothing was spent.",
    ]


def _check(check: Check, width: int) -> list[str]:
    first, *rest = fold(f"    {check.name}: {check.got}", width - 2)  # later lines are two columns further right
    lines = [f"  {SIGNS[check.result]} {first.lstrip()}", *(f"  {line}" for line in rest)]
    if check.result is Outcome.OK:
        return lines
    lines += fold(f"      check: {check.asked}", width)
    return [*lines, *_fix(check.fix, width)] if check.fix else lines


def _fix(fix: str, width: int) -> list[str]:
    """The fix; a command wider than the terminal gets its own line, so that it can be pasted."""
    line = f"      fix: {fix}"
    if len(line) <= width:
        return [line]
    command, _, remark = fix.partition(REMARK)
    if command.partition(" ")[0] not in PROGRAMS:
        return fold(line, width)
    remark = f" ({remark}" if remark else ""
    return [*fold(f"      fix{remark}:", width), command]
