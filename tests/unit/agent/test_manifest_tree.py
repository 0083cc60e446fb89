"""Links, permission bits and empty folders in a manifest: which are read, which refused, and what a restore makes."""

import json
from dataclasses import replace

import pytest

from launcher.agent.checkpoint.commit import assemble
from launcher.agent.checkpoint.merge import merge
from launcher.agent.errors import ManifestError
from launcher.agent.manifest import Manifest, StoredFile, parse
from launcher.agent.manifest_tree import StoredLink, complete_tree


def store(path, part=0, mode=""):
    return StoredFile(path=path, bytes=1, sha256="ab" * 32, key=f"step-7/r/{part}-x/{path}", part=part, mode=mode)


def link(path, target, part=0):
    return StoredLink(path=path, target=target, part=part)


def manifest(*files, **changes):
    values = {
        "run": "r",
        "attempt": 1,
        "step": 7,
        "folder": "step-7",
        "part": None,
        "parts": 1,
        "files": files or (store("blobs/a"), store("run.sh")),
        "written_at": "2026-11-20T12:00:00.000Z",
        "seconds": 1.5,
    }
    return Manifest(**values | changes)


def schema(checked):
    assert parse(checked.to_json()) == checked
    return json.loads(checked.to_json())["schema"]


class TestSchema:
    @pytest.mark.parametrize(
        "changes",
        [
            {"links": (link("snapshot/model", "../blobs/a"),)},
            {"folders": ("cache/empty",)},
            {"files": (store("run.sh", mode="0755"),)},
            {"links": (link("latest", "blobs"), link("file", "latest/a")), "layout": "hf", "folder": "checkpoint-7"},
        ],
        ids=str,
    )
    def test_manifest_with_a_tree_has_schema_5(self, changes):
        assert schema(manifest(**changes)) == "slipway.checkpoint/5"

    def test_manifest_without_needs_no_new_schema(self):
        assert schema(manifest()) == "slipway.checkpoint/1"
        best = {"folder": ".", "layout": "hf", "main": "checkpoint-7", "others": ("checkpoint-3",)}
        files = (store("checkpoint-3/a"), store("checkpoint-7/a"))
        assert schema(manifest(*files, **best)) == "slipway.checkpoint/4"

    @pytest.mark.parametrize("key,value", [("links", []), ("folders", ["x"]), ("others", []), ("mains", [])])
    def test_earlier_schema_with_a_tree_is_refused(self, key, value):
        document = json.loads(manifest().to_json()) | {key: value}
        with pytest.raises(ManifestError, match=r"need 'slipway\.checkpoint/5'"):
            parse(json.dumps(document))

    def test_set_of_several_leading_folders_keeps_its_names(self):
        names = ("_actor/global_step7", "_critic/global_step7", "_actor/best_global_step3")
        files = tuple(store(f"{name}/model") for name in sorted(names))
        changes = {"folder": ".", "layout": "openrlhf", "main": names[0], "mains": names[:2], "others": names[2:]}
        assert schema(manifest(*files, **changes)) == "slipway.checkpoint/5"
        assert manifest(*files, **changes).leading == names[:2]


