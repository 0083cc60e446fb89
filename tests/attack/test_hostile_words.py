"""Other people's words in everything that a command reads: they are shown, and steer no terminal, CI log or sheet.

Hostile words stand in a colleague's run folder, in the shared ledger that follows from it, in a branch's plan and its
file names, in a cluster's answers and in the names of a bucket. No command may print a control or format character, a
line that a CI system obeys, or a cell that a spreadsheet computes.
"""

import copy
import csv
import io
import json
import random
import shutil
from decimal import Decimal, InvalidOperation

import pytest

from launcher.agent.manifest import Manifest, StoredFile
from tests.attack.commands import run
from tests.checks import refuse_obeyed
from tests.emulators.moto_server import KEYS
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX

WORDS = (
    *(
        "\x1b]0;title\x07",
        "\x1b[2J\x1b[H",
        "\x1b]52;c;cm0gLXJm\x1b\\",
        "\x9b2J",
        "\x90q\x9c",
        "\x08\x08ok",
        "\x7f",
        "\x00",
    ),
    *("\u202egpj.exe", "\u2066a\u2069", "\u200b", "\ufeff", "\u2028x", "\U000e0041", "\xad", "\ud800"),
    *("\n::error file=x::pwned", "\r\n  ::add-mask::1", "\n::stop-commands::t", "\n##[error]x", "##vso[task.x]y"),
    *("=cmd|' /C calc'!A0", "@SUM(1+1)", "+1+1", "-2+3", "\t=1", "\r=1", "\uff1d1"),
)
WRITABLE = [word for word in WORDS if "\0" not in word and "\ud800" not in word]
"""What a file's name and an environment may hold."""
CELLS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
PLACE = ("tiny-gpt", "20261120T120000Z")
READERS = (
    *(("report", "tiny-gpt"), ("status", "tiny-gpt"), ("runs",), ("ledger",), ("ledger", "--by", "name")),
    *(("ledger", "--csv"), ("ledger", "--focus"), ("outputs", "tiny-gpt"), ("accuracy",)),
    *(("cancel", "tiny-gpt", "--yes"), ("down", "tiny-gpt", "--dry-run"), ("nodes", "tiny-gpt"), ("top", "tiny-gpt")),
)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A folder in which nothing of another machine is asked for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def leaves(value):
    """Every text in a document, as its container and key."""
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(places):
        if isinstance(item, str):
            yield value, key
        else:
            yield from leaves(item)


def with_words(rng, document, words):
    """The document with the words in some of its texts, before or after them, or as names of new entries."""
    changed = copy.deepcopy(document)
    places = list(leaves(changed))
    for holder, key in rng.sample(places, min(len(places), rng.choice((1, 2, 8)))):
        holder[key] = rng.choice((words, f"{holder[key]}{words}", f"{words}{holder[key]}"))
    if isinstance(changed, dict) and isinstance(tags := changed.get("tags"), dict):
        tags[f"k{words}"] = f"v{words}"
    return changed


def hold(arguments):
    """Run a command; nothing of what it prints is obeyed, and it does not break. Its exit code."""
    code, out, err = run(*arguments)
    assert code in {0, 1, 2, 3, 4, 5, 6, 7}
    assert "internal error" not in out + err, (out + err)[-500:]
    for text in (out, err):
        refuse_obeyed(text.replace("\r\n", "\n") if "--csv" in arguments or "--focus" in arguments else text)
    if code == 0 and {"--csv", "--focus"} & set(arguments):
        for cell in (cell for row in csv.reader(io.StringIO(out, newline="")) for cell in row):
            assert not cell.startswith(CELLS) or is_number(cell), cell
    return code


def is_number(cell):
    try:
        return Decimal(cell).is_finite()
    except InvalidOperation:
        return False


@pytest.mark.parametrize("rounds", [len(WORDS), pytest.param(1500, marks=pytest.mark.slow)], ids=["few", "all"])
def test_hostile_words_in_the_files_of_a_run_are_shown_and_not_executed(alone, seed, rounds, run_folder_files):
    rng = random.Random(seed)
    folder = alone.joinpath(".slipway", "runs", *PLACE)
    for number in range(rounds):
        words = WORDS[number % len(WORDS)]
        shutil.rmtree(alone / ".slipway", ignore_errors=True)
        (folder / "logs").mkdir(parents=True)
        (folder.parent / "latest").symlink_to(folder.name)
        (folder / "logs" / "attempt-1.log").write_text("step 1\n")
        chosen = set(rng.sample(sorted(run_folder_files), rng.randint(1, 3)))
        for name, body in run_folder_files.items():
            document = with_words(rng, body, words) if name in chosen else body
            lines = document if isinstance(document, list) else [document]
            (folder / name).write_text("\n".join(map(json.dumps, lines)) + "\n")
        for reader in READERS:
            hold(reader)
        hold((*rng.choice(READERS[:5]), "--json"))


