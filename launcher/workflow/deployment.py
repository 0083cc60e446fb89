"""The story of `deploy`: a quoted plan's cluster, in AWS, in the sandbox, or only shown."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from launcher.deploy.cdk import deploy
from launcher.deploy.runner import RecordingRunner, Runner, SubprocessRunner
from launcher.model.quote import Quote
from launcher.planning.pin import zone
from launcher.records import run_folder
from launcher.workflow.deploy import Setting, Tell, bring_up, plan_words, record, show_difference, synthesise
from launcher.workflow.price import Priced


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """Where and how a deployment goes; a dry run runs nothing and says what it would run."""

    root: Path
    sandbox: bool
    dry_run: bool
    tell: Tell


def deploy_quote(priced: Priced, rank: int, quoted: Quote, options: DeployOptions) -> Mapping[str, Mapping[str, str]]:
    """Deploy a quoted plan's stacks; their outputs.

    Raises:
        SlipwayError: a step failed; the run folder holds what was done until then.
    """
    tell = options.tell
    folder = run_folder.create(quoted.plan.name, datetime.now(UTC), options.root)
    bundle = record(folder, quoted, rank, priced.catalog.instance_types, priced.path.resolve().parent)
    tell(f"run folder {folder.path.relative_to(options.root)}")
    with ExitStack() as stack:
        runner: Runner = SubprocessRunner()
        environment, account, cluster = dict(os.environ), None, None
        if options.dry_run:
            runner = RecordingRunner()
        elif options.sandbox:
            from launcher.sandbox.environment import ACCOUNT
            from launcher.sandbox.sandbox import Sandbox
            from launcher.workflow.launch import cluster_state

            tell("starting an embedded AWS on this machine")
            box = stack.enter_context(Sandbox(region=quoted.plan.place.region))
            environment, account = box.process_environment(os.environ), ACCOUNT
            cluster = lambda name: cluster_state(box, name)  # noqa: E731 - bound to this sandbox
        setting = Setting(
            runner=runner,
            environment=environment,
            account=account,
            zone=zone(quoted.plan.place, priced.catalog),
            instances=priced.catalog.instance_types,
            cluster=cluster,
            tell=tell,
        )
        cdk, assembly = synthesise(folder, quoted, setting)
        if options.dry_run:
            for line in plan_words(quoted.plan):
                tell(f"would make {line}")
            outputs = folder.path / "outputs.json"
            return deploy(quoted, bundle, assembly, cdk, outputs=outputs, now=datetime.now(UTC), on_line=tell)
        show_difference(cdk, assembly, quoted, tell)
        done = bring_up(folder, quoted, bundle, setting, cdk=cdk, assembly=assembly, now=datetime.now(UTC))
        return done.outputs