class TestRefusal:
    @pytest.mark.parametrize(
        "changes,reason",
        [
            ({"links": (link("x", "/etc/passwd"),)}, "must be a relative path within the checkpoint"),
            ({"links": (link("x", "../../etc"),)}, "must be a relative path within"),
            ({"links": (link("d/x", "../.."),)}, "must be a relative path within"),
            ({"links": (link("x", "blobs/../../a"),)}, "must be a relative path within"),
            ({"links": (link("x", "."),)}, "must be a relative path within"),
            ({"links": (link("x", ""),)}, "must be a relative path within"),
            ({"links": (link("x", "blobs//a"),)}, "must be a relative path within"),
            ({"links": (link("x", "blobs/a\0"),)}, "must be a relative path within"),
            ({"links": (link("x", "a/" * 600 + "b"),)}, "must be a relative path within"),
            ({"links": (link("../x", "blobs"),)}, "must be below the checkpoint's folder"),
            ({"links": (link("/x", "blobs"),)}, "must be below the checkpoint's folder"),
            ({"links": (link("x" * 300, "blobs"),)}, "a name may have 255 bytes"),
            ({"links": (link("run.sh", "blobs/a"),)}, "lists a path twice"),
            ({"links": (link("blobs", "run.sh"),)}, "has the same place"),
            ({"links": (link("run.sh/x", "../blobs"),)}, "both a file and a folder"),
            ({"links": (link("x", "blobs"), link("x/y", "../run.sh"))}, "has the same place"),
            ({"links": (link("x", "run.sh/a"),)}, "leads to nothing"),
            ({"links": (link("x", "nowhere"),)}, "leads to nothing"),
            ({"links": (link("x", "y"), link("y", "x"))}, "leads in a circle"),
            ({"links": (link("x", "x"),)}, "leads in a circle"),
            ({"links": (link("x", "y/a"), link("y", "x"))}, "leads in a circle"),
            ({"links": (link("d/e/x", ".."),)}, "a folder that it is in"),
            ({"links": (link("d/up", "e"), link("d/e/x", "../up"))}, "a folder that it is in"),
            ({"links": (link("d/e/f", "g"), link("d/e/g", "../../blobs/a/../x"))}, "must be a relative path within"),
            ({"links": (link("x", "run.sh", part=1),)}, "out of range"),
            ({"folders": ("../x",)}, "must be below the checkpoint's folder"),
            ({"folders": ("/etc/x",)}, "must be below the checkpoint's folder"),
            ({"folders": ("run.sh",)}, "both a file and a folder"),
            ({"folders": ("run.sh/x",)}, "both a file and a folder"),
            ({"folders": ("x/y",), "links": (link("x", "blobs"),)}, "has the same place"),
            ({"folders": ("x",), "links": (link("x", "blobs"),)}, "has the same place"),
            ({"files": (store("a", mode="4755"),)}, "must be four octal digits"),
            ({"files": (store("a", mode="1777"),)}, "must be four octal digits"),
            ({"files": (store("a", mode="755"),)}, "must be four octal digits"),
            ({"files": (store("a", mode="0o755"),)}, "must be four octal digits"),
            ({"others": ("best",)}, "main must be the first"),
            ({"folder": ".", "layout": "x", "main": "a", "mains": ("b",)}, "main must be the first"),
            ({"folder": ".", "layout": "x", "main": "run.sh", "others": ("../best",)}, "all must be in"),
        ],
        ids=str,
    )
    def test_hostile_tree_is_refused(self, changes, reason):
        with pytest.raises(ManifestError, match=reason):
            parse(manifest(**changes).to_json())

    def test_links_through_many_folders_cost_bounded_work(self):
        deep = "/".join("x" * 400)
        links = tuple(link(f"{number}", deep) for number in range(1000))
        with pytest.raises(ManifestError, match="too many to follow"):
            parse(manifest(store(deep), links=links).to_json())