@pytest.mark.parametrize("words", WRITABLE)
def test_hostile_words_in_a_ledger_are_shown_and_neither_executed_nor_computed(alone, run_folder_files, words):
    """Each of the texts that a colleague's run brings into the table."""
    folder = alone.joinpath(".slipway", "runs", *PLACE)
    folder.mkdir(parents=True)
    files = copy.deepcopy(run_folder_files)
    files["plan.json"]["tags"] = {words: words, "team": words}
    files["quote.json"] |= dict.fromkeys(("instance_type", "region"), words)
    for name in ("plan.json", "quote.json", "report.json"):
        (folder / name).write_text(json.dumps(files[name]))
    code, out, _ = run("ledger", "--json")
    (row,) = json.loads(out)["runs"]
    assert (code, row["tags"]["team"]) == (0, words)
    for reader in (("ledger",), ("ledger", "--csv"), ("ledger", "--focus"), ("ledger", "--json")):
        assert hold(reader) == 0


@pytest.mark.usefixtures("warm_launches")  # some words are good options: their dry run synthesises
@pytest.mark.parametrize("words", WRITABLE)
def test_hostile_words_in_a_plan_and_the_paths_are_shown_and_not_executed(alone, words):
    name = f"p{words.replace('/', '-')}.yaml"
    plan = {
        "slipway": 1,
        "name": "a",
        f"key{words}": 1,
        "workload": {"train": {"hours": 1, "model": f"m{words}"}},
        "target": {"kind": "parallelcluster", "instance_type": f"p5{words}", "region": f"us-east-1{words}"},
        "run": {
            "command": ["python", words],
            "env": {f"A{words}": words},
            "outputs": [f"../{words}"],
            "workdir": words,
        },
        "tags": {f"t{words}": words},
    }
    (alone / name).write_text(json.dumps(plan))
    readable = {"slipway": 1, "name": "a", "workload": {"train": {"hours": 1}}, "run": {"command": f"python {words}"}}
    target = {"kind": "parallelcluster", "instance_type": "p5.48xlarge", "nodes": 1, "region": "us-east-1"}
    (alone / "b.yaml").write_text(json.dumps({**readable, "target": target, "tags": {"k": words}}))
    for command in ("plan", "quote", "render", "doctor", "launch"):
        more = ["--dry-run", "--yes"] if command == "launch" else ["-o", "r"] if command == "render" else []
        for path in (name, "b.yaml"):
            hold((command, path, *more))
    hold(("diff", "b.yaml", name))
    hold(("portfolio", "b.yaml", name))
    hold(("config", "show", name))


@pytest.mark.parametrize("words", WRITABLE)
@pytest.mark.parametrize("code", [0, 1, 255])
def test_hostile_answers_of_a_cluster_are_shown_and_not_executed(alone, run_folder_files, monkeypatch, words, code):
    """The cluster is reached by ssh, and whatever is asked of it, it says these words."""
    programs = alone / "programs"
    programs.mkdir()
    (programs / "words").write_text(
        f"JobId=7 JobState=RUNNING{words} Reason={words}\n{words}\n", errors="surrogateescape"
    )
    (programs / "ssh").write_text(f"#!/bin/sh\n/bin/cat {programs}/words; /bin/cat {programs}/words >&2; exit {code}\n")
    (programs / "ssh").chmod(0o700)
    monkeypatch.setenv("PATH", str(programs))
    folder = alone.joinpath(".slipway", "runs", *PLACE)
    folder.mkdir(parents=True)
    (folder.parent / "latest").symlink_to(folder.name)
    for name, body in run_folder_files.items():
        if name != "report.json":
            lines = body if isinstance(body, list) else [body]
            (folder / name).write_text("\n".join(map(json.dumps, lines)) + "\n")
    for reader in (("status", "tiny-gpt"), ("nodes", "tiny-gpt"), ("cancel", "tiny-gpt", "--yes")):
        hold(reader)


def test_hostile_names_in_a_bucket_are_shown_and_not_executed(alone, bucket, endpoint, monkeypatch):
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    for number, words in enumerate(WRITABLE):
        file = StoredFile(path=f"d{words}", bytes=1, sha256="0" * 64, key=f"step-{number}/r/d{words}", part=0)
        manifest = Manifest(
            run=f"r{words}",
            attempt=1,
            step=number,
            folder=f"step-{number}{words}",
            part=None,
            parts=1,
            files=(file,),
            written_at=f"2026-11-20T12:00:00+00:00{words}" if number % 2 else "2026-11-20T12:00:00+00:00",
            seconds=1.0,
            layout=f"hf{words}",
            unit=f"step{words}",
        )
        bucket.write(f"step-{number}/manifest.json", manifest.to_json().encode())
        if words.splitlines() == [words]:  # moto has no object with a line feed in its name
            bucket.write(f"step-{number + 100}{words}/data", b"x")
    uri = f"s3://{BUCKET}/{PREFIX}"
    for command in ("list", "verify"):
        hold(("checkpoints", command, uri))
        hold(("checkpoints", command, uri, "--json"))
    hold(("checkpoints", "prune", uri, "--yes"))
    hold(("checkpoints", "restore", uri, "--to", "here"))
    for key in bucket.all_keys():  # one by one: many at once are named in XML, which holds no control characters
        bucket.client.delete_object(Bucket=BUCKET, Key=PREFIX + key)
