"""A saved plan: it is deployed exactly as saved, or refused if something changed."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path

from launcher.agent import safe_json
from launcher.catalog.regular_file import folder_of
from launcher.cdk.commands import Assembly, Cdk
from launcher.cdk.runner import SubprocessRunner
from launcher.model.document import document
from launcher.model.errors import ImpossibleError, OverBudgetError, UnreadableInputError
from launcher.model.quote import Quote
from launcher.pricing.priced import Priced
from launcher.records.quote_document import quote_document
from launcher.records.run_folder import write_whole
from launcher.records.saved_plan import SavedPlan, read_saved, refuse_other_file, write_saved
from launcher.workflow.deploy.deployment import deploys
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import NoSuchCandidateError

AGAIN = "slipway plan FILE -o SAVED shows and saves the current one"


def save_plan(path: Path, priced: Priced, rank: int, quoted: Quote, environment: Mapping[str, str]) -> SavedPlan:
    """Save one shown candidate: its plan, its amounts, and the hashes of its stacks.

    Raises:
        ImpossibleError: the candidate has no price, its stacks cannot be synthesised, the file cannot be written, or it
            exists and is not a saved plan.
    """
    refuse_other_file(path)
    if quoted.usd is None:
        raise ImpossibleError(
            f"candidate {rank} has no price, so a later price could not be compared with it: {quoted.no_price_reason}"
        )
    plan = document(quoted.plan.request)
    workdir = folder_of(Path(priced.path)) / quoted.plan.request.run.workdir
    plan["run"]["workdir"] = str(workdir.resolve())
    amounts = quoted.amounts(priced.context.rules.max_usd)
    saved = SavedPlan(
        name=quoted.plan.name,
        digest=quoted.digest,
        saved_at=priced.now,
        usd_high=quoted.usd.high,
        amounts=amounts,
        stacks=_stack_hashes(quoted, amounts, environment) if deploys(quoted.plan) else {},
    )
    write_saved(path, saved, quoted, plan, quote_document(quoted, rank, priced.catalog.instance_types))
    return saved


def saved_plan_of(path: Path, options: PriceOptions, selection: str | None) -> SavedPlan | None:
    """The saved plan in a file, None for a plan file; a saved plan excludes selections on the command line.

    Raises:
        UnreadableInputError: the file is damaged, or the command line selects a candidate or region.
    """
    saved = read_saved(path)
    if saved is not None and (selection is not None or options.region is not None):
        flag = "--pick" if selection is not None else "--region"
        raise UnreadableInputError(
            f"{path} is a saved plan, which is deployed unchanged: {flag} is not allowed with it"
        )
    return saved


def quoted_as_saved(saved: SavedPlan, quote: Callable[[str], Picked], environment: Mapping[str, str]) -> Picked:
    """The candidate of a saved plan, quoted again by its digest, if it has not changed.

    Raises:
        ImpossibleError, OverBudgetError: something changed.
        SlipwayError: it cannot be quoted.
    """
    try:
        picked = quote(saved.digest)
    except NoSuchCandidateError as none:
        message = f"the saved plan is {saved.digest[:12]}, but its file has another digest: the file was changed"
        raise ImpossibleError(message, hint=AGAIN) from none
    refuse_if_moved(saved, picked, environment)
    return picked


def refuse_if_moved(saved: SavedPlan, picked: Picked, environment: Mapping[str, str]) -> None:
    """Continue only with the saved stacks, at no higher price.

    Raises:
        ImpossibleError: the stacks differ from the saved ones.
        OverBudgetError: the high estimate is above the saved one, or the candidate has no price now.
    """
    quoted = picked.quoted
    high = quoted.usd.high if quoted.usd is not None else None
    if high is None or high > saved.usd_high:
        now = "has no price any more" if high is None else f"is ${high:,.2f} now"
        saved_at = f"{saved.saved_at:%Y-%m-%d %H:%M} UTC"
        message = f"the high estimate was ${saved.usd_high:,.2f} when the plan was saved, {saved_at}, and {now}"
        raise OverBudgetError(message, hint=AGAIN)
    if not saved.stacks:
        return
    current = _stack_hashes(quoted, saved.amounts, environment)
    moved = sorted(name for name in saved.stacks.keys() | current.keys() if saved.stacks.get(name) != current.get(name))
    if moved:
        message = f"the stacks are not the ones that were saved: {', '.join(moved)} differ"
        raise ImpossibleError(message, hint=f"another version of Slipway creates other stacks; {AGAIN}")


def _stack_hashes(quoted: Quote, amounts: Mapping[str, Decimal], environment: Mapping[str, str]) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="slipway-") as scratch:
        # Without plan.json: the gate's decision is no part of a template.
        plan = Path(scratch) / "saved.json"
        write_whole(plan, json.dumps(document(quoted.plan.request)))
        cdk = Cdk(runner=SubprocessRunner(), environment=environment)
        assembly: Assembly = cdk.synth(plan, quoted.digest, Path(scratch) / "cdk.out", amounts)
        return {name: _hash(path) for name, path in assembly.templates.items()}


def _hash(template: Path) -> str:
    whole = json.dumps(safe_json.load(template), sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()
