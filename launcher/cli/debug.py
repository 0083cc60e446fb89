"""`slipway debug`: one archive with everything that explains a run and its cluster."""

import json as json_module
import os
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output, places


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("debug")(places.with_place(debug))


def debug(
    run: options.RunName,
    *,
    target: Annotated[
        Path | None, typer.Option("-o", "--output", help="The archive. Default: NAME-debug-TIME.tar.gz here.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Write one archive about a run and its cluster: events, logs, nodes, stacks. Secrets are masked.

    It is for someone who has to find out what failed, and holds events, logs, metrics, the state of Slurm or
    Kubernetes, the boot output of nodes, what the nodes of a running job say of themselves, the events of stacks, and
    versions. Account numbers and e-mail addresses are masked too, and its size is bounded. Nothing is sent.
    """
    from launcher.answers import debug as answer
    from launcher.answers import nodes, status
    from launcher.records.submission import with_job
    from launcher.workflow.run.cluster_nodes import list_nodes
    from launcher.workflow.run.debug_bundle import collect, write
    from launcher.workflow.run.status import run_state

    name, now = places.plan_name(run), options.now()
    folder = with_job(name, Path.cwd(), output.say)
    documents = {
        "status.json": lambda: json_module.dumps(status.document(run_state(name, folder, os.environ)), indent=2),
        "nodes.json": lambda: json_module.dumps(nodes.document(list_nodes(name, folder, os.environ, now)), indent=2),
    }
    output.say(f"  collecting what is known of run {folder.path.name}")
    bundle = collect(name, folder, os.environ, now, documents)
    path = target if target is not None else Path(f"{name}-debug-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    size = write(bundle, path, name, now)
    missing = tuple(answer.MissingPart(path=part, reason=reason) for part, reason in sorted(bundle.missing.items()))
    written = answer.DebugDocument(name=name, path=path, bytes=size, files=tuple(bundle.files), missing=missing)
    output.answer(answer, written, json=json)
