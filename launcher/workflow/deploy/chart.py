"""HyperPod's chart and the layer with helm: fetched once, checked by digest, cached, copied into an assembly."""

from collections.abc import Mapping
from pathlib import Path

from launcher.aws.feeds.download import PublicDownloads
from launcher.catalog.hyperpod_chart import ChartPins, PinnedFile, chart_pins
from launcher.cdk.chart import NAMED, assembly_files, fetch_command, files_in
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.stages import Notify
from launcher.records.cache_folder import own_folder


def chart_cache(environment: Mapping[str, str]) -> Path:
    """The cache folder of fetched files, the same for every AWS account."""
    return own_folder(environment) / "hyperpod-chart"


def chart_and_layer(environment: Mapping[str, str], notify: Notify) -> dict[str, bytes]:
    """The chart and the layer with helm, by their names in an assembly; fetched if they are not cached.

    Raises:
        ImpossibleError: a file cannot be fetched or its digest differs; the error has the command that fetches all.
    """
    pins, named, cache = chart_pins(), environment.get(NAMED), chart_cache(environment)
    if named is not None:
        return assembly_files(pins, files_in(pins, Path(named)))
    content = {file.name: (cache / file.name).read_bytes() for file in pins.files if (cache / file.name).is_file()}
    missing = [file for file in pins.files if file.name not in content]
    content |= _fetch_missing(missing, cache, pins, notify)
    contents = assembly_files(pins, content)
    for pinned_file in missing:
        _write(cache / pinned_file.name, content[pinned_file.name])
    return contents


def cached_files(environment: Mapping[str, str]) -> dict[str, bytes] | None:
    """The chart and the layer, if all files are cached; None if one must be fetched.

    Raises:
        ImpossibleError: the digest of a file differs.
    """
    named = environment.get(NAMED)
    folder = chart_cache(environment) if named is None else Path(named)
    if not all((folder / file.name).is_file() for file in chart_pins().files):
        return None
    return chart_and_layer(environment, lambda _: None)


def _fetch_missing(missing: list[PinnedFile], cache: Path, pins: ChartPins, notify: Notify) -> dict[str, bytes]:
    if not missing:
        return {}
    downloads, contents = PublicDownloads(cache / "parts"), {}
    try:
        for pinned_file in missing:
            notify(f"fetching {pinned_file.name} from {pinned_file.url.split('/')[2]}: once, verified by its digest")
            file = downloads.fetch(pinned_file.url)
            if file is not None:
                contents[pinned_file.name] = file.path.read_bytes()
                downloads.forget(file)
    except AwsError as problem:
        message = f"cannot fetch HyperPod's Helm chart: {problem.message}; nothing was deployed"
        raise ImpossibleError(message, hint=fetch_command(pins, Path("hyperpod-chart"))) from problem
    finally:
        downloads.close()
    return contents


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f"{path.suffix}.new")
    fresh.write_bytes(content)
    fresh.replace(path)
