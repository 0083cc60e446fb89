"""From a plan file to a finished run: priced, shown, approved, launched."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from launcher import plan_file
from launcher.model.errors import UnreadableInputError
from launcher.model.report import Report
from launcher.records.run_folder import RunFolder
from launcher.workflow.deploy.deployment import head_there
from launcher.workflow.deploy.difference import update_obstacle
from launcher.workflow.deploy.endpoint import run_endpoint, show_endpoint
from launcher.workflow.deploy.saved_plan import quoted_as_saved, saved_plan_of
from launcher.workflow.quote.fresh import Head, Person, Picked, fresh_quote, gated_quote, no_head
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from launcher.workflow.quote.trainer import refuse_missing_trainer
from launcher.workflow.run.fallback import Fallback, place_words
from launcher.workflow.run.launch import LaunchOptions, launch_quote, show_launch


def launch_plan(
    path: Path,
    clock: Callable[[], datetime],
    asked: PriceOptions,
    *,
    wanted: str | None,
    options: LaunchOptions,
    person: Person,
) -> tuple[RunFolder, Report] | None:
    """Launch a plan: in the sandbox on the prices that are there, in AWS on those of the moment.

    The folder and the command of a job are looked at first. Where no machines come, the next candidate takes the place
    of the first, quoted and approved anew; a saved plan is carried out as it is or not at all. Of a serving plan the
    endpoint is deployed and asked.

    Args:
        path: the plan file, or a saved plan.
        clock: the moment.
        asked: how it is priced.
        wanted: the rank or digest that is picked; None: the best.
        options: where and how it is launched; a dry run is only shown, and None is returned.
        person: is shown everything and asked.

    Raises:
        SlipwayError: it was refused, or a step failed.
    """
    if options.interrupt_after_s is not None and not options.sandbox:
        raise UnreadableInputError("--interrupt-after plays an interruption in the sandbox", hint="add --sandbox")
    refuse_missing_trainer(path, plan_file.load(path), options.environment)
    saved = saved_plan_of(path, asked, wanted)
    # A saved plan is carried out as it is.
    head = partial(head_there, options) if saved is None else no_head
    story = _Story(path=path, clock=clock, options=options, person=person, head=head)
    every_zone = replace(asked, everything=True)
    if saved is None:
        first = story.quoted(asked, wanted)
    else:
        first = quoted_as_saved(saved, lambda digest: story.quoted(every_zone, digest), options.environment)
    serves = first.priced.request.workload.serve is not None
    if serves and options.interrupt_after_s is not None:
        message = "--interrupt-after interrupts a job, and a serving plan has none"
        raise UnreadableInputError(message, hint="drop --interrupt-after")
    if serves and options.fresh:
        raise UnreadableInputError("--fresh restarts a job, and a serving plan has none", hint="drop --fresh")
    if saved is None:
        person.show(first.priced, called=not options.sandbox)
    how = story.asking(first)
    if serves:
        return _served(first, how)
    if options.dry_run:
        show_launch(*first, how)
        return None
    if options.sandbox or saved is not None:
        return launch_quote(*first, how)
    return Fallback(
        options=how,
        candidates=lambda: price(path, clock(), every_zone),
        requote=lambda digest: story.quoted(every_zone, digest),
        asking=story.asking,
        obstacle=partial(update_obstacle, base=path.resolve().parent, environment=how.environment),
    ).launch(first)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Story:
    """What the steps of one launch have in common."""

    path: Path
    clock: Callable[[], datetime]
    options: LaunchOptions
    person: Person
    head: Head

    def quoted(self, how: PriceOptions, pick: str | None) -> Picked:
        """A candidate on prices that may be launched on."""
        say, environment = self.person.say, self.options.environment
        if self.options.sandbox or self.options.dry_run:
            return gated_quote(self.path, self.clock(), how, wanted=pick, say=say, head=self.head)
        return fresh_quote(self.path, self.clock(), how, wanted=pick, environment=environment, say=say, head=self.head)

    def asking(self, found: Picked) -> LaunchOptions:
        """Show a quote; the options whose question is about it."""
        where = "in the sandbox" if self.options.sandbox else f"on {place_words(found.quoted.plan.place)}"
        question = f"launch {found.quoted.plan.name} {where}"
        self.person.quote(found)
        if not self.options.dry_run:
            self.person.refuse_unless_answerable(question)
        return replace(self.options, approve=lambda: self.person.approve(question))


def _served(found: Picked, how: LaunchOptions) -> tuple[RunFolder, Report] | None:
    """The endpoint of a serving plan, deployed and asked; None where it was only shown."""
    if how.dry_run:
        show_endpoint(*found, how)
        return None
    done = run_endpoint(*found, how, ask=True)
    return done.folder, done.report
