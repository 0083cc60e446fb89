"""`slipway nodes`: the nodes of a run's cluster, and what a person does with one of them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output, places
from launcher.cli.confirm import confirm, refuse_without_terminal
from launcher.model.cluster_nodes import NodeAction
from launcher.model.errors import UnreadableInputError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("nodes")(places.with_place(nodes))


def nodes(
    run: options.RunName,
    action: Annotated[
        NodeAction | None,
        typer.Argument(metavar="ACTION", help="drain, reboot, replace, resume or check. Default: list the nodes."),
    ] = None,
    node: Annotated[
        str | None,
        typer.Argument(metavar="NODE", help="The node's number in the list, its name, its instance, or a pod on it."),
    ] = None,
    *,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """List the nodes of a cluster, or drain, reboot, replace, resume or check one. Needs no running job.

    The list shows each node's state, job, instance, and the dollars since it became idle; for a node that starts or is
    down also the reason and the end of its boot output.

    drain lets a node accept no more jobs, resume ends that; replace gives it another instance; check starts HyperPod's
    deep health checks on an idle node. Before an action the command shows what happens to the running job and what it
    costs, and asks.
    """
    from launcher.records.submission import with_job
    from launcher.workflow.run.cluster_nodes import list_nodes

    name = places.plan_name(run)
    if action is None:
        from launcher.answers import nodes as answer

        folder = with_job(name, Path.cwd(), output.say)
        with output.stage_if_slow(f"reading the nodes of {name}: their cluster answers slowly"):
            listed = list_nodes(name, folder, os.environ, options.now())
        output.answer(answer, listed, json=json)
        return
    if node is None:
        raise UnreadableInputError(f"{action} needs a node", hint=f"slipway nodes {name} lists them")
    _change(name, action, node, yes=yes, dry_run=dry_run, json=json)


def _change(name: str, action: NodeAction, node: str, *, yes: bool, dry_run: bool, json: bool) -> None:
    """Show what an action does, ask, and carry it out."""
    from launcher.answers import nodes as answer
    from launcher.records.submission import with_job
    from launcher.workflow.run.cluster_nodes import act_on_node, plan_action

    if not dry_run:
        refuse_without_terminal(f"{action} {node}", yes=yes)
    folder = with_job(name, Path.cwd(), output.say)
    with output.stage_if_slow(f"reading the nodes of {name}: their cluster answers slowly"):
        planned = plan_action(name, folder, os.environ, options.now(), action=action, wanted=node)
    lines = answer.action_lines(planned, output.terminal_width())
    if dry_run:
        if json:
            output.document(answer.action_document(planned, done=False))
        else:
            output.result([*lines, "  dry run: nothing was changed"])
        return
    output.say(*lines)
    confirm(f"{action} {planned.node.name}", yes=yes)
    act_on_node(name, folder, os.environ, planned, output.talking())
    if json:
        output.document(answer.action_document(planned, done=True))
    else:
        output.result(answer.done_lines(planned))
