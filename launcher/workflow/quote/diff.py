"""The `diff` command: it prices the plans of two files, folders or git revisions, and lists the changes."""

import os
import posixpath
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from launcher import plan_file
from launcher.catalog import load as catalog_load
from launcher.catalog.load import Catalog
from launcher.catalog.regular_file import UnusableFileError, read_named, read_regular
from launcher.model.document import document
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError, SlipwayError, UnreadableInputError, reason_of
from launcher.model.money import CostComponent
from launcher.model.plan import Place
from launcher.model.plan_diff import UNKNOWN_NOW, LineChange, LineDiff, PlanDiff, PlansDiff
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.units import number_of
from launcher.model.values import describe
from launcher.plan_layers import PROJECT_FILES
from launcher.submit.revision import find_revision
from launcher.targets.registry import billed_name, target_of
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request

IS_PLAN = re.compile(r"^\s*[\"']?slipway[\"']?\s*:[ \t]*[^\s{]", re.MULTILINE)
EXTENDED = re.compile(r"^\s*[\"']?extends[\"']?\s*:\s*[\"']?([^\"'#\s]+)", re.MULTILINE)
SUFFIXES = (".yaml", ".yml", ".json")
SKIPPED = {".git", ".slipway", ".venv", "node_modules", "rendered"}
HERE = "this folder"
MAX_KEYS = 8
NEARLY = 1e-9
_HINT = "slipway diff main, slipway diff OLD.yaml NEW.yaml, or two folders"


@record
class Side:
    """The plans before or after: their texts by name, and their files, beside which the files of defaults lie."""

    name: str
    texts: Mapping[str, str]
    files: Mapping[str, Path]

    @property
    def bases(self) -> set[str]:
        """The files that plans extend: one that is not whole is no plan."""
        return {base for name, text in self.texts.items() for base in _bases(name, text)}


@record
class _Total:
    """One priced plan: its request, and its best candidate's quote, None with the reason if it has none."""

    request: PlanRequest
    quoted: Quote | None
    reason: str = ""


def diff(
    old: str,
    new: str | None,
    now: datetime,
    options: PriceOptions,
    *,
    old_options: PriceOptions,
    folder: Path,
    environment: Mapping[str, str],
) -> PlansDiff:
    """Compare the totals of plans.

    Args:
        old: a file, a folder, or a git revision of the repository around `folder`.
        new: the same; None: the folder in its current state.
        now: the moment at which both sides are priced.
        options: pricing options of the new side.
        old_options: of the old side; with another date of prices, the result shows the effect of prices.
        folder: the base of relative names.
        environment: for git.

    Raises:
        UnreadableInputError: a side is none of these, or a plan after the change cannot be read.
        ImpossibleError: neither side has a plan.
    """
    with ExitStack() as stack:
        before, after = _sides(old, new, folder, environment, stack)
        names = sorted({*before.texts, *after.texts})
        if not names:
            raise ImpossibleError(f"neither {before.name} nor {after.name} holds a plan file")
        requests = {name: (_earlier(before, name), _later(before, after, name)) for name in names}
    catalogs = [
        catalog_load.load(prices_as_of=price_options.prices_as_of, overlay=price_options.cache, today=now.date())
        for price_options in (old_options, options)
    ]
    plans = []
    for name, (was, is_) in requests.items():
        if was == is_ and (was is None or old_options == options):
            continue
        earlier = None if was is None else _price_total(name, was, catalogs[0], now, old_options)
        later = None if is_ is None else _price_total(name, is_, catalogs[1], now, options)
        plans.append(_plan_diff(name, earlier, later))
    looked_at = sum(pair != (None, None) for pair in requests.values())
    return PlansDiff(old=before.name, new=after.name, plans=tuple(plans), looked_at=looked_at)


def _earlier(side: Side, name: str) -> PlanRequest | None:
    """The plan before a change; None if there was none, or none that can be read."""
    try:
        return _request(side, name)
    except SlipwayError:
        return None


def _later(before: Side, after: Side, name: str) -> PlanRequest | None:
    """The plan after a change; a text that did not change and can be read on neither side is no part of the change."""
    try:
        return _request(after, name)
    except SlipwayError:
        if name in after.bases or (before.texts.get(name) == after.texts.get(name) and _earlier(before, name) is None):
            return None
        raise


def _request(side: Side, name: str) -> PlanRequest | None:
    text = side.texts.get(name)
    return None if text is None else plan_file.loads(text, name=name, file=side.files[name])


