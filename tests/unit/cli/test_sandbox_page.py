"""`slipway sandbox status` lists each cluster with its scheduler."""

from types import SimpleNamespace

import pytest

from launcher.cli.sandbox import in_its_region, sandbox_page

FOUND = SimpleNamespace(name="default", since="2026-11-22 10:00 UTC", port=4566)
STACKS = [{"name": "slipway-team-training", "region": "us-east-2", "status": "CREATE_COMPLETE"}]


def cluster(scheduler, *jobs):
    return {"name": "slipway-team", "scheduler": scheduler, "nodes": 3, "jobs": list(jobs)}


@pytest.mark.parametrize(
    "scheduler, message",
    [
        ("slurm", "  cluster slipway-team: Slurm, 3 nodes"),
        ("local", "  cluster slipway-team: the built-in local scheduler, 3 nodes"),
        ("kubernetes", "  cluster slipway-team: Kubernetes, 3 nodes"),
        ("ec2", "  cluster slipway-team: plain instances, 3 nodes"),
    ],
)
def test_sandbox_page_names_scheduler_of_each_cluster(scheduler, message):
    first, _, titles, _, stack, _, last = sandbox_page(FOUND, STACKS, [cluster(scheduler)])
    assert first == "  the sandbox has been running since 2026-11-22 10:00 UTC: http://localhost:4566"
    assert titles.split() == ["stack", "region", "status"]
    assert stack.split() == ["slipway-team-training", "us-east-2", "CREATE_COMPLETE"]
    assert last == message


def test_long_stack_name_is_cut_at_terminal_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    nested = {**STACKS[0], "name": "slipway-team-training-ParallelClusterProviderD4E878AD-WGVDU5LQ2BOY"}
    assert max(map(len, sandbox_page(FOUND, [*STACKS, nested], []))) <= 80


def test_jobs_are_listed_below_cluster():
    job = {"id": "train-1a2b3c4d", "name": "train-1a2b3c4d", "state": "RUNNING"}
    assert (
        sandbox_page(FOUND, STACKS, [cluster("kubernetes", job)])[-1]
        == "    job train-1a2b3c4d  running    train-1a2b3c4d"
    )


def test_empty_sandbox_page_says_no_stacks():
    assert sandbox_page(FOUND, [], [])[-1] == "  no stacks are deployed in it"


def test_named_sandbox_page_shows_name():
    named = SimpleNamespace(name="team", since="2026-11-22 10:00 UTC", port=4566)
    assert (
        sandbox_page(named, [], [])[0]
        == "  the sandbox team has been running since 2026-11-22 10:00 UTC: http://localhost:4566"
    )


def test_single_node_is_singular():
    assert sandbox_page(FOUND, STACKS, [cluster("slurm") | {"nodes": 1}])[-1] == "  cluster slipway-team: Slurm, 1 node"


@pytest.mark.parametrize(
    "regions, shown",
    [([], "us-east-1"), (["us-east-2", "us-east-2"], "us-east-2"), (["us-east-2", "eu-west-1"], "us-east-1")],
)
def test_sandbox_shell_region_follows_single_region_of_stacks(regions, shown):
    stacks = [{"name": "s", "region": region, "status": "CREATE_COMPLETE"} for region in regions]
    environment = {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
    assert in_its_region(environment, stacks) == {"AWS_REGION": shown, "AWS_DEFAULT_REGION": shown}
