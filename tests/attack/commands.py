"""Commands as a user calls them, in this process; and the files of a run that a command reads."""

import io
import json
import os
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from launcher import plan_file
from launcher.cli import app
from launcher.model.document import document
from tests.plans import ROOT

QUOTED = ROOT / "examples" / "tiny-gpt.yaml"


def run(*arguments):
    """Run a command with strict UTF-8 on both streams; return its exit code and its output."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    before, sys.argv = sys.argv, ["slipway", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            try:
                app.main()
            except SystemExit as system_exit:
                code = system_exit.code
    finally:
        sys.argv = before
    out.flush()
    err.flush()
    return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


def run_folder_files(folder):
    """The files of a run, as a launch over ssh leaves them."""
    shutil.copy(QUOTED, folder / "plan.yaml")
    before = Path.cwd()
    os.chdir(folder)
    try:
        quote = json.loads(run("quote", "plan.yaml", "--json")[1])
    finally:
        os.chdir(before)
    plan = document(plan_file.load(folder / "plan.yaml"))
    attempt = {
        "started_at": "2026-11-20T12:00:00+00:00",
        "ended_at": "2026-11-20T13:00:00+00:00",
        "exit_code": 75,
        "ended_by": "spot-interruption",
        "resumed_from_step": 0,
        "last_step": 40,
    }
    report = {
        "schema": "slipway.report/1",
        "name": "tiny-gpt",
        "status": "succeeded",
        "scheduler": "slurm",
        "simulated": True,
        "attempts": [attempt, {**attempt, "exit_code": 0, "ended_by": "completed", "resumed_from_step": 40}],
        "quoted": {"usd": "37.60", "hours": 1.9, "prices_as_of": "2026-11-19", "usd_per_hour": "19.35"},
        "actual": {"hours": 2.0, "usd_at_quoted_rate": "38.70"},
        "stacks": [{"name": "slipway-tiny-gpt-training", "status": "CREATE_COMPLETE"}],
        "verified_resources": ["network: 3 facts"],
        "not_emulated": ["AWS::Budgets::Budget"],
    }
    submission = {
        "schema": "slipway.submission/1",
        "key": "tiny-gpt-20261120t120000z-0a1b2c3d",
        "job": "7",
        "scheduler": "slurm",
        "cluster": "tiny-gpt",
        "head_node": {"via": "ssh", "host": "nowhere.invalid", "instance": None, "region": "us-east-2", "user": None},
        "folder": "/home/ubuntu/slipway/tiny-gpt",
        "store_uri": "s3://bucket/jobs",
        "checkpoint_uri": "s3://bucket/jobs/tiny-gpt",
        "work": {"files": 3, "git": {"revision": "0" * 40, "dirty": False}},
        "asked_at": "2026-11-20T12:00:00+00:00",
    }
    outputs = {"slipway-tiny-gpt-training": {"ClusterName": "slipway-tiny-gpt", "StoreUri": "s3://bucket/jobs"}}
    events = [
        {
            "at": "2026-11-20T12:00:00+00:00",
            "event": "attempt-started",
            "attempt": 1,
            "time": "2026-11-20T12:00:00+00:00",
        },
        {"event": "restored", "attempt": 1, "step": 3, "time": "2026-11-20T12:00:10+00:00"},
        {"event": "checkpoint-uploaded", "attempt": 1, "step": 40, "bytes": 10, "time": "2026-11-20T12:30:00+00:00"},
    ]
    return {
        "plan.json": plan,
        "quote.json": quote,
        "report.json": report,
        "submission.json": submission,
        "outputs.json": outputs,
        "events.jsonl": events,
    }
