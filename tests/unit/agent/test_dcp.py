"""Metadata of PyTorch distributed checkpoints, read without torch; torch's own are in tests/sandbox/agent."""

import os
import pickle

import pytest

from launcher.agent.checkpoint.dcp import folders_by_step
from launcher.agent.dcp_metadata import dcp_shards
from launcher.agent.errors import ManifestError
from tests import memory
from tests.unit.agent.dcp_classes import Info, Metadata


class Runs:
    """Runs a command when it is unpickled by anything that trusts it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_metadata_gives_the_shards_and_minimum_sizes():
    entries = {
        "weight": Info("__0_0.distcp", 0, 100),
        "bias": Info("__0_0.distcp", 100, 20),
        "rng": Info("deep/__1_0.distcp", 5, 5),
    }
    assert dcp_shards(pickle.dumps(Metadata(entries))) == {"__0_0.distcp": 120, "deep/__1_0.distcp": 10}


def test_code_in_the_metadata_is_not_run(tmp_path):
    data = pickle.dumps(Metadata({"weight": Info("a", 0, 1), "evil": Runs(tmp_path / "ran")}))
    with pytest.raises(ManifestError):
        dcp_shards(data)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "change", [{"offset": -1}, {"length": 10**5000}, {"offset": "1"}, {"relative_path": ("a",) * 3}]
)
def test_metadata_with_impossible_places_is_refused(change):
    entry = Info("a", 0, 1)
    entry.__dict__.update(change)
    with pytest.raises(ManifestError) as caught:
        dcp_shards(pickle.dumps(Metadata({"weight": entry})))
    assert len(str(caught.value)) < 200


def test_truncated_metadata_is_refused():
    data = pickle.dumps(Metadata({"weight": Info("a", 0, 1)}))
    for length in range(len(data)):
        with pytest.raises(ManifestError):
            dcp_shards(data[:length])


@pytest.mark.parametrize("value", [1, None, {}, {"storage_data": {}}, Metadata(None), Metadata({"a": 1})])
def test_metadata_of_another_type_is_refused(value):
    with pytest.raises(ManifestError):
        dcp_shards(pickle.dumps(value))


def test_folders_are_grouped_by_step():
    keys = ["step-7/a", "checkpoint-8/.metadata", "step-000009/a", "claim.json", "step-10", "notes/step-1/x"]
    assert folders_by_step(dict.fromkeys(keys, 1)) == {7: "step-7", 8: "checkpoint-8", 9: "step-000009"}


def test_of_two_folders_of_a_step_the_finished_one_counts():
    assert folders_by_step(dict.fromkeys(["step-07/.metadata", "step-07/a", "step-7/a"], 1)) == {7: "step-07"}


@pytest.mark.long
@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04Nr\xff\xff\xff\x7f.",  # a place in the memo that takes 16 GiB
        b"Np2000000000\n.",
        b"\x80\x05\x96\xff\xff\xff\xff\x01\x00\x00\x00.",  # a bytearray of 8 GiB
        b"\x80\x04\x8d\xff\xff\xff\xff\x01\x00\x00\x00.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"(" * 100_000,
        b"\x80\x04}K\x01" + b"2\x86" * 60 + b"Ns.",  # a key of which 60 bytes make 2^60 places to hash
        b"\x80\x04}K\x01" + b"\x85" * 1_000_000 + b"Ns.",  # one that is a million deep
    ],
    ids=["memo", "memo in text", "bytearray", "string", "frame", "marks", "broad key", "deep key"],
)
def test_metadata_announcing_more_than_the_data_takes_no_memory(data):
    with memory.at_most(100 * 1024), pytest.raises(ManifestError):
        dcp_shards(data)
