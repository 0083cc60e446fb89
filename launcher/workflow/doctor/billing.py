"""Requirements of the bill of a run: active tags, and an export with hourly rows."""

from collections.abc import Iterator

from launcher.aws import data_exports
from launcher.aws.cost_explorer import ACTIVE, tag_states
from launcher.aws.data_exports import DataExport
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Check, advice, failed_check, ok, unknown
from launcher.model.tags import CLUSTER_TAG, PLAN_TAG
from launcher.workflow.doctor.examination import Examination, Subject
from launcher.workflow.history.bill_parquet import INSTALL, readable

HOME = "us-east-1"
"""The region of Cost Explorer's endpoint, for the entire commercial partition (AWS General Reference)."""
COST_TAGS = (CLUSTER_TAG, PLAN_TAG)
"""The tags by which a bill is split; one bill has more digests than anyone reads."""
TABLES = ("COST_AND_USAGE_REPORT", "FOCUS_1_0", "FOCUS_1_2")
"""The tables that `report --billed --export` reads."""
READ, PARQUET = "TEXT_OR_CSV", "PARQUET"
"""The file formats that `report --billed --export` reads."""
NO_EXPORT = (
    "none: report --billed uses Cost Explorer, which has daily values, no hourly values, and no reservation fees"
)
NEW_EXPORT = by_administrator(
    "aws bcm-data-exports create-export", "table COST_AND_USAGE_REPORT, Format TEXT_OR_CSV, Compression GZIP"
)


def cost_tags(subject: Subject) -> Iterator[Check]:
    """Check each tag: active, not active, or unknown to billing, which registers tags only after their first use."""
    states = tag_states(subject.session("ce", region=HOME), COST_TAGS)
    for key in COST_TAGS:
        requirement = f"{key} is a cost allocation tag"
        fix = by_administrator(
            f"aws ce update-cost-allocation-tags-status --cost-allocation-tags-status TagKey={key},Status=Active"
        )
        state = states.get(key)
        if state == ACTIVE:
            yield ok("cost tag", requirement, "active")
        elif state is None:
            got = "billing has not registered the tag: you can activate it about 1 day after its first use"
            yield unknown("cost tag", requirement, got, fix)
        else:
            yield failed_check("cost tag", requirement, f"{state}: the bill cannot be split by it", fix)


def exports(subject: Subject) -> Iterator[Check]:
    """Check that the bill is exported in a readable format; only advice, because Slipway can use Cost Explorer."""
    requirement = "the bill is exported as CUR 2.0 or FOCUS"
    account_exports = data_exports.data_exports(subject.session("bcm-data-exports", region=HOME))
    bills = [export for export in account_exports if any(table in export.query for table in TABLES)]
    if not bills:
        yield advice("bill export", requirement, NO_EXPORT, NEW_EXPORT)
    for bill in bills:
        yield _export(bill, requirement)


def _export(export: DataExport, requirement: str) -> Check:
    if export.status != data_exports.HEALTHY:
        why = export.reason.lower().replace("_", " ") or "no reason given"
        return advice("bill export", requirement, f"{export.name} is {export.status.lower()}: {why}", NEW_EXPORT)
    if export.file_format == PARQUET and not readable():
        return advice(
            "bill export", requirement, f"{export.name} writes {PARQUET}, which needs pyarrow to read", INSTALL
        )
    if export.file_format not in (READ, PARQUET):
        return advice(
            "bill export",
            requirement,
            f"{export.name} writes {export.file_format}, which Slipway does not read",
            NEW_EXPORT,
        )
    return ok("bill export", requirement, f"{export.name}: report NAME --billed --export {export.place}")


BILLING = (
    Examination("cost tag", "Slipway's tags are active in billing", cost_tags),
    Examination("bill export", "the bill is exported as CUR 2.0 or FOCUS", exports),
)
