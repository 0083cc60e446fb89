"""The second day of a cluster, on every target: a failed job is mended, keys change, down, and it is launched again."""

import json
import re
from copy import deepcopy
from datetime import UTC, datetime

import pytest

from launcher.aws import log_groups
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.errors import DeclinedError, DeploymentFailedError, ImpossibleError
from launcher.model.report import RunStatus
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.deploy.down import Subject, survey, take_down
from launcher.workflow.deploy.steps import DeployOptions
from launcher.workflow.quote.existing_head import kept_head
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import LaunchOptions, launch_quote
from tests.sandbox.clients import client

REGION = "us-east-2"
SAVE = 'cd "$SLIPWAY_CHECKPOINT_DIR"; mkdir step-{0}; echo x >step-{0}/weights'
PLAN = {
    "slipway": 1,
    "name": "second",
    "workload": {"train": {"model": {"params_b": 0.0002}, "method": "pretrain", "hours": 0.5}},
    "purchase": {"option": "on-demand", "price_overrides": {"p5.48xlarge/on-demand": "50"}},
    "run": {"command": ["sh", "-c", "exit 3"], "retries": 0},
}
FREE, STOP, NEW = "free", "stopped fleet", "new cluster"
ZONE: tuple[str, str, object, str] = ("target", "az_id", "use2-az2", NEW)
KEYS: dict[str, list[tuple[str, str, object, str]]] = {
    "parallelcluster": [
        ("guardrails", "idle_minutes", 30, STOP),
        ("guardrails", "ttl_h", 5, FREE),
        ("guardrails", "notify", ["a@example.com"], FREE),
        ("budget", "max_usd", 9000, FREE),
        ("target", "nodes", 4, FREE),
        ("target", "placement_group", False, STOP),
        ("target", "os", "alinux2023", NEW),
        ("storage", "head_node", "m6i.4xlarge", NEW),
        ("storage", "lustre_gib", 1200, FREE),
    ],
    "hyperpod-slurm": [
        ("guardrails", "idle_minutes", 30, FREE),
        ("guardrails", "ttl_h", 5, FREE),
        ("guardrails", "notify", ["a@example.com"], FREE),
        ("budget", "max_usd", 9000, FREE),
        ("target", "nodes", 3, FREE),
        ("target", "instance_type", "p4d.24xlarge", NEW),
        ("storage", "head_node", "m6i.4xlarge", NEW),
    ],
    "eks": [
        ("guardrails", "idle_minutes", 30, FREE),
        ("guardrails", "ttl_h", 5, FREE),
        ("guardrails", "notify", ["a@example.com"], FREE),
        ("budget", "max_usd", 9000, FREE),
        ("network", "api_cidrs", ["192.0.3.0/24"], FREE),
        ("target", "nodes", 3, FREE),
        ("target", "instance_type", "trn1.32xlarge", NEW),
        ("purchase", "option", "spot", NEW),
        ("storage", "head_node", "m6i.4xlarge", FREE),
    ],
    "hyperpod-eks": [
        ("guardrails", "idle_minutes", 30, FREE),
        ("guardrails", "notify", ["a@example.com"], FREE),
        ("network", "api_cidrs", ["192.0.3.0/24"], FREE),
        ("target", "nodes", 3, FREE),
        ("target", "instance_type", "p4d.24xlarge", NEW),
        ("storage", "head_node", "m6i.4xlarge", NEW),
    ],
}
"""For each target keys of a plan, and what their change needs of the cluster that is there; a zone needs a new one."""


def changed(wanted, *keys):
    wanted = deepcopy(wanted)
    for section, key, value, *_ in keys:
        wanted.setdefault(section, {})[key] = value
    return wanted


