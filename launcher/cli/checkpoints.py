"""`slipway checkpoints`: list, verify, prune and restore a job's checkpoints."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.agent.manifest_tree import entries_for
from launcher.cli import completion, options, output, places
from launcher.cli.confirm import confirm
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.units import number_of
from launcher.records.run_folder import RUNS, home_of
from launcher.records.submission import with_job

if TYPE_CHECKING:
    from launcher.aws.objects import Objects

Source = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE|URI",
        help="The plan's name (uses its newest run), its file, or s3://bucket/prefix.",
        autocompletion=completion.runs_and_files,
    ),
]
Step = Annotated[
    int | None, typer.Option("--step", min=0, help="The checkpoint of this step. Default: the newest complete one.")
]
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Names of buckets (S3 user guide, bucket naming rules)."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="List, verify, prune and restore the checkpoints of a job.", no_args_is_help=True)
    group.command("list")(list_them)
    group.command("verify")(verify)
    group.command("prune")(prune)
    group.command("restore")(restore)
    app.add_typer(group, name="checkpoints")


def list_them(
    source: Source,
    *,
    region: options.Region = None,
    run_store: options.Store = None,
    sandbox: options.AttachSandbox = False,
    json: options.Json = False,
) -> None:
    """List the stored checkpoints, newest first. Checks by names and sizes whether each one is complete."""
    from launcher.answers.checkpoints import document, page
    from launcher.workflow.run.checkpoints import survey

    source = name_or_uri(source, run_store, region, sandbox=sandbox)
    store = store_of(source, region, sandbox=sandbox)
    checkpoints = survey(store)
    if json:
        output.document(document(source, store.uri, checkpoints))
    else:
        output.result(page(store.uri, checkpoints, output.terminal_width()))


def verify(
    source: Source,
    *,
    step: Step = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Verify every checkpoint, not only the newest complete one.")
    ] = False,
    region: options.Region = None,
    run_store: options.Store = None,
    sandbox: options.AttachSandbox = False,
    json: options.Json = False,
) -> None:
    """Read a checkpoint completely and verify each file's SHA-256 (PyTorch DCP: the sizes)."""
    from launcher.answers.checkpoints import verified_lines, verify_document
    from launcher.workflow.run.checkpoints import choose_checkpoint, survey
    from launcher.workflow.run.checkpoints_transfer import damaged_files

    if everything and step is not None:
        raise UnreadableInputError("--step and --all exclude each other", hint="use one of them")
    source = name_or_uri(source, run_store, region, sandbox=sandbox)
    store = store_of(source, region, sandbox=sandbox)
    checkpoints = survey(store)
    selected = checkpoints if everything else (choose_checkpoint(checkpoints, step),)
    read = []
    for checkpoint in selected:
        with progress_bar(f"step {checkpoint.step}", sum(file.bytes for file in checkpoint.files)) as advance:
            wrong = damaged_files(store, checkpoint, advance)
        read.append((checkpoint, tuple(wrong)))
        if not json:
            output.result(verified_lines(checkpoint, wrong))
    if json:
        output.document(verify_document(source, store.uri, read))
    if bad := [str(checkpoint.step) for checkpoint, wrong in read if wrong]:
        problem = ImpossibleError(
            f"incomplete or damaged: step {', '.join(bad)}",
            hint="a restarted job skips them; restore another step with --step",
        )
        if json:
            # The document contains it.
            raise typer.Exit(problem.exit_code)
        raise problem


def prune(
    source: Source,
    *,
    keep: Annotated[int, typer.Option("--keep", min=1, help="The number of complete checkpoints to keep.")] = 3,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    region: options.Region = None,
    run_store: options.Store = None,
    sandbox: options.AttachSandbox = False,
    json: options.Json = False,
) -> None:
    """Delete what the newest complete checkpoints do not need. The newest complete one always stays."""
    from launcher.answers.checkpoints import prune_document, size_text
    from launcher.workflow.run import checkpoints_transfer
    from launcher.workflow.run.checkpoints import step_of_folder_key, survey

    source = name_or_uri(source, run_store, region, sandbox=sandbox)
    store = store_of(source, region, sandbox=sandbox)
    sizes = checkpoints_transfer.prunable(store, survey(store), keep)
    steps = sorted({step for key in sizes if (step := step_of_folder_key(key)) is not None})
    pruned = prune_document(source, store.uri, steps, sizes, done=bool(sizes) and not dry_run)
    objects = f"{number_of(len(sizes), 'object')} of {number_of(len(steps), 'step')}, {size_text(sum(sizes.values()))}"
    if not sizes or dry_run:
        if json:
            output.document(pruned)
        else:
            nothing = f"  nothing to delete: {store.uri} has no other objects"
            output.result([f"  would delete {objects}" if sizes else nothing])
        return
    output.say(f"  steps {', '.join(str(step) for step in steps)}")
    confirm(f"delete {objects}, below {store.uri}", yes=yes)
    with progress_bar("deleting", len(sizes), of_bytes=False) as advance:
        checkpoints_transfer.prune(store, sizes, options.now(), advance)
    if json:
        output.document(pruned)
    else:
        output.result([f"  deleted {objects}"])


