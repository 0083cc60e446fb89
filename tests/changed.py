"""The test files that can reach what changed since `main`: `python -m tests.changed [BASE]` prints them, one a line.

A file reaches another by its imports, by the name of a module in a string (commands are loaded by name),
and by the name of a data file or template in a string. A test of a command line reaches the commands that it names.
Tests that need servers, the CDK or other components take long: of them only the `MOST_SLOW` nearest within `NEAR` steps
of a change are printed, and the number of the others is reported on standard error.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
CODE = ("launcher", "infra", "templates", "examples", "benchmarks", "tests")
SLOW_FOLDERS = ("attack", "enforced", "infra", "live", "sandbox")
"""Folders of tests that start servers or synthesise (FOLDER_MARKS of tests/conftest.py)."""
NEAR, MOST_SLOW = 2, 12
ALWAYS = ("tests/test_architecture.py", "tests/test_contributing.py")
EVERYTHING = ("pyproject.toml", "requirements.lock", "package-lock.json", "tests/conftest.py")
"""Files whose change can change any test."""
READ_BY_NAME = re.compile(r"[\w./-]*\w\.(?:csv|j2|json|lock|md|sh|toml|txt|yaml|yml)")
WORD = re.compile(r"\w+")
MODULE_NAME = re.compile(r"(?:launcher|infra|tests|benchmarks)(?:\.\w+)+")


def main(arguments: list[str]) -> int:
    """Print the tests for the difference between the working tree and a commit, by default the fork from `main`."""
    changed = changed_files(arguments[0] if arguments else fork())
    if not changed:
        print("nothing has changed", file=sys.stderr)
        return 0
    near, far = select(changed, Graph(ROOT, tracked()))
    print("\n".join(near))
    if far:
        print(
            f"{len(far)} more test files can reach the change; they take long and are left to make test",
            file=sys.stderr,
        )
    return 0


def fork() -> str:
    """The commit at which this branch left `main`; on `main` itself, that of the remote branch, or else HEAD."""
    for branch in ("main", "origin/main"):
        found = subprocess.run(
            ["git", "merge-base", "HEAD", branch], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if found.returncode == 0 and found.stdout.strip() != git("rev-parse", "HEAD").strip():
            return found.stdout.strip()
    return "HEAD"


def changed_files(base: str) -> list[str]:
    """Changed, removed and new files, relative to the checkout."""
    listed = git("diff", "--name-only", "--no-renames", base) + git("ls-files", "--others", "--exclude-standard")
    return sorted(set(listed.splitlines()))


def tracked() -> list[str]:
    return [
        name
        for name in git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
        if (ROOT / name).is_file()
    ]


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def select(changed: Iterable[str], graph: "Graph") -> tuple[list[str], list[str]]:
    """The test files to run, and those that reach a change but take long and stand further away."""
    changed = list(changed)
    tests = [name for name in graph.files if PurePosixPath(name).name.startswith("test_") and name.startswith("tests/")]
    if any(name in EVERYTHING for name in changed):
        return sorted(tests), []
    steps = graph.steps_from(changed)
    reached = {name: steps[name] for name in tests if name in steps}
    slow = sorted((count, name) for name, count in reached.items() if is_slow(name))
    far = sorted(name for number, (count, name) in enumerate(slow) if count > NEAR or number >= MOST_SLOW)
    doctested = [name for name in changed if name in graph.files and has_doctest(name)]
    return sorted({*(reached.keys() - set(far)), *ALWAYS, *doctested} & graph.files), far


def is_slow(name: str) -> bool:
    return PurePosixPath(name).parts[1] in SLOW_FOLDERS


def has_doctest(name: str) -> bool:
    return name.startswith("launcher/") and name.endswith(".py") and ">>> " in (ROOT / name).read_text(encoding="utf-8")


class Graph:
    """What each file of the checkout reads."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self.files = set(files)
        self._root = root
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for name in self.files:
            self._by_name[PurePosixPath(name).name].append(name)
        self._readers: dict[str, set[str]] = defaultdict(set)
        self._words: dict[str, set[str]] = {}
        self._folders = {str(folder) for name in self.files for folder in PurePosixPath(name).parents} - {"."}
        for name in sorted(self.files):
            if name.startswith(CODE) and name.endswith((".py", ".j2")):
                for read in self._reads(name):
                    self._readers[read].add(name)
        self._add_fixtures()

    def steps_from(self, changed: Iterable[str]) -> Mapping[str, int]:
        """Every file that can reach a change, with the number of files in between plus one; 0 for the change itself."""
        steps = dict.fromkeys(changed, 0)
        for conftest in [name for name in steps if PurePosixPath(name).name == "conftest.py"]:
            below = f"{PurePosixPath(conftest).parent}/"
            steps |= {name: 1 for name in self.files if name.startswith(below) and name not in steps}
        waiting = deque(steps)
        while waiting:
            name = waiting.popleft()
            for reader in self._readers[name]:
                if reader not in steps:
                    steps[reader] = steps[name] + 1
                    waiting.append(reader)
        return steps

    def _add_fixtures(self) -> None:
        """A test that names a fixture of a conftest.py above it reads what the fixture's functions read."""
        for name in self._by_name["conftest.py"]:
            fixtures = Fixtures((self._root / name).read_text(encoding="utf-8"))
            below = f"{PurePosixPath(name).parent}/"
            reads: dict[ast.AST, set[str]] = {}
            for test in [test for test in self._words if test.startswith(below) and test != name]:
                for node in fixtures.used_by(self._words[test]):
                    if node not in reads:
                        reads[node] = set(self._reads_of(ast.walk(node), name))
                    for read in reads[node]:
                        self._readers[read].add(test)

    def _reads(self, name: str) -> Iterator[str]:
        text = (self._root / name).read_text(encoding="utf-8")
        if name.endswith(".j2"):
            yield from self._named(text)
            return
        if name.startswith("tests/"):
            self._words[name] = set(WORD.findall(text))
        if PurePosixPath(name).name == "conftest.py":
            return
        nodes = list(ast.walk(ast.parse(text)))
        if name.startswith("tests/"):
            yield from self._commands(nodes)
        yield from self._reads_of(nodes, name)

    def _reads_of(self, nodes: Iterable[ast.AST], name: str) -> Iterator[str]:
        """What nodes of the file `name` import or name."""
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._module(alias.name)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from self._module(node.module)
                for alias in node.names:
                    yield from self._module(f"{node.module}.{alias.name}")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._named(node.value)
                if name.startswith("tests/"):
                    yield from self._folder(node.value.strip("/"))
            elif isinstance(node, ast.JoinedStr):
                yield from self._loaded_by_name(node, name)

    def _module(self, dotted: str) -> Iterator[str]:
        path = dotted.replace(".", "/")
        yield from {f"{path}.py", f"{path}/__init__.py"} & self.files

    def _named(self, text: str) -> Iterator[str]:
        """The files and modules that a string names."""
        for named in READ_BY_NAME.findall(text):
            yield from self._ending_with(named.lstrip("./"))
        for dotted in MODULE_NAME.findall(text):
            yield from self._module(dotted)

    def _folder(self, named: str) -> Iterator[str]:
        """The documents of a folder that a test names from the checkout's root."""
        if named in self._folders and not named.startswith(("launcher", "tests")) and named != "infra":
            yield from (name for name in self.files if name.startswith(f"{named}/"))

    def _ending_with(self, named: str) -> Iterator[str]:
        for name in self._by_name[PurePosixPath(named).name]:
            if name == named or name.endswith(f"/{named}"):
                yield name

    def _loaded_by_name(self, node: ast.JoinedStr, reader: str) -> Iterator[str]:
        """The modules below a prefix such as `infra.stacks.`; commands are found by the tests that name them."""
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and reader != "launcher/cli/app.py":
            prefix = str(first.value)
            if prefix.endswith(".") and MODULE_NAME.fullmatch(prefix[:-1] + ".x"):
                folder = prefix.replace(".", "/")
                yield from (name for name in self.files if name.startswith(folder) and name.endswith(".py"))

    def _commands(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        """The modules of the commands that a test names, alone or as the first word of a command line."""
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
                word = node.value.split()[0] if node.value.split() else ""
                yield from {f"launcher/cli/{word.replace('-', '_')}.py"} & self.files


class Fixtures:
    """The functions and imports of a conftest.py, by the names through which they are used."""

    def __init__(self, text: str) -> None:
        self._nodes: dict[str, ast.AST] = {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self._nodes[node.name] = node
            elif isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    one = (
                        ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], 0)
                    )
                    self._nodes[(alias.asname or alias.name).partition(".")[0]] = one
            elif isinstance(node, ast.Assign):
                self._nodes |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}

    def used_by(self, words: set[str]) -> Iterator[ast.AST]:
        """The parts that are used by the fixtures among the words, directly or through others."""
        waiting, known = [name for name in self._nodes if name in words], set()
        while waiting:
            name = waiting.pop()
            if name in known:
                continue
            known.add(name)
            yield self._nodes[name]
            for node in ast.walk(self._nodes[name]):
                used = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""
                if used in self._nodes:
                    waiting.append(used)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
