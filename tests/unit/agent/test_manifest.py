import json
import math

import pytest

from launcher.agent.checkpoint.merge import merge
from launcher.agent.errors import ManifestError
from launcher.agent.manifest import Manifest, StoredFile, parse

SHA = "ab" * 32


def store(path="model.npz", size=10, part=0, key=None):
    return StoredFile(path=path, bytes=size, sha256=SHA, key=key or f"step-7/r.a1/{part}-x/{path}", part=part)


def manifest(**changes):
    values = {
        "run": "r",
        "attempt": 1,
        "step": 7,
        "folder": "checkpoint-7",
        "part": None,
        "parts": 1,
        "files": (store(), store("sub/b.json", 3)),
        "written_at": "2026-11-20T12:00:00.000Z",
        "seconds": 1.5,
    }
    return Manifest(**values | changes)


def test_manifest_written_as_json_is_parsed_equal():
    assert parse(manifest().to_json()) == manifest()
    assert manifest().bytes == 13


def test_count_of_saves_has_a_schema_of_its_own():
    counted = manifest(counted=True, layout="lightning", folder=".", main="last.ckpt", others=("best.ckpt",))
    document = json.loads(counted.to_json())
    assert (document["schema"], document["counted"]) == ("slipway.checkpoint/6", True)
    assert parse(counted.to_json()) == counted
    assert "counted" not in json.loads(manifest().to_json())
    for changed in (document | {"schema": "slipway.checkpoint/5"}, document | {"counted": False}):
        with pytest.raises(ManifestError, match="counts saves"):
            parse(json.dumps(changed))


class TestCompleteness:
    def test_objects_of_the_listed_size_are_complete(self):
        sizes = {file.key: file.bytes for file in manifest().files}
        assert manifest().missing(sizes) is None

    def test_missing_object_is_named(self):
        sizes = {manifest().files[0].key: 10}
        assert manifest().missing(sizes) == "sub/b.json is missing"

    def test_one_missing_file_of_one_node_is_named_with_the_node(self):
        both = [store(path, part=part) for part in (0, 1) for path in ("model.npz", "rng.pt")]
        whole = manifest(files=tuple(both), parts=2)
        sizes = {file.key: file.bytes for file in both}
        assert whole.missing(sizes) is None
        del sizes[both[3].key]
        assert whole.missing(sizes) == "rng.pt of node 1 is missing"

    def test_short_object_is_named_with_both_sizes(self):
        sizes = {file.key: file.bytes for file in manifest().files} | {manifest().files[0].key: 9}
        assert manifest().missing(sizes) == "model.npz has 9 bytes instead of 10"


class TestRefusal:
    @pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a//b", "./a", "", ".", "a/", "a\0b"])
    def test_path_outside_the_checkpoint_is_refused(self, path):
        with pytest.raises(ManifestError, match="path: got"):
            parse(manifest(files=(store(path, key="step-7/x"),)).to_json())

    @pytest.mark.parametrize(
        "change",
        [
            {"schema": "slipway.checkpoint/4"},
            {"schema": "slipway.checkpoint/3"},
            {"layout": "hf"},
            {"schema": "slipway.checkpoint/3", "layout": "hf", "folder": "../step-7"},
            {"folder": "step-8"},
            {"folder": "../step-7"},
            {"step": "7"},
            {"step": True},
            {"part": -1},
            {"seconds": None},
            {"files": [{"path": "a"}]},
            {"files": 3},
            {"extra": 1},
        ],
        ids=str,
    )
    def test_invalid_manifest_is_refused(self, change):
        with pytest.raises(ManifestError):
            parse(json.dumps(json.loads(manifest().to_json()) | change))

    @pytest.mark.parametrize("change", [{"sha256": "x"}, {"key": "other/x"}, {"bytes": -1}, {"bytes": 1.0}], ids=str)
    def test_manifest_with_an_invalid_file_entry_is_refused(self, change):
        document = json.loads(manifest().to_json())
        document["files"][0] |= change
        with pytest.raises(ManifestError):
            parse(json.dumps(document))

    @pytest.mark.parametrize(
        "files,reason",
        [
            ((), "lists no file"),
            ((store("a"), store("a/b")), "'a' is both a file and a folder"),
            ((store("a"), store("a/b/c")), "'a' is both a file and a folder"),
            ((store("a"), store("a")), "lists a path twice"),
            ((store("x" * 300),), "a name may have 255 bytes"),
            ((store("é" * 128),), "a name may have 255 bytes"),
            ((store("lone-\ud800"),), "a text is not UTF-8"),
            ((store(key="step-7/\ud800"),), "a text is not UTF-8"),
            ((store(part=1),), "out of range"),
            ((store(size=10**30),), "out of range"),
            ((store(size=10**400),), "has 401 digits"),
        ],
    )
    def test_manifest_with_impossible_files_is_refused(self, files, reason):
        with pytest.raises(ManifestError, match=reason):
            parse(manifest(files=files).to_json())

    @pytest.mark.parametrize(
        "change", [{"parts": 10**9}, {"parts": 0}, {"step": 10**400}, {"seconds": math.inf}], ids=str
    )
    def test_numbers_out_of_range_are_refused(self, change):
        with pytest.raises(ManifestError):
            parse(json.dumps(json.loads(manifest().to_json()) | change))

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 100_000, '{"files":' * 100_000])
    def test_invalid_manifest_text_is_refused(self, text):
        with pytest.raises(ManifestError):
            parse(text)

    def test_any_cut_of_a_manifest_is_refused(self):
        text = manifest().to_json().rstrip()
        for length in range(len(text)):
            with pytest.raises(ManifestError):
                parse(text[:length])


class TestParts:
    def test_parts_of_all_nodes_merge_into_one_checkpoint(self):
        parts = [
            manifest(part=number, parts=2, seconds=number + 1.0, files=(store(f"rank{number}", part=number),))
            for number in (1, 0)
        ]
        whole = merge(parts, written_at="now")
        assert [file.path for file in whole.files] == ["rank0", "rank1"]
        assert (whole.part, whole.parts, whole.seconds) == (None, 2, 2.0)

    @pytest.mark.parametrize(
        "other",
        [
            {"part": 1, "parts": 2, "attempt": 2},
            {"part": 1, "parts": 2, "run": "x"},
            {"part": 1, "parts": 3},
            {"part": 0, "parts": 2},
            {"part": None, "parts": 2},
        ],
        ids=str,
    )
    def test_parts_of_different_checkpoints_are_not_merged(self, other):
        with pytest.raises(ManifestError, match="belong to different checkpoints"):
            merge([manifest(part=0, parts=2), manifest(**other)], written_at="now")

    def test_incomplete_parts_are_not_merged(self):
        with pytest.raises(ManifestError, match="belong to different checkpoints"):
            merge([manifest(part=0, parts=2)], written_at="now")

    def test_node_gets_all_files_and_the_own_copy_of_duplicates(self):
        files = (store("config", part=0), store("rng", part=0), store("rng", part=1), store("config", part=1))
        whole = manifest(parts=3, files=files)
        chosen = {part: {file.path: file.part for file in whole.files_for(part)} for part in range(3)}
        assert chosen == {0: {"config": 0, "rng": 0}, 1: {"config": 1, "rng": 1}, 2: {"config": 0, "rng": 0}}
