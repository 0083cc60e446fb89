"""Runs the CDK CLI: one synthesis, whose assembly is shown and then deployed. It needs a quote."""

import hashlib
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from launcher.agent import safe_json
from launcher.catalog.assets import root
from launcher.catalog.hyperpod_chart import chart_pins
from launcher.cdk import toolchain
from launcher.cdk.runner import Command, Completed, Runner
from launcher.model.bundle import Bundle
from launcher.model.errors import (
    DeploymentFailedError,
    ImpossibleError,
    OverBudgetError,
    SlipwayError,
    UnpricedError,
)
from launcher.model.quote import Quote

SHOWN_LINES = 25
_PROGRESS = re.compile(r"\| *\d+/\d+ *\|")
"""The column of the CDK's progress lines with the finished resources and all of them: `| 28/44 |`."""
PLAN_DIGEST = "PlanDigest"
"""The stack output that names the plan of the stack (infra/stacks)."""
_REFUSALS: dict[int, type[SlipwayError]] = {3: OverBudgetError, 4: UnpricedError, 5: ImpossibleError}

Listener = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """A cloud assembly in its state at synthesis.

    `digests` are those of the plans that its own templates name, `seal` is the hash of all its files. Slipway read both
    from the folder, so that a later change of the folder is detected. A dry run's assembly has neither.
    """

    folder: Path
    digests: frozenset[str]
    seal: str

    @classmethod
    def read(cls, folder: Path) -> "Assembly":
        """The assembly in a folder."""
        bare = cls(folder=folder, digests=frozenset(), seal="")
        outputs = [safe_json.load(path).get("Outputs", {}) for path in bare.templates.values()]
        named = frozenset(output[PLAN_DIGEST]["Value"] for output in outputs if PLAN_DIGEST in output)
        return cls(folder=folder, digests=named, seal=seal(folder))

    def refuse_if_changed(self) -> None:
        """Accept only the unchanged files of the synthesis.

        Raises:
            ImpossibleError: a file was changed, added or removed.
        """
        if self.seal and seal(self.folder) != self.seal:
            raise ImpossibleError(
                f"{self.folder} was changed after it was synthesised and shown: nothing is deployed",
                hint="run the command again; change the stacks through the plan file",
            )

    def copy_to(self, folder: Path) -> "Assembly":
        """The assembly in another, private folder: the CLI reads its files until the last stack is deployed.

        Raises:
            ImpossibleError: the assembly was changed after its synthesis.
        """
        if not self.seal:
            return self
        self.refuse_if_changed()
        shutil.copytree(self.folder, folder, symlinks=True)
        # A change between the check and the copy would be deployed.
        copy = replace(self, folder=folder)
        copy.refuse_if_changed()
        return copy

    @property
    def names_chart(self) -> bool:
        """Whether its stacks install HyperPod's chart, which a synthesis does not create."""
        return chart_pins().chart_name in "".join(
            path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("*.assets.json"))
        )

    def add_files(self, files: Mapping[str, bytes]) -> "Assembly":
        """The assembly with files that it names by their digests and that did not exist before.

        Raises:
            ImpossibleError: the assembly was changed after its synthesis.
        """
        self.refuse_if_changed()
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        return Assembly.read(self.folder)

    @property
    def stacks(self) -> tuple[str, ...]:
        """The names of the assembly's stacks."""
        return tuple(self.templates)

    @property
    def templates(self) -> dict[str, Path]:
        """The template file of each stack by its name."""
        manifest = safe_json.load(self.folder / "manifest.json")
        return {
            body.get("properties", {}).get("stackName", name): self.folder / body["properties"]["templateFile"]
            for name, body in manifest.get("artifacts", {}).items()
            if body["type"] == "aws:cloudformation:stack"
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdk:
    """The CDK CLI with a runner and the environment of its process (credentials, endpoint, region)."""

    runner: Runner
    environment: Mapping[str, str]

    def synth(self, plan: Path, digest: str, folder: Path, amounts: Mapping[str, Decimal] | None = None) -> Assembly:
        """Synthesise a plan's stacks into a folder.

        Args:
            plan: the run folder's plan file.
            digest: the quoted plan's digest: the stacks must belong to that plan.
            folder: the folder for the assembly.
            amounts: dollar amounts for the guard (`Quote.amounts`): without a rate the stack has no alarm on
                spending, without a lower limit only the plan's.

        Raises:
            ImpossibleError: the app refused the plan, or validation of the templates found a problem.
            ImpossibleError: the stacks belong to another plan than the quoted one.
        """
        given = [word for name, usd in (amounts or {}).items() for word in ("-c", f"{name}={usd:f}")]
        done = self._run(
            "synth",
            "--quiet",
            "--app",
            toolchain.app_command(),
            "-c",
            f"plan={plan.resolve()}",
            *given,
            "-o",
            str(folder),
        )
        problems = validation_problems(folder)
        if done.code != 0 or problems:
            details = "\n".join([*problems, *done.lines[-SHOWN_LINES:]])
            raise ImpossibleError(f"the stacks could not be synthesised (cdk exit {done.code}):\n{details}")
        # A runner that only shows commands has written no assembly.
        if not self.runner.carries_out:
            return Assembly(folder=folder, digests=frozenset(), seal="")
        assembly = Assembly.read(folder)
        if assembly.digests != {digest}:
            raise ImpossibleError(
                f"the quote is for plan {digest[:12]}, the stacks are of {_short(assembly.digests)}: "
                f"{plan} changed in between",
                hint="run the command again; nothing was deployed",
            )
        return assembly

    def bootstrap(self, assembly: Assembly, account: str, region: str, qualifier: str | None) -> None:
        """Create the bucket and roles with which the CDK deploys, if they are missing.

        Raises:
            DeploymentFailedError: the bootstrap failed.
        """
        more = ("--qualifier", qualifier, "--toolkit-stack-name", toolkit_stack(qualifier)) if qualifier else ()
        done = self._run("bootstrap", f"aws://{account}/{region}", "--app", str(assembly.folder), *more)
        if done.code != 0:
            raise DeploymentFailedError("cdk bootstrap failed:\n" + "\n".join(done.lines[-SHOWN_LINES:]))

    def deploy_assembly(
        self,
        assembly: Assembly,
        outputs: Path,
        on_line: Listener | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> Completed:
        """Deploy an assembly; callers use `deploy`, which checks it first."""
        given = [word for name, value in (inputs or {}).items() for word in ("--parameters", f"{name}={value}")]
        return self._run(
            "deploy",
            "--app",
            str(assembly.folder),
            "--all",
            "--require-approval",
            "never",
            "--progress",
            "events",
            "--outputs-file",
            str(outputs),
            *given,
            on_line=on_line,
        )

    def _run(self, *arguments: str, on_line: Listener | None = None) -> Completed:
        """Run the CLI in the folder of cdk.json, so that its feature flags apply."""
        argv = (*toolchain.cdk_command(self.environment), *arguments)
        command = Command(argv=argv, cwd=root(), environment=toolchain.environment(self.environment))
        return self.runner.run(command, on_line)


def toolkit_stack(qualifier: str | None) -> str:
    """The name of the stack that the CDK's bootstrap creates."""
    return "CDKToolkit" if qualifier is None else f"CDKToolkit-{qualifier}"


def seal(folder: Path) -> str:
    """The hash of the name and content of every file in a folder; a link counts as its target path.

    The hash excludes the CDK CLI's own locks, which come and go while it reads.
    """
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".lock" and path.parent == folder:
            continue
        if path.is_symlink():
            content = b"-> " + bytes(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        else:
            continue
        name = path.relative_to(folder).as_posix().encode(errors="surrogateescape")
        whole.update(hashlib.sha256(name).digest() + hashlib.sha256(content).digest())
    return whole.hexdigest()


def _short(digests: Collection[str]) -> str:
    return ", ".join(sorted(digest[:12] for digest in digests)) or "no plan"


def validation_problems(folder: Path) -> list[str]:
    """The problems in an assembly's validation report; the CDK writes templates even if validation fails."""
    path = folder / "validation-report.json"
    if not path.is_file():
        return []
    report = safe_json.load(path)
    return [
        f"{violation.get('ruleName', 'rule')}: {violation.get('description', '')}"
        for plugin in report.get("pluginReports", [])
        if plugin.get("conclusion", plugin.get("summary", {}).get("status")) == "failure"
        for violation in plugin.get("violations", [])
    ]


def deploy(
    quote: Quote,
    bundle: Bundle,
    assembly: Assembly,
    cdk: Cdk,
    *,
    outputs: Path,
    now: datetime,
    on_line: Listener | None = None,
    inputs: Mapping[str, str] | None = None,
) -> dict[str, dict[str, str]]:
    """Deploy the quoted, rendered and synthesised plan; return the outputs of every stack.

    `inputs` are parameters of its stacks, by stack and name: "stack:name".

    Raises:
        ImpossibleError: quote, files and assembly are not of one plan, or the assembly differs from the one shown.
        UnpricedError: the quote's prices are now too old.
        OverBudgetError, UnpricedError, ImpossibleError: the gate refuses the quote.
        DeploymentFailedError: CloudFormation failed.
    """
    stacks = assembly.digests if cdk.runner.carries_out else {quote.digest}
    if bundle.digest != quote.digest or stacks != {quote.digest}:
        raise ImpossibleError(
            f"the quote is for plan {quote.digest[:12]}, the files are of {bundle.digest[:12]}, "
            f"the stacks of {_short(stacks)}",
            hint="quote the plan again",
        )
    if not quote.gate.allows_launch:
        raise _REFUSALS[quote.gate.exit_code](quote.gate.reason, hint=quote.gate.hint)
    # On the day of the quote its prices are those that were shown.
    if quote.expires_at is not None and now > quote.expires_at and now.date() > quote.as_of.date():
        raise UnpricedError(
            f"the quote was good until {quote.expires_at:%Y-%m-%d %H:%M} UTC", hint="quote the plan again"
        )
    with TemporaryDirectory(prefix="slipway-assembly-") as place:
        written = Path(place) / outputs.name
        done = cdk.deploy_assembly(assembly.copy_to(Path(place) / "cdk.out"), written, on_line, inputs)
        if written.is_file():
            # The CLI may be killed while it writes: the run folder has a whole file or none.
            copy = shutil.copyfile(written, outputs.with_name(f".{outputs.name}"))
            copy.replace(outputs)
    if done.code != 0:
        raise DeploymentFailedError(
            f"the deployment failed (cdk exit {done.code}):\n" + "\n".join(failure_lines(done.lines)),
            hint=f"what was created stays until `slipway down {quote.plan.cluster_name}`; the events name the resource",
        )
    return dict(safe_json.load(outputs)) if outputs.is_file() else {}


def failure_lines(lines: tuple[str, ...]) -> list[str]:
    """The lines that give the reason for a failed deployment, each event once, or the last lines.

    The CDK prints an event when it happens, with the number of finished resources, and again at the end.
    """
    failed = [line.strip() for line in lines if "_FAILED" in line or "failed:" in line]
    # A line that ends there announces the reason, which is an event of its own.
    reasons = [line for line in failed if not line.endswith("failed:")] or failed
    events = {" ".join(_PROGRESS.sub("|", line, count=1).split()): line for line in reasons}
    return list(events.values())[:SHOWN_LINES] or [line for line in lines if line.strip()][-SHOWN_LINES:]
