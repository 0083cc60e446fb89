"""From a plan file to a finished run: priced, shown, approved, launched."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from launcher.model.errors import UnreadableInputError
from launcher.model.report import Report
from launcher.records.run_folder import RunFolder
from launcher.workflow.quote.fresh import Person, Picked, fresh_quote, gated_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from launcher.workflow.run.fallback import Fallback, place_words
from launcher.workflow.run.launch import LaunchOptions, launch_quote


def launch_plan(
    path: Path,
    clock: Callable[[], datetime],
    asked: PriceOptions,
    *,
    wanted: str | None,
    options: LaunchOptions,
    person: Person,
) -> tuple[RunFolder, Report]:
    """Launch a plan: in the sandbox on the prices that are there, in AWS on those of the moment.

    Where no machines come, the next candidate takes the place of the first, quoted and approved anew. Of a serving plan
    the endpoint is deployed and asked.

    Args:
        path: the plan file.
        clock: the moment.
        asked: how it is priced.
        wanted: the rank or digest that is picked; None: the best.
        options: where and how it is launched.
        person: is shown everything and asked.

    Raises:
        SlipwayError: it was refused, or a step failed.
    """
    if options.interrupt_after_s is not None and not options.sandbox:
        raise UnreadableInputError("--interrupt-after plays an interruption in the sandbox", hint="add --sandbox")
    every_zone = replace(asked, everything=True)

    def quoted_anew(how: PriceOptions, pick: str | None) -> Picked:
        if options.sandbox:
            return gated_quote(path, clock(), how, wanted=pick, say=person.say)
        return fresh_quote(path, clock(), how, wanted=pick, environment=options.environment, say=person.say)

    def approve(found: Picked) -> None:
        where = "in the sandbox" if options.sandbox else f"on {place_words(found.quoted.plan.place)}"
        person.approve(found, f"launch {found.quoted.plan.name} {where}")

    first = quoted_anew(asked, wanted)
    serves = first.priced.request.workload.serve is not None
    if serves and options.interrupt_after_s is not None:
        message = "--interrupt-after interrupts a job, and a serving plan has none"
        raise UnreadableInputError(message, hint="drop --interrupt-after")
    person.show(first.priced, called=not options.sandbox)
    approve(first)
    if serves:
        from launcher.workflow.endpoint.deployment import run_endpoint

        done = run_endpoint(*first, options, ask=True)
        return done.folder, done.report
    if options.sandbox:
        return launch_quote(*first, options)
    story = Fallback(
        setting=options,
        candidates=lambda: price(path, clock(), every_zone),
        requote=lambda digest: quoted_anew(every_zone, digest),
        approve=approve,
    )
    return story.launch(first)