class Account:
    """A sandbox, and what a person types in it."""

    def __init__(self, kind, sandbox, root):
        self.sandbox, self.root, self.told = sandbox, root, []
        target = {"region": REGION, "az_id": "use2-az1", "instance_type": "p5.48xlarge", "nodes": 2, "kind": kind}
        self.plan = changed(PLAN, *(("target", key, value) for key, value in target.items()))
        self.session = Session(environment=sandbox.process_environment({}), region=REGION)

    def priced(self, wanted):
        path = self.root / "second.json"
        path.write_text(json.dumps(wanted))
        priced = price(path, datetime.now(UTC), PriceOptions(any_age=True))
        self.told = []
        return priced, *pick(priced, None)

    def launch(self, wanted):
        priced, rank, quoted = self.priced(wanted)
        own = {"root": self.root, "sandbox": True, "box": self.sandbox, "tell": self.told.append}
        return launch_quote(priced, rank, quoted, LaunchOptions(progress=lambda _: None, **own))[1]

    def deploy(self, wanted, **options):
        priced, rank, quoted = self.priced(wanted)
        own = {"root": self.root, "sandbox": True, "box": self.sandbox, "tell": self.told.append}
        deploy_quote(priced, rank, quoted, DeployOptions(**own, **options))

    def events(self):
        """How many events every stack has: a deployment adds some."""
        cloudformation = client(self.sandbox, "cloudformation", region_name=REGION)
        stacks = [each["StackName"] for each in cloudformation.describe_stacks()["Stacks"]]
        return {name: len(cloudformation.describe_stack_events(StackName=name)["StackEvents"]) for name in stacks}


def no():
    raise DeclinedError("nothing was done")


@pytest.mark.parametrize("kind", [pytest.param(each, marks=pytest.mark.xdist_group(f"second-{each}")) for each in KEYS])
def test_a_cluster_is_used_changed_removed_and_made_again(kind, tmp_path):
    with Sandbox(region=REGION, scheduler="local") as sandbox:
        account = Account(kind, sandbox, tmp_path)
        with pytest.raises(DeploymentFailedError, match="failed"):
            account.launch(account.plan)
        made = account.events()

        mended = changed(account.plan, ("run", "command", ["sh", "-c", SAVE.format(1)]))
        assert account.launch(mended).status is RunStatus.SUCCEEDED
        assert account.events() == made, "\n".join(account.told)
        assert "cluster second exists as planned: nothing is deployed" in account.told

        there = kept_head(account.priced(mended)[2].plan, account.session)
        assert there == (None if kind == "eks" else "m6i.xlarge")

        refused = [each for each in KEYS[kind] if each[3] == NEW]
        allowed = [each for each in KEYS[kind] if each[3] != NEW]
        # A zone that the network has not; what EKS replaces under its name, one by one; the others together.
        for keys in [[ZONE], *[[each] for each in refused]] if kind == "eks" else [[ZONE], refused]:
            with pytest.raises(ImpossibleError, match=r"would be rolled back|refuses that") as problem:
                account.deploy(changed(mended, *keys), approve=no)
            paths = {each.path for each in problem.value.findings} - {""}
            assert paths <= {f"{section}.{key}" for section, key, *_ in keys}
            assert kind == "eks" or keys == [ZONE] or len(paths) == len(keys)
        assert account.events() == made

        account.deploy(changed(mended, *allowed))
        assert account.events() != made
        said = "\n".join(account.told)
        stops = {f"{section}.{key}" for section, key, _, needs in allowed if needs == STOP}
        assert set(re.findall(rf"{STOP} .* \((.*)\)", said)) == stops
        assert ("the compute fleet is stopped for this" in said) is (kind == "parallelcluster")
        assert "read back and as planned" in said

        found = survey(Subject(cluster="second", region=REGION, network=None), account.session, load(), erase=False)
        take_down(found, account.session, load(), account.told.append)
        assert not sandbox.clusters()
        log = "/aws/eks/slipway-second/cluster"
        has_control_plane = "eks" in kind
        assert (log in {each.name for each in log_groups.log_groups(account.session, log)}) is has_control_plane

        again = changed(mended, ("run", "command", ["sh", "-c", SAVE.format(2)]))
        assert account.launch(again).status is RunStatus.SUCCEEDED
        assert any(f"removed log group {log}" in line for line in account.told) is has_control_plane
