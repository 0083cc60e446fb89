"""What cdk.json runs: read the plan the context names, build its app, synthesise. Only here the environment is read."""

import os
import sys
from pathlib import Path

from aws_cdk import App

from infra.build import build_app
from launcher import plan_file
from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.load import Catalog, load
from launcher.catalog.serving import load_serving
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.plan import Plan
from launcher.model.request import PlanRequest
from launcher.planning.endpoint_pin import pinned_serving
from launcher.planning.pin import pinned_plan


def main() -> int:
    """Synthesise, or say in one screen why not; the exit code is that of the `slipway` command."""
    try:
        plan = _plan(plan_file.load(_plan_path()), load())
        build_app(plan, account=os.environ.get("CDK_DEFAULT_ACCOUNT")).synth()
    except SlipwayError as refusal:
        print(_told(refusal), file=sys.stderr)
        return refusal.exit_code
    return 0


def _plan(request: PlanRequest, catalog: Catalog) -> Plan:
    """The one plan of a request, of a cluster or of an endpoint.

    Raises:
        ImpossibleError: it is not one plan yet, with all findings.
    """
    if request.workload.serve is None:
        return pinned_plan(request, catalog)
    return pinned_serving(request, catalog, BedrockCatalog(prices_as_of=catalog.prices_as_of), load_serving())


def _plan_path() -> Path:
    """The plan file of the context: `cdk synth -c plan=FILE`, or cdk.json's own.

    Raises:
        UnreadableInputError: the context names none.
    """
    named = App(auto_synth=False).node.try_get_context("plan")
    if not isinstance(named, str) or not named:
        raise UnreadableInputError("the context names no plan file", hint="cdk synth -c plan=FILE")
    return Path(named)


def _told(refusal: SlipwayError) -> str:
    """A refusal as a person reads it: what, every finding with its path and fix, the way out."""
    lines = [f"error: {refusal.message}"]
    for each in refusal.findings:
        lines.append(f"  {each.path}: {each.message}" if each.path else f"  {each.message}")
        if each.hint:
            lines.append(f"    {each.hint}")
    if refusal.hint:
        lines.append(f"  {refusal.hint}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
