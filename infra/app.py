"""The program that cdk.json runs: read the plan that the context names, build its app, synthesise.

Only this module reads the environment.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from aws_cdk import Annotations, App, CfnRule, CfnRuleAssertion, Fn, Stack, cx_api
from constructs import Node

from infra.build import build_app
from infra.by_hand import image_note, removal_note
from infra.chart_files import add_chart
from infra.pinned import pin_plan
from infra.quoted import gate_decision
from infra.refusal import refusal_text
from launcher import plan_file
from launcher.catalog.hyperpod_chart import chart_pins
from launcher.catalog.load import load
from launcher.cdk.chart import NAMED, MissingFilesError, fetch_command
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.visible_text import output_line

PLAN, EXAMPLE = "plan", "example"
"""Context: the plan file; and cdk.json's example, which is used if no plan is named and can never be deployed."""
GATE = "gate"
"""Context: 1 makes a plan that has not passed its gate an error; otherwise the stacks only get an annotation."""


def main() -> int:
    """Synthesise as the CDK CLI requests in the environment; return the exit code of the `slipway` command."""
    return synthesise(App(auto_synth=False), account=os.environ.get("CDK_DEFAULT_ACCOUNT"))


def synthesise(app: App, account: str | None = None) -> int:
    """Synthesise the plan that an app's context names, or print the refusal on one screen; return the exit code."""
    try:
        catalog = load()
        path, gated = _plan_path(app.node), _gate_enabled(app.node)
        named = app.node.try_get_context(PLAN) is not None
        plan = pin_plan(plan_file.load(path), catalog)
        passed = gate_decision(path, plan, datetime.now(UTC))
        if passed.refusal is not None and gated:
            raise passed.refusal
        build_app(plan, account=account, app=app, catalog=catalog)
        # The CLI prints the gate's decision at the stack with the highest cost: the last one, which the others serve.
        stacks = [child for child in app.node.children if isinstance(child, Stack)]
        stack = stacks[-1]
        if passed.refusal is None:
            Annotations.of(stack).add_info_v2("slipway:gate", passed.text)
        else:
            Annotations.of(stack).add_warning_v2("slipway:gate", passed.text)
        if not named:
            _hold_back(app, path)
        assembly = app.synth()
        # The CLI (aws-cdk 2.1148.1) prints no annotations of level info.
        notes = (*image_note(plan, stacks, path, catalog.instance_types), *removal_note(plan, stacks, path))
        for line in notes:
            print(output_line(line), file=sys.stderr)
        _add_chart(assembly, path)
    except SlipwayError as refusal:
        print(refusal_text(refusal), file=sys.stderr)
        return refusal.exit_code
    return 0


def _add_chart(assembly: cx_api.CloudAssembly, path: Path) -> None:
    """Add HyperPod's chart and the layer with helm to an assembly that names them; without a folder, print how.

    Raises:
        ImpossibleError: a file differs from the pinned one.
    """
    out = Path(assembly.directory)
    # The folder may also have files of an earlier synthesis of another plan.
    names = "".join((out / f"{stack.id}.assets.json").read_text(encoding="utf-8") for stack in assembly.stacks)
    if chart_pins().chart_name not in names:
        return
    folder, command = os.environ.get(NAMED), f"slipway cdk -- deploy --all -c plan={path}"
    if folder is None:
        line = fetch_command(chart_pins(), Path("hyperpod-chart"), command)
        text = f"cdk deploy needs HyperPod's chart in {out}: slipway deploy {path} adds it, and so does {line}"
        print(output_line(text), file=sys.stderr)
        return
    try:
        add_chart(out, Path(folder), command)
    except MissingFilesError as missing:
        # A synthesis for reading needs no chart; the CDK refuses to deploy without it.
        print(refusal_text(missing), file=sys.stderr)


def _gate_enabled(context: Node) -> bool:
    """Whether only a plan that passed its gate may be synthesised: `cdk deploy -c plan=FILE -c gate=1`."""
    value = context.try_get_context(GATE)
    if str(value) not in ("None", "0", "1"):
        raise UnreadableInputError(f"context {GATE} must be 1 or 0, got {value}", hint=f"cdk deploy -c {GATE}=1")
    return str(value) == "1"


def _hold_back(app: App, example: Path) -> None:
    """Make CloudFormation refuse every stack of an example that the user did not name, and print how to name a plan."""
    text = f"{example} is an example and cannot be deployed: cdk deploy --all -c plan=FILE"
    never = CfnRuleAssertion(assert_=Fn.condition_equals("example", "plan"), assert_description=text)
    for stack in (child for child in app.node.children if isinstance(child, Stack)):
        CfnRule(stack, "NamesNoPlan", assertions=[never])
        Annotations.of(stack).add_warning_v2("slipway:example", text)


def _plan_path(context: Node) -> Path:
    named = context.try_get_context(PLAN)
    named = context.try_get_context(EXAMPLE) if named is None else named
    if not isinstance(named, str) or not named:
        raise UnreadableInputError("the context names no plan file", hint="cdk synth -c plan=FILE")
    return Path(named)


if __name__ == "__main__":
    sys.exit(main())
