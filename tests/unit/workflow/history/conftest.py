"""Billed runs: a run folder with a real quote, and an account with the bill for it."""

import pytest

from launcher.records import run_folder
from launcher.records.quote_document import quote_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.plans import NOW
from tests.unit.workflow.history.billing import ENDED, MADE

PLAN = """
slipway: 1
name: %s
workload: {train: {hours: 10}}
target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 2, region: us-east-2, az_id: use2-az1}
purchase: {option: %s}
storage: {head_node: m6i.xlarge}
"""


@pytest.fixture(scope="session")
def quotes(tmp_path_factory):
    """The quote document of a pinned plan by how it is bought."""
    documents = {}

    def quote_of(option="on-demand"):
        if option not in documents:
            path = tmp_path_factory.mktemp("plans") / "plan.yaml"
            path.write_text(PLAN % ("billed", option), encoding="utf-8")
            priced = price(path, NOW, PriceOptions(any_age=True))
            rank, quote = pick(priced, None)
            documents[option] = quote_document(quote, rank, priced.catalog.instance_types)
        return documents[option]

    return quote_of


@pytest.fixture
def billed_run(tmp_path, monkeypatch, quotes):
    """A run of 12 hours, in the current folder of the test."""
    monkeypatch.chdir(tmp_path)

    def make(name="billed", *, started_at=MADE, option="on-demand", simulated=False, quote=None, **purchase):
        folder = run_folder.create(name, started_at, tmp_path)
        folder.write_json("quote.json", quote or quotes(option))
        folder.write_json("plan.json", {"slipway": 1, "name": name, "target": {}, "purchase": purchase})
        attempt = {
            "started_at": started_at.isoformat(),
            "ended_at": (started_at + (ENDED - MADE)).isoformat(),
            "exit_code": 0,
            "ended_by": "completed",
            "resumed_from_step": 0,
            "last_step": 10,
        }
        report = {
            "schema": "slipway.report/1",
            "name": name,
            "status": "succeeded",
            "scheduler": "slurm",
            "simulated": simulated,
            "attempts": [attempt],
            "quoted": {"usd": "1000", "hours": 10.0, "usd_per_hour": "100", "prices_as_of": "2026-11-01"},
            "stacks": [],
            "verified_resources": [],
            "not_emulated": [],
        }
        folder.write_json("report.json", report)
        return folder

    return make


@pytest.fixture
def exported_account(account, monkeypatch):
    """An account whose credentials the command has."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in account.environment.items():
        monkeypatch.setenv(name, value)
    return account