class TestParts:
    def test_links_of_several_nodes_are_each_nodes_own(self):
        parts = [
            manifest(
                store(f"rank{number}", number),
                part=number,
                parts=2,
                links=(link("mine", f"rank{number}", number),),
                folders=("cache", "logs") if number else ("cache",),
            )
            for number in (0, 1)
        ]
        whole = merge(parts, written_at="now")
        assert schema(whole) == "slipway.checkpoint/5"
        targets = [[each.target for each in whole.links_for(part)] for part in range(3)]
        assert targets == [["rank0"], ["rank1"], ["rank0"]]
        assert whole.folders == ("cache", "logs")

    def test_empty_folder_of_one_node_may_hold_files_of_another(self):
        parts = [
            manifest(store("a"), part=0, parts=2, folders=("ranks",)),
            manifest(store("ranks/1", 1), part=1, parts=2),
        ]
        assert merge(parts, written_at="now").folders == ()

    def test_checkpoint_with_a_link_is_readable_when_another_node_writes_nothing(self):
        first = manifest(store("a"), part=0, parts=2, links=(link("latest", "a"),), folders=("logs",))
        whole = assemble(None, first, session="r", empty=(1,))
        assert schema(whole) == "slipway.checkpoint/5"
        assert (whole.links, whole.folders) == (first.links, first.folders)

    @pytest.mark.parametrize("order", [1, -1])
    def test_link_of_one_node_in_place_of_anothers_file_is_stored_as_what_it_leads_to(self, order):
        own = [store("weights-of-a"), store("weights")][::order]
        links = [(link("weights", "weights-of-a"),), ()][::order]
        parts = [
            manifest(
                replace(file, part=number), part=number, parts=2, links=tuple(replace(one, part=number) for one in of)
            )
            for number, (file, of) in enumerate(zip(own, links, strict=True))
        ]
        whole = parse(merge(parts, written_at="now").to_json())
        linking = 0 if order == 1 else 1
        keys = {part: {file.path: file.key for file in whole.files_for(part)} for part in (0, 1)}
        assert keys[linking]["weights"] == store("weights-of-a").key
        assert keys[1 - linking]["weights"] == store("weights").key
        assert whole.links == ()

    def test_link_to_folder_in_place_of_anothers_folder_is_stored_with_links_below(self):
        links = (link("ranks", "shared/0"), link("shared/0/mine", "deep/a"), link("shared/0/out", "../b"))
        parts = [
            manifest(
                store("shared/0/deep/a"), store("shared/b"), part=0, parts=2, links=links, folders=("shared/0/e",)
            ),
            manifest(store("ranks/1", 1), part=1, parts=2),
        ]
        whole = parse(merge(parts, written_at="now").to_json())
        below = {file.path: file.key for file in whole.files if file.path.startswith("ranks/")}
        assert below == {"ranks/1": store("ranks/1", 1).key, "ranks/deep/a": store("shared/0/deep/a").key}
        assert {one.path: one.target for one in whole.links if one.path.startswith("ranks/")} == {
            "ranks/mine": "deep/a",
            "ranks/out": "../shared/b",
        }
        assert "ranks/e" in whole.folders

    def test_file_of_one_node_in_place_of_anothers_folder_is_refused_by_node(self):
        parts = [
            manifest(store("a"), part=0, parts=2, links=(link("ranks", "a"),)),
            manifest(store("ranks/1", 1), part=1, parts=2),
        ]
        with pytest.raises(ManifestError, match=r"'ranks' is a file on node 0 and a folder on node 1; all nodes must"):
            merge(parts, written_at="now")


class TestCompletion:
    def test_tree_is_made_exactly(self, tmp_path):
        (tmp_path / "bin").mkdir()
        for name in ("bin/run.sh", "secret", "plain"):
            (tmp_path / name).write_text("x")
            (tmp_path / name).chmod(0o777)
        files = (("bin/run.sh", "0750"), ("secret", "0600"), ("plain", ""))
        complete_tree(tmp_path, files, (link("snapshot/run", "../bin/run.sh"), link("latest", "bin")), ("cache/empty",))
        modes = {path: (tmp_path / path).stat().st_mode & 0o7777 for path, _ in files}
        assert modes == {"bin/run.sh": 0o750, "secret": 0o600, "plain": 0o644}
        assert (tmp_path / "snapshot" / "run").readlink().as_posix() == "../bin/run.sh"
        assert (tmp_path / "latest" / "run.sh").read_text() == "x"
        assert list((tmp_path / "cache" / "empty").iterdir()) == []

    def test_link_never_replaces_a_file(self, tmp_path):
        (tmp_path / "a").write_text("x")
        with pytest.raises(FileExistsError):
            complete_tree(tmp_path, (), (link("a", "b"),), ())
        assert (tmp_path / "a").read_text() == "x"