def _bases(name: str, text: str) -> Iterator[str]:
    """The files that a text extends, named as the text itself is."""
    return (posixpath.normpath(posixpath.join(posixpath.dirname(name), base)) for base in EXTENDED.findall(text))


def _plans(texts: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The texts that are plans: those with the key of one, and those that extend a plan, also one outside `folder`."""
    outside = {base for name, text in texts.items() for base in _bases(name, text)} - {*texts}
    every = {**{base: _plain_text(folder / base) for base in outside}, **texts}
    plans = {name for name, text in every.items() if IS_PLAN.search(text)}
    while more := {name for name, text in every.items() if name not in plans and {*_bases(name, text)} & plans}:
        plans |= more
    return {name: text for name, text in texts.items() if name in plans}


def _plain_text(path: Path) -> str:
    """The text of a file that a plan extends; "" if it cannot be read, which the plan's own reader refuses."""
    try:
        return read_named(path, plan_file.MAX_BYTES).decode("utf-8-sig")
    except (OSError, ValueError, UnusableFileError):
        return ""


def _sides(
    old: str, new: str | None, folder: Path, environment: Mapping[str, str], stack: ExitStack
) -> tuple[Side, Side]:
    if Path(old).is_file() and (new is None or not Path(new).is_file()):
        other = "NEW is missing" if new is None else f"{new} is not a file"
        raise UnreadableInputError(f"{old} is a plan file, and {other}", hint=_HINT)
    if new is not None and Path(new).is_file():
        after = Side(name=new, texts={new: _text(Path(new))}, files={new: Path(new)})
        if Path(old).is_file():
            return Side(name=old, texts={new: _text(Path(old))}, files={new: Path(old)}), after
        place = Path(os.path.realpath(new))
        if not place.is_relative_to(folder.resolve()):
            raise UnreadableInputError(f"{new} is not below {folder}, whose revisions are compared", hint=_HINT)
        inside = place.relative_to(folder.resolve()).as_posix()
        before = _at_revision(old, folder, environment, stack)
        texts = {name: text for name, text in before.texts.items() if name == inside}
        return replace(before, texts=texts), Side(name=new, texts={inside: after.texts[new]}, files={inside: Path(new)})
    before = _side(old, folder, environment, stack)
    return before, _in_folder(HERE, folder) if new is None else _side(new, folder, environment, stack)


def _side(text: str, folder: Path, environment: Mapping[str, str], stack: ExitStack) -> Side:
    if text and Path(text).is_dir():
        return _in_folder(text, Path(text))
    return _at_revision(text, folder, environment, stack)


def _at_revision(text: str, folder: Path, environment: Mapping[str, str], stack: ExitStack) -> Side:
    """The plans at a revision; all files that plans can be made of are written to a folder that `stack` removes."""
    top = next((path for path in (folder.resolve(), *folder.resolve().parents) if (path / ".git").exists()), folder)
    revision = find_revision(text, top, environment)
    if revision is None:
        message = f"{text} is not a plan file, a folder or a git revision here"
        raise UnreadableInputError(message, hint=_HINT)
    copied = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slipway-revision-")))
    for name in revision.files():
        file = Path(name)
        if _is_read(file) or file.name == PROJECT_FILES[0].name or file.parts[-2:] == PROJECT_FILES[1].parts:
            (copied / file).parent.mkdir(parents=True, exist_ok=True)
            (copied / file).write_text(revision.read(name), encoding="utf-8")
    return _in_folder(text, copied / folder.resolve().relative_to(top.resolve()))


def _is_read(inside: Path) -> bool:
    return inside.suffix in SUFFIXES and not SKIPPED & {*inside.parts}


def _in_folder(name: str, folder: Path) -> Side:
    texts = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if _is_read(inside) and path.is_file():
            try:
                texts[inside.as_posix()] = read_regular(path, plan_file.MAX_BYTES, within=folder).decode("utf-8-sig")
            except (OSError, ValueError):
                # What cannot be read as text, or lies outside the folder, is no plan of it.
                continue
    plans = _plans(texts, folder)
    return Side(name=name, texts=plans, files={inside: folder / inside for inside in plans})


def _text(path: Path) -> str:
    try:
        return read_named(path, plan_file.MAX_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, UnusableFileError) as problem:
        raise UnreadableInputError(f"cannot read the plan file {path}: {reason_of(problem)}") from problem


def _price_total(name: str, request: PlanRequest, catalog: Catalog, now: datetime, options: PriceOptions) -> _Total:
    if options.region is not None:
        request = replace(request, target=replace(request.target, region=(options.region,)))
    try:
        quoted = price_request(Path(name), request, catalog, now, options).quote(1)
    except ImpossibleError as problem:
        reason = problem.findings[0].message if problem.findings else problem.message
        return _Total(request=request, quoted=None, reason=reason)
    if quoted.usd is None:
        return _Total(request=request, quoted=None, reason=quoted.no_price_reason or "")
    return _Total(request=request, quoted=quoted)


def _plan_diff(file: str, old: _Total | None, new: _Total | None) -> PlanDiff:
    known = new or old
    request = known.request if known is not None else None
    serves = request is not None and request.workload.serve is not None
    before = old.quoted if old is not None else None
    after = new.quoted if new is not None else None
    return PlanDiff(
        name=request.name if request is not None else file,
        file=file,
        unit="month" if serves else "run",
        old_usd=_mid(before),
        new_usd=_mid(after),
        why=tuple(_reasons(old, new)),
        lines=tuple(_lines(before, after)),
    )


def _mid(quoted: Quote | None) -> Decimal | None:
    return quoted.usd.mid if quoted is not None and quoted.usd is not None else None


def _reasons(old: _Total | None, new: _Total | None) -> Iterator[str]:
    if new is None:
        yield "the plan was removed"
        return
    if new.quoted is None:
        yield UNKNOWN_NOW
        yield new.reason
    if old is None:
        yield "the plan was added"
        return
    if old.quoted is None:
        yield f"it had no total: {old.reason}"
    changed = list(_changed_keys(document(old.request), document(new.request)))
    yield from changed[:MAX_KEYS]
    if len(changed) > MAX_KEYS:
        yield number_of(len(changed) - MAX_KEYS, "more key")
    if old.quoted is None or new.quoted is None:
        return
    was, is_ = (place_text(quote.plan.place) for quote in (old.quoted, new.quoted))
    if was != is_:
        yield f"choice: {is_}, before {was}"
    elif (rate := _rate(old.quoted)) != (now := _rate(new.quoted)):
        yield f"price: {now} an hour, before {rate}"
    if was == is_ and abs(old.quoted.hours.mid - new.quoted.hours.mid) > NEARLY and new.quoted.serving is None:
        yield f"quantity: {new.quoted.hours.mid:,.1f} h, before {old.quoted.hours.mid:,.1f} h"


def _rate(quoted: Quote) -> str:
    return "unpriced" if quoted.usd_per_hour is None else f"${quoted.usd_per_hour:,.2f}"


def place_text(place: Place) -> str:
    """Nodes, purchase option and region, in words."""
    purchase = place.option.value.replace("-", " ") + (f" {place.term_years}y" if place.term_years else "")
    if place.option is PurchaseOption.SPOT and target_of(place.target).managed_spot:
        purchase = f"managed {purchase}"
    instances = f"{place.nodes} × {billed_name(place)}" if place.instance_type else "Bedrock"
    return f"{instances}, {purchase} in {place.region}"


def _changed_keys(old: Any, new: Any, path: str = "") -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from _changed_keys(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield f"{path}: {_value_text(new)}, before {_value_text(old)}"


def _value_text(value: Any) -> str:
    """A value of a plan in the notation of its file; a list of words as a command has it."""
    if isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(item, Mapping) for item in value)):
        return describe(value)
    return "none" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _lines(old: Quote | None, new: Quote | None) -> Iterator[LineDiff]:
    before, after = _by_name(old), _by_name(new)
    diffs = [_line(name, before.get(name), after.get(name)) for name in dict.fromkeys((*before, *after))]
    changed = [line_diff for line_diff in diffs if line_diff.change is not LineChange.NONE]
    yield from sorted(
        changed, key=lambda line_diff: -abs((line_diff.new_usd or Decimal(0)) - (line_diff.old_usd or Decimal(0)))
    )


def _by_name(quoted: Quote | None) -> dict[str, CostComponent]:
    return {} if quoted is None else {component.name: component for component in quoted.components}


def _line(name: str, old: CostComponent | None, new: CostComponent | None) -> LineDiff:
    was, is_ = (None if component is None else component.usd for component in (old, new))
    return LineDiff(name=name, old_usd=was, new_usd=is_, change=_change(old, new))


def _change(old: CostComponent | None, new: CostComponent | None) -> LineChange:
    if old is None or new is None:
        return LineChange.NEW if old is None else LineChange.GONE
    if (old.usd is None) is not (new.usd is None):
        return LineChange.UNPRICED
    if old.usd == new.usd:
        return LineChange.NONE
    price, quantity = old.unit_price_usd != new.unit_price_usd, old.quantity != new.quantity
    return LineChange.BOTH if price and quantity else LineChange.PRICE if price else LineChange.QUANTITY
