"""Reports: quoted against used, and an unchanged round trip through JSON."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from launcher.answers.report import page
from launcher.aws.stacks import REMOVED
from launcher.model.endpoint_call import Reply
from launcher.model.errors import UnreadableInputError
from launcher.model.job import BillableTime
from launcher.model.report import EndedBy, RunStatus, StoredCheckpoints
from launcher.model.run_cost import RunRates
from launcher.records.report_document import read_report, report_document
from tests.unit.records.reports import ENDPOINT, INTERRUPTED, REPLY, REPORT


def test_used_hours_cost_the_quoted_rate() -> None:
    assert REPORT.actual_hours == 2.0
    assert REPORT.usd_at_quoted_rate == Decimal("38.7000")


@pytest.mark.parametrize("width", [80, 120])
def test_attempt_that_a_person_ended_names_the_action_in_page_and_document(width: int) -> None:
    action = "replace ip-10-0-2-2.us-east-2.compute.internal"
    first = replace(REPORT.attempts[0], ended_by=EndedBy.NODE_LOST, node_action=action)
    report = replace(REPORT, attempts=(first, *REPORT.attempts[1:]))
    lines = page(report, width)
    assert max(map(len, lines)) <= width
    assert f"attempt 1 was ended by a node action: {action}" in " ".join("\n".join(lines).split())
    assert "was ended by" not in "\n".join(page(REPORT, width))
    document = json.loads(json.dumps(report_document(report)))
    assert document["attempts"][0]["node_action"] == action
    del document["attempts"][0]["node_action"]  # as earlier versions wrote it
    assert read_report(document).attempts[0] == replace(first, node_action="")


@pytest.mark.parametrize("reason, usd", [("", "0"), ("3 nodes in a row failed to boot", None)])
def test_run_without_attempt_is_not_said_to_have_cost_nothing(reason: str, usd: str | None) -> None:
    report = replace(REPORT, status=RunStatus.CANCELLED, attempts=(), guard_reason=reason)
    text = " ".join("\n".join(page(report, 80)).split())
    assert "used no job hours; AWS bills each node from its start, also a node on which the job never started" in text
    assert "$0.00" not in text
    assert report_document(report)["actual"]["usd_used"] == usd


def test_report_document_reads_back_unchanged() -> None:
    assert read_report(json.loads(json.dumps(report_document(REPORT)))) == REPORT
    stored = StoredCheckpoints(count=3, layout="hf", problems=("signal-not-handled: SIGUSR1",))
    document = report_document(replace(REPORT, stored=stored))
    assert read_report(json.loads(json.dumps(document))).stored == stored


def test_billed_seconds_are_shown_beside_quoted_seconds() -> None:
    rates = RunRates(start_h=0.15, list_usd_per_hour=Decimal("48.375"))
    report = replace(REPORT, rates=rates, billable_time=BillableTime(trained_s=7000, billed_s=2450))
    document = report_document(report)
    # Of 2.25 quoted hours at 40 % of the rate on demand; 2,450 seconds at that rate.
    seconds = {"seconds": 2450, "trained_seconds": 7000, "quoted_seconds": 3240}
    assert document["actual"]["billable"] == {**seconds, "usd": "32.9219"}
    assert read_report(json.loads(json.dumps(document))).billable == report.billable
    (line,) = [line for line in page(report, 200) if "bills" in line]
    assert line.split("bills ")[1] == (
        "2,450 seconds of each instance at the rate on demand, $32.92 (trained 7,000); quoted 3,240 seconds"
    )
    prepaid = replace(report, rates=replace(rates, prepaid_usd=Decimal(900)))
    assert (prepaid.billable.usd, prepaid.billable.quoted_seconds) == (None, None)
    assert report_document(REPORT)["actual"]["billable"] is None


def test_hourly_cost_of_a_cluster_includes_nodes_idle_after_the_job() -> None:
    stacks = (("slipway-job-training", "CREATE_COMPLETE"),)
    report = replace(REPORT, stacks=stacks, left_up_usd_per_hour=Decimal("0.29"), rates=RunRates(tail_h=0.1))
    text = " ".join(" ".join(page(report, 80)).split())
    both = REPORT.usd_per_hour + Decimal("0.29")
    assert f"about ${both:.2f}/h; after the idle stop $0.29/h until slipway" in text
    assert ("slipway cost shows the rate now" in text) == (not REPORT.simulated)
    real = " ".join(" ".join(page(replace(report, simulated=False), 80)).split())
    assert "slipway cost shows the rate now" in real


def test_hourly_cost_of_nodes_that_end_with_their_job_is_named_while_it_runs() -> None:
    stacks = (("slipway-job-training", "CREATE_COMPLETE"),)
    ended = replace(REPORT, stacks=stacks, left_up_usd_per_hour=Decimal("0.05"), simulated=False)
    running = " ".join(" ".join(page(replace(ended, status=RunStatus.RUNNING), 80)).split())
    both = REPORT.usd_per_hour + Decimal("0.05")
    assert f"While the job runs, it costs about ${both:.2f}/h; after the job $0.05/h until slipway" in running
    assert "While it stays up, it costs $0.05/h until slipway" in " ".join(" ".join(page(ended, 80)).split())
    stay = replace(ended, status=RunStatus.RUNNING, left_up_usd_per_hour=REPORT.usd_per_hour + 1)
    assert "While the job runs" not in " ".join(page(stay, 80))


def test_running_report_excludes_idle_tail_and_storage() -> None:
    rates = RunRates(start_h=0.1, tail_h=0.2, other_usd_per_hour=Decimal(1))
    report = replace(REPORT, status=RunStatus.RUNNING, rates=rates, running_h=0.5)
    text = " ".join(" ".join(page(report, 80)).split())
    assert report.usd_used == (REPORT.usd_per_hour + 1) * Decimal("2.6")
    assert report.usd_used < report.cost.used_usd(2.5)
    assert "2.5 h so far" in text
    assert "idle tail and storage are still to come" in text


def test_slow_node_is_in_the_report_and_its_document() -> None:
    report = replace(REPORT, slow_nodes=("n2 is 25 % slower than the other nodes for 20 minutes",))
    assert "  slow node: n2 is 25 % slower than the other nodes for 20 minutes" in page(report, 80)
    assert read_report(report_document(report)).slow_nodes == report.slow_nodes
    assert "slow node" not in " ".join(page(REPORT, 80))


def test_report_of_an_earlier_version_keeps_its_rates_and_problems() -> None:
    stored = StoredCheckpoints(count=1, problems=("checkpoints-not-recognised: no file",))
    report = replace(REPORT, rates=RunRates(other_usd_per_hour=Decimal(1)), stored=stored)
    document = report_document(report)
    document["checkpoint_troubles"] = document.pop("checkpoint_problems")
    rates = document["quoted"]["rates"]
    rates["beside_usd_per_hour"] = rates.pop("other_usd_per_hour")
    assert read_report(document) == report


def test_report_without_a_tail_names_none() -> None:
    rates = RunRates(start_h=0.1, other_usd_per_hour=Decimal(1))
    ended = replace(REPORT, rates=rates)
    running = replace(ended, status=RunStatus.RUNNING, running_h=0.5)
    texts = [" ".join(" ".join(page(report, 80)).split()) for report in (ended, running)]
    assert "for start, storage, network and other" in texts[0]
    assert "; storage is still to come" in texts[1]
    assert not [text for text in texts if "idle" in text]


@pytest.mark.parametrize(
    "scheduler, end",
    [("slurm", "the idle stop"), ("ec2", "the idle tail"), ("sagemaker", "the warm pool")],
)
def test_cost_until_down_names_what_ends_the_nodes(scheduler: str, end: str) -> None:
    stacks = (("slipway-job-training", "CREATE_COMPLETE"),)
    rates = RunRates(tail_h=0.1)
    report = replace(REPORT, scheduler=scheduler, stacks=stacks, left_up_usd_per_hour=Decimal("0.29"), rates=rates)
    text = " ".join(" ".join(page(report, 80)).split())
    assert f"/h; after {end} $0.29/h until slipway down" in text


@pytest.mark.parametrize("reply", [None, REPLY, replace(REPLY, first_s=None, kind="embedding")])
def test_endpoint_report_reads_back_unchanged(reply: Reply | None) -> None:
    report = replace(REPORT, attempts=(), scheduler="none", endpoint=replace(ENDPOINT, reply=reply))
    document = json.loads(json.dumps(report_document(report)))
    assert read_report(document) == report
    assert (document["attempts"], document["actual"]["hours"]) == ([], 0)


def test_endpoint_report_page_shows_the_hourly_cost_until_removal() -> None:
    stacks = (("slipway-chat-serving", "CREATE_COMPLETE"),)
    report = replace(
        REPORT, attempts=(), endpoint=ENDPOINT, stacks=stacks, left_up_usd_per_hour=Decimal("40.45"), simulated=False
    )
    line = f"While it stays up, it costs about $40.45/h at the quoted load until slipway down {report.name}."
    assert line in " ".join(" ".join(page(report, 80)).split())
    removed = replace(report, stacks=(("slipway-chat-serving", REMOVED),))
    assert "While it stays up" not in " ".join(page(removed, 80))


def test_report_without_endpoint_key_is_read() -> None:
    document = report_document(REPORT)
    assert document.pop("endpoint") is None
    assert read_report(document) == REPORT


def test_running_attempt_has_no_end_and_no_hours() -> None:
    running = replace(INTERRUPTED, ended_at=None, exit_code=None, ended_by=None)
    report = replace(REPORT, status=RunStatus.RUNNING, attempts=(running,))
    assert report.actual_hours == 0
    assert read_report(report_document(report)) == report


def test_report_of_an_unpriced_run_has_no_dollars() -> None:
    document = report_document(replace(REPORT, quoted_usd=None, usd_per_hour=None))
    assert document["quoted"]["usd"] is None
    assert document["actual"]["usd_at_quoted_rate"] is None


@pytest.mark.parametrize("broken", [{}, {"quoted": 1}, {**report_document(REPORT), "status": "fine"}])
def test_invalid_report_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(UnreadableInputError):
        read_report(broken)


@pytest.mark.parametrize("reason", list(EndedBy))
def test_end_of_an_attempt_has_one_name_in_json_text_and_back(reason):
    report = replace(REPORT, attempts=(replace(INTERRUPTED, ended_by=reason),))
    document = report_document(report)
    assert document["attempts"][0]["ended_by"] == reason.value
    assert read_report(document).attempts[0].ended_by is reason
    assert any(reason.value in line.split() for line in page(report, 100))
