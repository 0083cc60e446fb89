"""Arbitrary bytes in a bucket or a metrics file are either used, or skipped with a reason.

Every document here begins as a good one and is damaged at random. Nothing but the agent's own errors may come of it, in
bounded memory, and what is accepted must be a manifest that a node can restore.
"""

import json
import pickle
import random

import pytest

from launcher.agent.checkpoint.claim import Owner, parse_owner
from launcher.agent.dcp_metadata import dcp_shards
from launcher.agent.errors import ManifestError
from launcher.agent.manifest import Manifest, StoredFile, parse
from launcher.agent.manifest_tree import StoredLink, complete_tree
from launcher.agent.metrics import figures_in, setup_in
from tests import memory
from tests.unit.agent.dcp_classes import Info, Metadata

ROUNDS = [500, pytest.param(20_000, marks=pytest.mark.slow)]
ODD = (
    *(
        None,
        True,
        -1,
        0,
        2**63,
        10**400,
        1.5,
        float("nan"),
        float("inf"),
        "",
        "x" * 300,
        "../x",
        "/x",
        "a/../b",
        "a\0b",
    ),
    *("\ud800", "é" * 200, [], {}, [[]], {"a": {}}, "step-7/x", "step-99999999999999999999/x", "0" * 64),
)
KIB_AT_MOST = 200 * 1024


def odd(rng):
    return rng.choice(ODD)


def damage(value, rng):
    """A JSON document with one of its values replaced, removed or doubled."""
    value = json.loads(json.dumps(value))
    at = value
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        key = rng.choice(list(keys))
        below = at[key]
        if isinstance(below, (dict, list)) and below and rng.random() < 0.8:
            at = below
            continue
        match rng.randrange(4):
            case 0:
                del at[key]
            case 1 if isinstance(at, list):
                at.append(below)
            case 2 if isinstance(at, dict):
                at[str(odd(rng))] = below
            case _:
                at[key] = odd(rng)
        return value


def cut_up(data, rng):
    """Bytes with some of them turned, cut off, doubled or put in."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(4):
            case 0 if data:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + rng.randint(1, 16)]
            case 2:
                data[at:at] = data[at : at + rng.randint(1, 16)]
            case _:
                data[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(data)


def text_of(good, rng, *, whole):
    """A damaged document: with another value in it, or with other bytes."""
    return json.dumps(damage(good, rng)) if whole else cut_up(json.dumps(good).encode(), rng).decode("latin-1")


@pytest.fixture
def rng(seed):
    return random.Random(seed)


@pytest.fixture(autouse=True)
def bounded_copy():
    with memory.at_most(KIB_AT_MOST):
        yield


def manifest():
    files = [
        StoredFile(path=path, bytes=size, sha256="ab" * 32, key=f"step-7/r.a1/{part}-x/{path}", part=part, mode=mode)
        for part in (0, 1)
        for path, size, mode in (("weights", 10, ""), ("deep/optimizer", 20, "0755"))
    ]
    links = [
        StoredLink(path=path, target=target, part=part)
        for part in (0, 1)
        for path, target in (("latest", "deep"), ("deep/again", "../weights"))
    ]
    return Manifest(
        run="r",
        attempt=1,
        step=7,
        folder="step-7",
        part=None,
        parts=2,
        files=tuple(files),
        links=tuple(links),
        folders=("cache/empty",),
        written_at="2026",
        seconds=1,
    )


@pytest.mark.parametrize("rounds", ROUNDS)
def test_damaged_manifest_is_refused_or_restored_inside_the_folder(rng, rounds, tmp_path):
    good, taken = json.loads(manifest().to_json()), 0
    for number in range(rounds):
        text = json.dumps(damage(good, rng)) if number % 2 else cut_up(json.dumps(good).encode(), rng).decode("latin-1")
        try:
            parsed = parse(text)
        except ManifestError:
            continue
        taken += 1
        assert parse(parsed.to_json()) == parsed
        for part in range(min(parsed.parts, 3)):
            place = tmp_path / str(number) / str(part)
            for file in parsed.files_for(part):
                (place / file.path).parent.mkdir(parents=True, exist_ok=True)
                (place / file.path).touch()
            files = [(file.path, file.mode) for file in parsed.files_for(part)]
            complete_tree(place, files, parsed.links_for(part), parsed.folders)
            for path in place.rglob("*"):
                assert path.resolve(strict=True).is_relative_to(place)
                assert not path.stat().st_mode & 0o7000
    assert taken < rounds


@pytest.mark.parametrize("rounds", ROUNDS)
def test_damaged_dcp_metadata_is_refused_or_gives_shards(rng, rounds):
    good = pickle.dumps(Metadata({"a": Info("__0_0.distcp", 0, 120)}))
    for _ in range(rounds):
        try:
            shards = dcp_shards(cut_up(good, rng))
        except ManifestError:
            continue
        assert all(isinstance(path, str) and isinstance(size, int) for path, size in shards.items())


@pytest.mark.parametrize("rounds", ROUNDS)
def test_damaged_claim_gives_an_owner_or_none(rng, rounds):
    good = json.loads(Owner(run="r", attempt=1, node="n", token="t").to_json())
    for number in range(rounds):
        text = json.dumps(damage(good, rng)) if number % 2 else cut_up(json.dumps(good).encode(), rng).decode("latin-1")
        owner = parse_owner(text)
        assert owner is None or isinstance(owner.attempt, int)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_damaged_metrics_give_bounded_values(rng, rounds):
    good = {"step": 3, "loss": 2.5, "tokens": 10, "checkpoint_seconds": 1.0}
    good |= {"parallel": {"data": 8, "tensor": 2}, "software": {"torch": "2.9.0", "python": "3.12"}}
    for number in range(rounds):
        line = json.dumps(damage(good, rng)).encode() if number % 2 else cut_up(json.dumps(good).encode(), rng)
        figures, _ = figures_in(line)
        json.dumps(figures, allow_nan=False)
        assert all(abs(float(value)) < 1e30 for value in figures.values())
        degrees, versions = setup_in(line)
        assert all(1 <= degree <= 2**20 for degree in degrees.values())
        assert all((name + version).isprintable() and len(name + version) <= 100 for name, version in versions.items())
