"""The rules of the house that import-linter cannot express; which package may import which is in pyproject.toml."""

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import tarfile
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.plans import ROOT

pytestmark = pytest.mark.xdist_group("architecture")  # its modules are read once

SOURCES = sorted(path for package in ("launcher", "infra") for path in (ROOT / package).rglob("*.py"))
EVERYTHING = SOURCES + sorted(path for f in ("tests", "benchmarks", "examples") for path in (ROOT / f).rglob("*.py"))

MODULE_LINES = 600
FUNCTION_LINES = 50
VAGUE_NAMES = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}

PURE = {"model", "planning", "pricing"}
CLOCKLESS = PURE | {"catalog", "rendering"}
FLOORS = {
    **dict.fromkeys(("target", "updates", "bases", "registry"), "planning"),
    "files": "rendering",
    **dict.fromkeys(("cluster", "stacks", "readback", "clusters"), "workflow"),
}
"""The parts of targets and their registries, by module."""
PROCESS_PACKAGES = {"agent", "cdk", "sandbox", "submit"}
OUTSIDE = {
    *("asyncio", "fileinput", "ftplib", "getpass", "glob", "http", "importlib", "io", "locale", "multiprocessing"),
    *("pathlib", "platform", "random", "secrets", "select", "shelve", "shutil", "signal", "socket", "sqlite3"),
    *("os", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid", "yaml"),
}
"""Modules through which the world gets into a result: files, network, other processes, clock, chance."""

SHARED_BY_AGENT = {
    f"launcher.agent.{module}"
    for module in (
        "attempt_state",
        "checkpoint_keys",
        "command_line",
        "dcp_metadata",
        "errors",
        "exits",
        "forecast",
        "interval",
        "job",
        "manifest",
        "manifest_tree",
        "metrics",
        "output_manifest",
        "safe_json",
        "shape",
        "withdrawn",
    )
}
"""What both sides need is there once, in the agent, on the standard library alone."""
BUILDER = "launcher.agent.build"
"""The one function that packs the agent into a file; the workflow calls it when it makes a job folder."""
HEAVY = ["aws_cdk", "boto3", "botocore", "jinja2", "moto"]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def package(path: Path) -> str:
    """The part of the launcher that a module belongs to, a target's module to its floor's; "infra" for all of infra."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[:2] == ("launcher", "targets"):
        return FLOORS.get(parts[-1], "targets")
    return parts[1] if parts[0] == "launcher" and len(parts) > 1 else parts[0]


class Facts(NamedTuple):
    """What the rules ask of a module, gathered in one walk through it.

    `imports`: dotted names; `from a import b` is both a and a.b. `members`: line and text of every `owner.member`, the
    owner by its last name: "datetime.now", "os.environ". `functions`: name and length in lines of every function,
    decorators and docstring left out. `calls`: line and name of every call by a plain name. `plurals`: lines of texts
    with an ending `s` that depends on a number other than 1.
    """

    imports: list[str]
    members: list[tuple[int, str]]
    functions: list[tuple[str, int]]
    calls: list[tuple[int, str]]
    plurals: list[int]


@cache
def facts(path: Path) -> Facts:
    facts_found = Facts([], [], [], [], [])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            facts_found.imports.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}:{node.lineno} imports relative to itself"
            facts_found.imports.append(str(node.module))
            facts_found.imports.extend(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            owner = node.value
            text = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            facts_found.members.append((node.lineno, f"{text}.{node.attr}"))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = first.end_lineno - first.lineno + 1 if documented else 0
            facts_found.functions.append((node.name, node.end_lineno - node.lineno + 1 - docstring))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            facts_found.calls.append((node.lineno, node.func.id))
        elif isinstance(node, ast.IfExp) and isinstance(node.test, ast.Compare):
            endings = [part.value for part in (node.body, node.orelse) if isinstance(part, ast.Constant)]
            if endings == (["", "s"] if isinstance(node.test.ops[0], ast.Eq) else ["s", ""]):
                facts_found.plurals.append(node.lineno)
    return facts_found


def tops(path: Path) -> set[str]:
    return {module.partition(".")[0] for module in facts(path).imports}


class TestSize:
    def test_sources_to_check_exist(self):
        assert len(SOURCES) > 20

    def test_modules_are_within_the_line_limit(self):
        lengths = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in EVERYTHING}
        assert {module: lines for module, lines in lengths.items() if lines > MODULE_LINES} == {}

    def test_functions_are_within_the_line_limit(self):
        assert {f"{name(p)}:{f}": n for p in SOURCES for f, n in facts(p).functions if n > FUNCTION_LINES} == {}


class TestNames:
    def test_every_init_is_empty_except_the_interfaces_and_the_command_line(self):
        """That of the command line says how often garbage is looked for, before anything is loaded."""
        filled = [name(path) for path in SOURCES if path.name == "__init__.py" and path.stat().st_size]
        assert sorted(filled) == [
            "infra/public/slipway_aws/__init__.py",
            "launcher/__init__.py",
            "launcher/cli/__init__.py",
        ]

    def test_no_module_has_a_vague_name(self):
        assert [name(p) for p in SOURCES if VAGUE_NAMES & set(p.relative_to(ROOT).with_suffix("").parts)] == []

    def test_no_module_imports_a_test_module(self):
        tests = {name(path).removesuffix(".py").replace("/", ".") for path in EVERYTHING if path.match("test_*.py")}
        assert len(tests) > 300
        imports = {
            f"{name(path)} imports {module}" for path in EVERYTHING for module in facts(path).imports if module in tests
        }
        assert imports == set()

    def test_infra_does_not_shadow_constructs(self):
        assert not (ROOT / "infra" / "constructs").exists()


class TestPurity:
    def test_pure_packages_import_no_outside_module(self):
        outside_imports = {name(path): tops(path) & OUTSIDE for path in SOURCES if package(path) in PURE}
        assert {module: outside for module, outside in outside_imports.items() if outside} == {}

    def test_pure_packages_open_no_file_and_print_no_output(self):
        calls = [
            f"{name(path)}:{line} {called}"
            for path in SOURCES
            if package(path) in PURE
            for line, called in facts(path).calls
            if called in {"__import__", "eval", "exec", "input", "open", "print"}
        ]
        # It writes constructors, as dataclasses does: of the names of fields alone.
        assert [call for call in calls if not re.fullmatch(r"launcher/model/record\.py:\d+ exec", call)] == []

    def test_time_and_environment_are_arguments_in_pure_packages(self):
        clock = re.compile(r"(datetime|date|dt)\.(now|today|utcnow)|os\.(environ|environb|getenv|getcwd)")
        clock_reads = [
            f"{name(path)}:{line} {member}"
            for path in SOURCES
            if package(path) in CLOCKLESS
            for line, member in facts(path).members
            if clock.fullmatch(member)
        ]
        assert clock_reads == []
        assert [name(path) for path in SOURCES if package(path) in CLOCKLESS and "time" in tops(path)] == []

    def test_processes_are_started_in_the_allowed_packages_only(self):
        start = re.compile(
            r"os\.(system|popen|fork|forkpty|posix_spawnp?|exec[lv]p?e?|spawn[lv]p?e?)|asyncio\.create_sub.*"
        )
        starts = [
            f"{name(path)}:{line} {member}"
            for path in SOURCES
            if package(path) not in PROCESS_PACKAGES
            for line, member in facts(path).members
            if start.fullmatch(member)
        ]
        assert starts == []

    def test_environment_in_infra_is_read_by_the_app_only(self):
        readers = [path for path in SOURCES if package(path) == "infra" and "os" in tops(path)]
        assert [name(path) for path in readers if path.name != "app.py"] == []


class TestEmulator:
    def test_emulator_is_imported_by_one_module_of_the_launcher(self):
        importers = {
            name(path)
            for path in SOURCES
            if package(path) != "sandbox" and any(f"{i}.".startswith("launcher.sandbox.") for i in facts(path).imports)
        }
        assert importers == {"launcher/emulation.py"}

    def test_launch_on_aws_loads_no_module_of_the_emulator(self):
        code = (
            "import sys, launcher.workflow.run.plan_launch, launcher.workflow.deploy.plan_deploy,"
            " launcher.workflow.run.existing_down, launcher.workflow.deploy.down\n"
            "print(sorted(name for name in sys.modules if f'{name}.'.startswith(('launcher.sandbox.', 'moto.'))))"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.stdout.strip(), done.stderr) == ("[]", "")


class TestCircles:
    def test_no_modules_import_each_other_even_in_functions_or_for_types(self):
        dotted = {name(path).removesuffix(".py").replace("/", "."): path for path in SOURCES if path.stem != "__init__"}
        graph = {
            module: {imported for imported in facts(path).imports if imported in dotted and imported != module}
            for module, path in dotted.items()
        }
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as circle:
            pytest.fail(f"modules in a circle: {circle.args[1]}")


def owner(imported: str) -> str:
    """The module of the agent that an imported name is, or is in."""
    return ".".join(imported.split(".")[:3])


AGENT = [path for path in SOURCES if package(path) == "agent"]


class TestAgent:
    def test_agent_imports_only_the_standard_library_and_boto3(self):
        allowed = set(sys.stdlib_module_names) | {"boto3"} | {"botocore", "s3transfer", "urllib3"}
        other_imports = {name(path): sorted(tops(path) - allowed - {"launcher"}) for path in AGENT}
        assert {module: others for module, others in other_imports.items() if others} == {}
        inside = {module for path in AGENT for module in facts(path).imports if module.startswith("launcher")}
        assert {module for module in inside if not f"{module}.".startswith("launcher.agent.")} == set()

    def test_modules_shared_with_the_agent_import_only_the_standard_library(self):
        shared = [path for path in AGENT if name(path).removesuffix(".py").replace("/", ".") in SHARED_BY_AGENT]
        assert len(shared) == len(SHARED_BY_AGENT)
        other_imports = {
            name(path): sorted(tops(path) - set(sys.stdlib_module_names) - {"launcher"}) for path in shared
        }
        assert {module: others for module, others in other_imports.items() if others} == {}
        inside = {
            owner(module) for path in shared for module in facts(path).imports if module.startswith("launcher.agent.")
        }
        assert inside <= SHARED_BY_AGENT

    def test_launcher_imports_only_shared_modules_of_the_agent(self):
        imports = {
            f"{name(path)} imports {module}"
            for path in SOURCES
            if package(path) != "agent"
            for module in facts(path).imports
            if module.startswith("launcher.agent.")
            and owner(module) not in SHARED_BY_AGENT
            and not (owner(module) == BUILDER and package(path) == "workflow")
        }
        assert imports == set()


class TestPages:
    def test_aws_pages_are_read_in_one_module_and_the_agent_only(self):
        sources = [path for path in SOURCES if package(path) != "agent" and name(path) != "launcher/aws/calls.py"]
        assert [name(path) for path in sources if "get_paginator" in path.read_text(encoding="utf-8")] == []


class TestStart:
    """What a person waits for: --help and `slipway plan` load no cloud library."""

    PROGRAM = """
import json, runpy, sys
sys.argv = ["slipway", *sys.argv[1:]]
code = 1
try:
    runpy.run_module("launcher", run_name="__main__")
except SystemExit as stop:
    code = stop.code or 0
finally:
    heavy = [name for name in json.loads({heavy!r}) if name in sys.modules]
    print(json.dumps([code, heavy]))
"""

    @pytest.mark.parametrize("words", [["--help"], ["plan", "examples/tiny-gpt.yaml"]], ids=["help", "plan"])
    def test_start_loads_no_cloud_library(self, words):
        program = self.PROGRAM.format(heavy=json.dumps(HEAVY))
        command = [sys.executable, "-c", program, *words]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert json.loads(answer.stdout.splitlines()[-1]) == [0, []], answer.stderr


class TestLocks:
    @pytest.mark.parametrize("lock", ["requirements.lock", "package-lock.json"])
    def test_lock_files_contain_no_host_and_no_path(self, lock):
        text = (ROOT / lock).read_text(encoding="utf-8")
        assert re.findall(r"(?m)^.*(?:://|file:|--(?:extra-)?index|--find-links|--trusted-host|^/|\s/).*$", text) == []

    def test_every_requirement_is_locked_with_hashes(self):
        lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
        pins = re.findall(r"(?m)^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)[^\n]*\\\n\s+--hash=sha256:", lock)
        assert len(pins) == len(re.findall(r"(?m)^[\w.-]+(?:==| @)", lock))
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        requirements = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
        requirements += [line for extra in project["project"]["optional-dependencies"].values() for line in extra]
        for requirement in map(Requirement, requirements):
            versions = [version for pin, version in pins if pin == canonicalize_name(requirement.name)]
            assert versions, f"{requirement} is not in requirements.lock: make lock"
            assert all(requirement.specifier.contains(version) for version in versions), f"{requirement}: {versions}"

    def test_cdk_cli_is_locked_with_a_hash(self):
        pinned = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["dependencies"]["aws-cdk"]
        lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))
        entry = lock["packages"]["node_modules/aws-cdk"]
        assert (entry["version"], entry["integrity"].partition("-")[0]) == (pinned, "sha512")

    def test_cdk_json_has_the_recommended_flags_of_the_locked_library(self):
        library = Path(str(importlib.metadata.distribution("aws-cdk-lib").locate_file("aws_cdk/_jsii")))
        with tarfile.open(next(library.glob("aws-cdk-lib@*.jsii.tgz"))) as archive:
            recommended = json.load(archive.extractfile("package/recommended-feature-flags.json"))
        settings = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))
        assert settings["app"] == "python -P -m infra.app"
        flags = {flag: value for flag, value in settings["context"].items() if flag.startswith("@")}
        # "weak", the recommendation, would let the network be deleted under a running cluster.
        assert flags == recommended | {"@aws-cdk/core:defaultCrossStackReferences": "strong"}

    def test_installed_version_equals_pyproject(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert importlib.metadata.version(project["name"]) == project["version"]


def test_no_module_of_infra_or_the_launcher_imports_slipway_aws():
    """It is above both: they work without it, and it may change without them."""
    users = [path for path in SOURCES if "slipway_aws" not in path.parts and "slipway_aws" in tops(path)]
    assert users == []


def test_no_message_makes_a_plural_by_hand():
    """`number_of` writes a number with its noun: an ending of its own in each message forgets the singular."""
    assert [f"{name(path)}:{line}" for path in SOURCES if path.name != "units.py" for line in facts(path).plurals] == []