def restore(
    source: Source,
    *,
    step: Step = None,
    target: Annotated[Path, typer.Option("-o", "--output", help="The target folder.")] = Path("checkpoints"),
    node: Annotated[
        int,
        typer.Option(
            "--node", min=0, help="Restore the files of this node, if several nodes stored files of the same name."
        ),
    ] = 0,
    for_next_launch: Annotated[
        bool,
        typer.Option(
            "--for-next-launch",
            help="Download nothing: the next job resumes from --step. Later checkpoints are not used, and not deleted.",
        ),
    ] = False,
    region: options.Region = None,
    run_store: options.Store = None,
    sandbox: options.AttachSandbox = False,
    json: options.Json = False,
) -> None:
    """Download a checkpoint and verify each file's hash. The folder appears complete or not at all."""
    from launcher.answers.checkpoints import restore_document, size_text
    from launcher.workflow.run import checkpoints_transfer
    from launcher.workflow.run.checkpoints import choose_checkpoint, survey
    from launcher.workflow.run.earlier_step import begin_at, begin_text

    if for_next_launch and (step is None or json):
        raise UnreadableInputError(
            "--for-next-launch has no --json" if json else "--for-next-launch needs --step",
            hint="remove --json" if json else f"add --step N; slipway checkpoints list {source} shows the steps",
        )
    source = name_or_uri(source, run_store, region, sandbox=sandbox)
    store = store_of(source, region, sandbox=sandbox)
    if for_next_launch and step is not None:
        begun = begin_at(store, step, options.now(), output.say)
        output.result([f"  {begin_text(*begun, what='the next job')}"])
        return
    checkpoints = survey(store)
    checkpoint = choose_checkpoint(checkpoints, step)
    older = next((one.step for one in checkpoints if one.in_the_running and one.step < checkpoint.step), None)
    files = entries_for(checkpoint.files, node)
    size = sum(file.bytes for file in files)
    with progress_bar(f"step {checkpoint.step}", size) as advance:
        place = checkpoints_transfer.restore(store, checkpoint, target, advance, node=node, older=older)
    if json:
        output.document(restore_document(source, store.uri, checkpoint.step, place, files))
    else:
        output.result([f"  {place}: step {checkpoint.step}, {size_text(size)}"])


def name_or_uri(source: str, run_store: str | None, region: str | None, *, sandbox: bool) -> str:
    """An S3 URI as it is, else the name of the plan that was named, or whose file was; --store finds its runs."""
    if source.startswith("s3://"):
        return source
    places.use_store(run_store, region, sandbox=sandbox)
    return places.plan_name(source)


def store_of(source: str, region: str | None, *, sandbox: bool) -> "Objects":
    """The checkpoint store of a plan's name or an S3 URI; with `region`, also of a run of another computer."""
    from launcher.workflow.cluster.run_environment import environment_of_run
    from launcher.workflow.run.checkpoints import place_of, store_at

    if source.startswith("s3://"):
        if not _BUCKET.fullmatch(source[5:].partition("/")[0]):
            raise UnreadableInputError(f"no bucket can have this name: {source}", hint="s3://bucket/prefix")
        return store_at(source, region or places.region_of(os.environ), places.environment(sandbox=sandbox))
    if region is not None and not (home_of(source, Path.cwd()) / RUNS / source).is_dir():
        places.PLACE.set((region, None, sandbox))
        places.fetched_runs(source)
    folder = with_job(source, Path.cwd(), output.say)
    uri, known = place_of(folder)
    environment = places.environment(sandbox=True) if sandbox else environment_of_run(folder, os.environ)
    return store_at(uri, region or known, environment)


@contextmanager
def progress_bar(label: str, total: int, *, of_bytes: bool = True) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (DownloadColumn(), TransferSpeedColumn()) if of_bytes else (MofNCompleteColumn(),)
    console = Console(stderr=True)
    with Progress(
        TextColumn("  {task.description}"), BarColumn(), *columns, console=console, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.advance(task, done)
