"""An example deployed into a sandbox as by `slipway deploy --sandbox`, and the commands a user then runs."""

import json
import re
from datetime import UTC, datetime

import pytest

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.cli.app import main
from launcher.model.errors import DeploymentFailedError
from launcher.records.run_folder import latest
from launcher.targets.clusters import stacks_of
from launcher.workflow.cluster.verify import verify
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.documents import read_document


class World:
    """An example deployed like `slipway deploy --sandbox`, and the commands that a user then runs."""

    def __init__(self, path, sandbox, root):
        self.path, self.sandbox, self.root = path, sandbox, root
        self.session = Session(environment=sandbox.process_environment({}), region=sandbox.region)
        self.messages = []
        priced = price(path, datetime.now(UTC), PriceOptions(any_age=True))
        rank, self.quoted = pick(priced, None)
        self.name = self.quoted.plan.cluster_name
        options = DeployOptions(root=root, sandbox=True, dry_run=False, notify=self.messages.append, emulator=sandbox)
        deploy_quote(priced, rank, self.quoted, options)

    def stacks(self):
        return {name for name in stacks.names(self.session) if name.startswith("slipway-")}

    def ids(self, part, kind):
        """The physical ids of a type's resources in one of the example's stacks."""
        resources = stacks.resources(self.session, f"slipway-{self.name}-{part}")
        return [resource.physical_id for resource in resources if resource.type == kind]

    def complaints(self):
        """The deviations that reading the deployment back reports."""
        names = [f"slipway-{self.name}-{part}" for part in ("network", "checkpoints", "training")]
        rate = self.quoted.usd_per_hour
        try:
            verify(self.quoted.plan, self.session, names, queues=None, zone=None, usd_per_hour=rate)
        except DeploymentFailedError as problem:
            return {line.strip() for line in problem.message.splitlines()[1:]}
        return set()

    def down(self, monkeypatch, capsys):
        """The JSON output of `slipway down FILE` on a computer without runs, with the sandbox in the environment."""
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        monkeypatch.chdir(elsewhere)
        monkeypatch.setenv("XDG_STATE_HOME", str(elsewhere / "state"))
        for name, value in self.sandbox.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.argv", ["slipway", "down", str(self.path), "--yes", "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert not ended.value.code, captured.err
        return read_document(captured.out)


def assert_read_back(world):
    """Assert that every type in the templates has a reader, and a resource that the reader could read."""
    assert any(re.search(r"read back and as planned: \d+ facts", line) for line in world.messages), world.messages
    assembly = latest(world.quoted.plan.name, world.root).assembly
    templates = [json.loads(path.read_text()) for path in assembly.glob("*.template.json")]
    types = {resource["Type"] for template in templates for resource in template["Resources"].values()}
    assert types <= {type_ for _, types in stacks_of(world.quoted.plan.place.target).readers for type_ in types}
    stack_names = world.stacks()
    assert not types & {
        resource.type
        for resource in world.sandbox.resources()
        if resource.stack in stack_names and resource.model == "nothing"
    }
