"""Exports of the bill: their names, their tables, and their destinations."""

from typing import NamedTuple

from launcher.aws.calls import items
from launcher.aws.session import Session, translate_errors

HOME = "us-east-1"
"""The region of the endpoint for every region of the commercial partition (AWS General Reference)."""
HEALTHY = "HEALTHY"


class DataExport(NamedTuple):
    """One export; `query` is its SQL, which names the table, `place` the location of its files; the format is AWS's."""

    name: str
    status: str
    reason: str
    query: str
    place: str
    file_format: str


def data_exports(session: Session) -> list[DataExport]:
    """Every export of the paying account.

    The session is for us-east-1.

    Raises:
        AwsError: the credentials lack permission, or a call failed.
    """
    client = session.client("bcm-data-exports")
    exports = []
    for item in items(client.list_exports, "list the exports of the bill", "Exports"):
        with translate_errors(f"look at the export {item['ExportName']}"):
            answer = client.get_export(ExportArn=item["ExportArn"])["Export"]
        bucket = answer["DestinationConfigurations"]["S3Destination"]
        state = item["ExportStatus"]
        exports.append(
            DataExport(
                name=item["ExportName"],
                status=state.get("StatusCode", ""),
                reason=state.get("StatusReason", ""),
                query=answer["DataQuery"]["QueryStatement"],
                place=f"s3://{bucket['S3Bucket']}/{bucket['S3Prefix'].strip('/')}/{item['ExportName']}",
                file_format=bucket["S3OutputConfigurations"]["Format"],
            )
        )
    return exports
