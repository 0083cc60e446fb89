"""The keys of a checkpoint's objects, and the steps that they and the trainers' folders name. Standard library only.

Below the checkpoint URI:

    step-120/manifest.json                  the commit, one PUT after everything else: without it no checkpoint exists
    step-120/<session>/manifest.json        the commit of a later attempt for a step that has another commit
    step-120/<session>/part-0.json          the files that node 0 uploaded (jobs on several nodes only)
    step-120/<session>/<part>-<token>/...   the files; a session is one attempt of the job, a token one try of a node

No key except `part-k.json` is ever written twice, so two agents on one prefix cannot mix their files; for each
`manifest.json` the bucket's policy enforces this. If a step has two commits, the later complete one counts.
"""

import re
from collections.abc import Iterable

COMMIT_NAME = "manifest.json"

_FOLDER = re.compile(r"(?:step|checkpoint)-(\d{1,18})")
_STEP_KEY = re.compile(r"(?:step|checkpoint)-(\d{1,18})/")


def place_text(step: int, *, counted: bool) -> str:
    """A checkpoint's place as people read it: its step, or the number of its save.

    >>> place_text(40, counted=False), place_text(41, counted=True)
    ('step 40', 'save 41')
    """
    return f"save {step}" if counted else f"step {step}"


def step_of_folder(name: str) -> int | None:
    """N of `step-N` or `checkpoint-N`, else None.

    >>> step_of_folder("checkpoint-500"), step_of_folder("step-7.tmp")
    (500, None)
    """
    match = _FOLDER.fullmatch(name)
    return int(match.group(1)) if match else None


def step_of_key(key: str) -> int | None:
    """The step to which a relative key belongs, else None.

    >>> step_of_key("step-120/manifest.json"), step_of_key("notes.txt")
    (120, None)
    """
    match = _STEP_KEY.match(key)
    return int(match.group(1)) if match else None


def commit_key(step: int) -> str:
    """The key of a step's commit.

    >>> commit_key(120)
    'step-120/manifest.json'
    """
    return f"step-{step}/{COMMIT_NAME}"


def second_commit_key(step: int, session: str) -> str:
    """The key with which an attempt commits a step that has another commit.

    >>> second_commit_key(120, "r1.a2")
    'step-120/r1.a2/manifest.json'
    """
    return f"step-{step}/{session}/{COMMIT_NAME}"


def commit_places(step: int, session: str, stored: Iterable[str] = ()) -> list[str]:
    """The keys with which an attempt may commit a step, in order: each is written once.

    `stored`: keys of the store, among them its earlier commits of the step: the last of these and the next one count.

    >>> commit_places(120, "r1.a2", ["step-120/r1.a2.7/manifest.json"])[2:]
    ['step-120/r1.a2.7/manifest.json', 'step-120/r1.a2.8/manifest.json']
    """
    later = re.compile(re.escape(f"step-{step}/{session}.") + r"(\d{1,9})/" + re.escape(COMMIT_NAME))
    numbers = [int(match[1]) for key in stored if (match := later.fullmatch(key))]
    last = max(numbers, default=1)
    again = [second_commit_key(step, f"{session}.{number}") for number in (last, last + 1) if number > 1]
    return [commit_key(step), second_commit_key(step, session), *again]


def commit_keys(step: int, keys: Iterable[str]) -> list[str]:
    """The commits of a step among the keys of a store, the first commit first.

    >>> commit_keys(7, ["step-7/r1/manifest.json", "step-7/r1/0-ab/manifest.json_", "step-7/manifest.json"])
    ['step-7/manifest.json', 'step-7/r1/manifest.json']
    """
    later = re.compile(rf"step-{step}/[^/]+/{re.escape(COMMIT_NAME)}")
    first = commit_key(step)
    return sorted((key for key in keys if key == first or later.fullmatch(key)), key=lambda key: (key != first, key))


def object_key(base: str, path: str) -> str:
    """The key of a checkpoint file: below `base` under its own name, but never under that of a commit.

    >>> object_key("step-7/r1/0-ab", "model/manifest.json"), object_key("step-7/r1/0-ab", "a.bin")
    ('step-7/r1/0-ab/model/manifest.json_', 'step-7/r1/0-ab/a.bin')
    """
    key = f"{base}/{path}"
    return f"{key}_" if key.endswith(f"/{COMMIT_NAME}") else key


def part_key(*, step: int, session: str, part: int) -> str:
    """The key with which one node announces its part.

    >>> part_key(step=120, session="r1.a2", part=0)
    'step-120/r1.a2/part-0.json'
    """
    return f"step-{step}/{session}/part-{part}.json"
