"""The `estimate` command: reads a synthesised app (cdk.out) or one template, and prices it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from launcher.agent import safe_json
from launcher.catalog import template_yaml
from launcher.catalog.load import Catalog
from launcher.catalog.regular_file import UnusableFileError, read_named, read_regular
from launcher.catalog.safe_yaml import YamlError
from launcher.model.errors import OverBudgetError, SlipwayError, UnpricedError, UnreadableInputError, reason_of
from launcher.model.money import cents
from launcher.model.names import nearest_name
from launcher.model.template_estimate import TemplateEstimate
from launcher.model.values import cut
from launcher.pricing.template.estimate import estimate
from launcher.pricing.template.values import Template, Unknown

MANIFEST, ASSEMBLY = "manifest.json", "cdk.out"
NESTED = "AWS::CloudFormation::Stack"
MAX_BYTES = 8 << 20
"""CloudFormation refuses templates above 1 MB."""
MAX_NESTED = 10
"""Stages and nested stacks within each other that are read."""
HINT = "slipway estimate cdk.out (after cdk synth), or slipway estimate template.json"


def estimate_path(
    path: Path, catalog: Catalog, now: datetime, *, region: str | None, parameters: Mapping[str, str]
) -> TemplateEstimate:
    """Price an app or a template.

    Args:
        path: a folder with the output of `cdk synth`, a folder that contains cdk.out, or a template as JSON or YAML.
        catalog: the prices.
        now: the moment of the estimate, UTC.
        region: the region of stacks that name none.
        parameters: values of template parameters.

    Raises:
        UnreadableInputError: the path holds no app or template, a region is missing or unknown.
    """
    if region is not None and region not in catalog.regions:
        hint = nearest_name(region, catalog.regions) or "a region such as us-east-1"
        raise UnreadableInputError(f"no region {cut(region)} in the catalog", hint=hint)
    stacks = _AppStacks(region, parameters, frozenset(catalog.regions))
    return estimate(stacks.below(path), catalog, now, str(path))


def estimate_template(path: Path, catalog: Catalog, now: datetime, region: str | None, name: str) -> TemplateEstimate:
    """Price one template of a stack whose name is known, with its nested stacks.

    Raises:
        UnreadableInputError: the file is no template, or no region is given.
    """
    stacks = _AppStacks(region, {}, frozenset(catalog.regions))
    region = stacks.region_of(region, name)
    return estimate(stacks.stack(_Place(path, name, region, path.parent), {}), catalog, now, str(path))


def refusal_of(found: TemplateEstimate, limit: Decimal | None) -> SlipwayError | None:
    """The error of an estimate that exceeds a limit in dollars per hour; None without a limit, or below it."""
    if limit is None:
        return None
    unpriced = found.unpriced_accelerators
    if unpriced:
        first = unpriced[0]
        more = f"; {len(unpriced) - 1} more" if len(unpriced) > 1 else ""
        reason = f"{first.resource}, {first.name}: {first.unpriced}{more}"
        return UnpricedError(f"accelerators without a price cannot be held to a limit: {reason}")
    if found.max_usd_per_hour > limit:
        reason = f"up to ${cents(found.max_usd_per_hour)} an hour, allowed are ${cents(limit)}"
        return OverBudgetError(reason)
    return None


class _Place(NamedTuple):
    """A stack's template file, the stack's name and region, the folder of its app, and how deeply it is nested."""

    file: Path
    name: str
    region: str
    root: Path
    depth: int = 0


class _AppStacks:
    """The stacks of an app, read with the region and parameters of the command."""

    def __init__(self, region: str | None, parameters: Mapping[str, str], regions: frozenset[str]) -> None:
        self.region, self.parameters, self.regions = region, parameters, regions

    def below(self, path: Path) -> Iterator[Template]:
        """The stacks below a path, nested ones too.

        Raises:
            UnreadableInputError: as estimate_path.
        """
        if not path.exists():
            raise UnreadableInputError(f"no file or folder {path}", hint=HINT)
        if not path.is_dir():
            _template(path, path.parent)
            yield from self.stack(_Place(path, path.name, self.region_of(None, path.name), path.parent), {})
            return
        folder = path if (path / MANIFEST).is_file() else path / ASSEMBLY
        if not (folder / MANIFEST).is_file():
            raise UnreadableInputError(f"{path} has no {MANIFEST} of a synthesised app", hint=HINT)
        found = list(self._assembly(folder, folder, 0))
        if not found:
            raise UnreadableInputError(f"{folder} has no stack", hint=HINT)
        yield from found

    def _assembly(self, folder: Path, root: Path, depth: int) -> Iterator[Template]:
        manifest = _mapping(_read(folder / MANIFEST, root))
        for name, artifact in _mapping(manifest.get("artifacts")).items():
            properties = _mapping(_mapping(artifact).get("properties"))
            kind = _mapping(artifact).get("type")
            if kind == "cdk:cloud-assembly" and depth < MAX_NESTED:
                yield from self._assembly(folder / str(properties.get("directoryName")), root, depth + 1)
            elif kind == "aws:cloudformation:stack":
                stack = str(properties.get("stackName", name))
                region = self.region_of(_mapping(artifact).get("environment"), stack)
                file = folder / str(properties.get("templateFile"))
                yield from self.stack(_Place(file, stack, region, root, depth), _mapping(properties.get("parameters")))

    def stack(self, place: _Place, parameters: Mapping[str, Any]) -> Iterator[Template]:
        """A stack and the stacks nested in it, whose templates lie beside it.

        Raises:
            UnreadableInputError: a file is no template.
        """
        body = _read(place.file, place.root)
        if isinstance(body, Mapping) and not body.keys() & {"Resources", "slipway"}:
            # The CDK writes the template of a stack that only contains other constructs, and does not deploy it.
            return
        body = _template(place.file, place.root)
        template = Template(body, place.name, place.region, {**parameters, **self.parameters})
        yield template
        for resource in template.resources() if place.depth < MAX_NESTED else ():
            asset = template.asset(resource.logical_id) if resource.type == NESTED else None
            if asset is not None:
                values = _mapping(resource.properties.get("Parameters")).items()
                known = {key: value for key, value in values if not isinstance(value, Unknown)}
                name = f"{place.name}/{resource.logical_id}"
                nested = place._replace(file=place.file.parent / asset, name=name, depth=place.depth + 1)
                yield from self.stack(nested, known)

    def region_of(self, environment: Any, stack: str) -> str:
        """The region of a stack's environment (aws://ACCOUNT/REGION), or the one for stacks without.

        Raises:
            UnreadableInputError: it has none, or one that the catalog does not know.
        """
        region = str(environment).rpartition("/")[2] if isinstance(environment, str) else ""
        if region in self.regions:
            return region
        if region not in {"", "unknown-region"}:
            raise UnreadableInputError(f"{stack} is in {cut(region)}, a region that the catalog does not know")
        if self.region is None:
            raise UnreadableInputError(f"{stack} names no region", hint="say which: --region us-east-1")
        return self.region


def _template(path: Path, root: Path) -> Mapping[str, Any]:
    """The content of a template.

    Raises:
        UnreadableInputError: the file is none.
    """
    body = _read(path, root)
    if not isinstance(body, Mapping) or not isinstance(body.get("Resources"), Mapping):
        is_plan = isinstance(body, Mapping) and "slipway" in body
        hint = f"{path} is a plan file: slipway plan {path}" if is_plan else HINT
        raise UnreadableInputError(f"{path} is no CloudFormation template: it has no Resources", hint=hint)
    return body


def _read(path: Path, root: Path) -> Any:
    """The value of a file as JSON, or as YAML; nothing outside `root` is read.

    Raises:
        UnreadableInputError: the file is neither.
    """
    try:
        text = read_named(path, MAX_BYTES) if path.parent == root else read_regular(path, MAX_BYTES, within=root)
        return safe_json.loads(text) if text.lstrip()[:1] == b"{" else template_yaml.loads(text.decode("utf-8-sig"))
    except (OSError, UnusableFileError, YamlError, ValueError) as problem:
        raise UnreadableInputError(f"cannot read {path}: {reason_of(problem)}", hint=HINT) from problem


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
