"""What only the account that pays can answer: whether the bill can be split by Slipway's tags, and is exported."""

from collections.abc import Iterator

from launcher.aws import data_exports
from launcher.aws.cost_tags import ACTIVE, tag_states
from launcher.aws.data_exports import DataExport
from launcher.model.diagnosis import Check, advice, failed, ok, unknown
from launcher.workflow.doctor.examination import Examination, Subject
from launcher.workflow.history.bill_parquet import INSTALL, readable

COST_TAGS = ("slipway:cluster", "slipway:plan")
"""The tags by which a bill is split; a digest tells more plans apart than anybody reads."""
HOME = "us-east-1"
"""Where Cost Explorer's endpoint is, for every region of the commercial partition (AWS General Reference)."""


def cost_tags(subject: Subject) -> Iterator[Check]:
    """Each tag: active, not active, or never seen by billing, which knows none before its first use."""
    states = tag_states(subject.session("ce", region=HOME), COST_TAGS)
    for key in COST_TAGS:
        asked = f"{key} is a cost allocation tag"
        fix = f"aws ce update-cost-allocation-tags-status --cost-allocation-tags-status TagKey={key},Status=Active"
        state = states.get(key)
        if state == ACTIVE:
            yield ok("cost tag", asked, "active")
        elif state is None:
            got = "billing has not seen it: it can be made active about a day after its first use"
            yield unknown("cost tag", asked, got, fix)
        else:
            yield failed("cost tag", asked, f"{state}: the bill cannot be split by it", fix)


TABLES = ("COST_AND_USAGE_REPORT", "FOCUS_1_0", "FOCUS_1_2")
"""How the tables are called that `report --billed --export` reads."""
READ, PARQUET = "TEXT_OR_CSV", "PARQUET"
"""The formats of files that it reads."""
NO_EXPORT = "none: report --billed asks Cost Explorer, which has days and not hours, and no fee of a reservation"
NEW_EXPORT = "aws bcm-data-exports create-export: table COST_AND_USAGE_REPORT, Format TEXT_OR_CSV, Compression GZIP"


def exports(subject: Subject) -> Iterator[Check]:
    """Whether the bill is exported in a form that can be read; nothing depends on it: Cost Explorer answers, too."""
    asked = "the bill is exported as CUR 2.0 or FOCUS"
    found = data_exports.data_exports(subject.session("bcm-data-exports", region=HOME))
    bills = [each for each in found if any(table in each.query for table in TABLES)]
    if not bills:
        yield advice("bill export", asked, NO_EXPORT, NEW_EXPORT)
    for each in bills:
        yield _export(each, asked)


def _export(each: DataExport, asked: str) -> Check:
    """One export: read as it is, or what keeps it from being read."""
    if each.status != data_exports.HEALTHY:
        why = each.reason.lower().replace("_", " ") or "no reason is given"
        return advice("bill export", asked, f"{each.name} is {each.status.lower()}: {why}", NEW_EXPORT)
    if each.file_format == PARQUET and not readable():
        return advice("bill export", asked, f"{each.name} writes {PARQUET}, which takes pyarrow to read", INSTALL)
    if each.file_format not in (READ, PARQUET):
        return advice("bill export", asked, f"{each.name} writes {each.file_format}, which is not read", NEW_EXPORT)
    return ok("bill export", asked, f"{each.name}: report NAME --billed --export {each.place}")


BILLING = (
    Examination("cost tag", "Slipway's tags are active in billing", cost_tags),
    Examination("bill export", "the bill is exported as CUR 2.0 or FOCUS", exports),
)
