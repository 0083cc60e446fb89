"""Reports of a job and an endpoint."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from launcher.model.endpoint import EndpointMode
from launcher.model.endpoint_call import Reply
from launcher.model.report import Attempt, EndpointReport, Report, RunStatus

BEGUN = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


INTERRUPTED = Attempt(
    started_at=BEGUN,
    ended_at=BEGUN + timedelta(hours=1.5),
    exit_code=75,
    ended_by="spot-interruption",
    resumed_from_step=0,
    last_step=900,
)


FINISHED = Attempt(
    started_at=BEGUN + timedelta(hours=1.75),
    ended_at=BEGUN + timedelta(hours=2.25),
    exit_code=0,
    ended_by="completed",
    resumed_from_step=880,
    last_step=1200,
)


REPORT = Report(
    name="sft",
    status=RunStatus.SUCCEEDED,
    scheduler="slurm",
    simulated=False,
    attempts=(INTERRUPTED, FINISHED),
    quoted_usd=Decimal("45.10"),
    quoted_hours=2.1,
    prices_as_of="2026-11-19",
    usd_per_hour=Decimal("19.35"),
    stacks=(("slipway-sft-training", "CREATE_COMPLETE"),),
    verified_resources=("VPC range: 10.0.0.0/16",),
    not_emulated=(),
)


REPLY = Reply(kind="chat", input_tokens=12, output_tokens=64, first_s=0.25, whole_s=1.5, shown="one, two, three")


ENDPOINT = EndpointReport(
    name="slipway-chat",
    region="us-east-1",
    mode=EndpointMode.VARIANT,
    status="InService",
    config="config-1",
    instances=2,
    url="https://runtime.sagemaker.us-east-1.amazonaws.com/endpoints/slipway-chat/openai/v1",
    reply=REPLY,
)
