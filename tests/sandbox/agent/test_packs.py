"""Many small files travel in packs: the manifest lists each file, and restored files equal the originals."""

import json
import random
from dataclasses import replace

import pytest

from launcher.agent.checkpoint.commit import assemble, commit
from launcher.agent.checkpoint.complete import complete_checkpoint
from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.packs import MANY, PACK_BYTES, SMALL_BYTES, groups, known_packs
from launcher.agent.checkpoint.restore import Restore
from launcher.agent.checkpoint.upload import Sender
from launcher.agent.errors import ManifestError, UnusableCheckpointError
from launcher.agent.manifest import parse
from launcher.agent.node.placement import Placement
from launcher.model.errors import ImpossibleError
from launcher.workflow.run import checkpoints_transfer
from launcher.workflow.run.checkpoints import choose_checkpoint, survey

WRITER = Placement(run="r1", attempt=1, session="r1.a1", part=0, parts=1, node="n")


def folder_of_many(place, step, *, seed=1, number=MANY + 200):
    """Small files of odd sizes in several folders, an empty one, and a large one."""
    rng = random.Random(seed)
    folder = place / f"step-{step}"
    for part in range(7):
        (folder / f"part-{part}").mkdir(parents=True)
    for index in range(number):
        path = folder / f"part-{index % 7}" / f"state_{index:05}.bin"
        path.write_bytes(rng.randbytes(rng.choice([0, 1, 700, 40_000])))
    (folder / "model.bin").write_bytes(rng.randbytes(SMALL_BYTES))
    return folder


def finish(folder):
    return FinishedFolder(step=int(folder.name.partition("-")[2]), path=folder, files=local_files(folder))


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stored(store, folder, sender=None):
    """Send a folder and commit it; its manifest and the bytes that had to be sent."""
    manifest, sent = (sender or Sender(store, WRITER)).send(finish(folder))
    whole = assemble(store, manifest, session=WRITER.session)
    commit(store, whole, session=WRITER.session)
    return whole, sent


def restored(store, place):
    place.mkdir()
    skipped = []
    restore = Restore(
        store=store,
        checkpoints=place,
        previous=place / "previous",
        part=0,
        on_skip=lambda step, reason: skipped.append((step, reason)),
    )
    return restore.newest(), skipped


class TestManySmallFiles:
    def test_small_files_upload_in_few_objects_and_restore_unchanged(self, store, bucket, tmp_path):
        folder = folder_of_many(tmp_path / "up", 3)
        manifest, sent = stored(store, folder)
        assert sent == manifest.bytes == sum(map(len, content(folder).values()))
        assert [file.path for file in manifest.files] == sorted(str(path) for path in content(folder))
        objects = [key for key in [*bucket.keys()] if not key.endswith("manifest.json")]
        assert len(objects) == 1 + len(known_packs(manifest.files))
        assert len(objects) < 10
        restored_checkpoint, skipped = restored(store, tmp_path / "down")
        assert (restored_checkpoint.step, restored_checkpoint.bytes, skipped) == (3, sent, [])
        assert content(restored_checkpoint.resume) == content(folder)
        assert [path.name for path in (tmp_path / "down").iterdir()] == ["step-3"]

    def test_few_small_files_stay_separate_objects(self, store, bucket, tmp_path):
        folder = folder_of_many(tmp_path / "up", 3, number=20)
        manifest, _ = stored(store, folder)
        assert {file.offset for file in manifest.files} == {None}
        assert json.loads(manifest.to_json())["schema"] == "slipway.checkpoint/1"
        assert {"offset"} & json.loads(manifest.to_json())["files"][0].keys() == set()

    def test_unchanged_packs_are_not_uploaded_again(self, store, bucket, tmp_path):
        folder = folder_of_many(tmp_path / "up", 3)
        sender = Sender(store, WRITER)
        first, _ = stored(store, folder, sender)
        sender.remember(first.files)
        later = folder.rename(folder.with_name("step-4"))
        max(later.glob("part-6/*")).write_bytes(b"new")
        second, sent = stored(store, later, sender)
        assert 0 < sent <= PACK_BYTES
        shared = {file.key for file in second.files} & {file.key for file in first.files}
        assert len(shared) == len({file.key for file in first.files}) - 1
        assert complete_checkpoint(store, 4, store.sizes())[0] == second
        restored_checkpoint, _ = restored(store, tmp_path / "down")
        assert content(restored_checkpoint.resume) == content(later)

    def test_uploaded_packs_of_interrupted_upload_are_reused(self, store, bucket, front_store, tmp_path):
        front, store = front_store
        folder = folder_of_many(tmp_path / "up", 3)
        sender = Sender(store, WRITER)
        front.rule = lambda method, path: 403 if method == "PUT" and "-packs/00001" in path else None
        with pytest.raises(Exception, match="AccessDenied"):
            sender.send(finish(folder))
        front.rule = lambda *_: None
        manifest, sent = sender.send(finish(folder))
        assert 0 < sent < manifest.bytes
        commit(store, assemble(store, manifest, session=WRITER.session), session=WRITER.session)
        restored_checkpoint, _ = restored(store, tmp_path / "down")
        assert content(restored_checkpoint.resume) == content(folder)

    def test_small_file_changed_after_completion_refused(self, store, tmp_path):
        folder = folder_of_many(tmp_path / "up", 3)
        before = finish(folder)
        sorted(folder.glob("part-0/*"))[3].write_bytes(b"x" * 3)
        with pytest.raises(UnusableCheckpointError, match="changed after it was finished"):
            Sender(store, WRITER).send(before)

    @pytest.mark.parametrize("damage", ["flipped", "short", "gone"])
    def test_damaged_pack_skipped_for_older_checkpoint(self, store, bucket, tmp_path, damage):
        older = folder_of_many(tmp_path / "up", 2, number=3)
        stored(store, older)
        manifest, _ = stored(store, folder_of_many(tmp_path / "up", 3))
        pack = next(file.key for file in manifest.files if file.bytes and file.offset is not None)
        body = bytearray(bucket.read(pack))
        body[100] ^= 1
        bucket.write(pack, bytes(body) if damage == "flipped" else bytes(body[:-1]))
        if damage == "gone":
            bucket.delete(pack)
        restored_checkpoint, skipped = restored(store, tmp_path / "down")
        assert restored_checkpoint.step == 2
        assert [step for step, _ in skipped] == [3]
        assert content(restored_checkpoint.resume) == content(older)


class TestByHand:
    def test_packed_checkpoint_is_verified_and_restored(self, store, objects, tmp_path):
        folder = folder_of_many(tmp_path / "up", 3)
        stored(store, folder)
        checkpoint = choose_checkpoint(survey(objects), None)
        messages = []
        assert checkpoints_transfer.damaged_files(objects, checkpoint, messages.append) == ()
        assert sum(messages) == sum(map(len, content(folder).values()))
        place = checkpoints_transfer.restore(objects, checkpoint, tmp_path / "down", messages.append)
        assert content(place) == content(folder)

    def test_damaged_pack_is_named_by_file(self, store, objects, bucket, tmp_path):
        manifest, _ = stored(store, folder_of_many(tmp_path / "up", 3))
        file = next(file for file in manifest.files if file.bytes > 1 and file.offset is not None)
        body = bytearray(bucket.read(file.key))
        body[file.offset] ^= 1
        bucket.write(file.key, bytes(body))
        checkpoint = choose_checkpoint(survey(objects), None)
        (line,) = checkpoints_transfer.damaged_files(objects, checkpoint, lambda _: None)
        assert line.startswith(f"{file.path} has SHA-256")
        with pytest.raises(ImpossibleError, match="step 3 is damaged"):
            checkpoints_transfer.restore(objects, checkpoint, tmp_path / "down", lambda _: None)
        assert list((tmp_path / "down").iterdir()) == []


class TestManifest:
    def test_manifest_with_packs_has_newer_schema_and_checked_offsets(self, store, tmp_path):
        manifest, _ = stored(store, folder_of_many(tmp_path / "up", 3))
        assert json.loads(manifest.to_json())["schema"] == "slipway.checkpoint/2"
        assert parse(manifest.to_json()) == manifest
        for change in ({"schema": "slipway.checkpoint/1"}, {"offset": -1}, {"offset": "0"}):
            document = json.loads(manifest.to_json())
            target = document if "schema" in change else document["files"][-1]
            target.update(change)
            with pytest.raises(ManifestError):
                parse(json.dumps(document))
        # Overlapping or with gaps: not reused.
        shifted = [replace(f, offset=f.offset + 1) if f.offset else f for f in manifest.files]
        assert len(known_packs(shifted)) == 0


def test_packs_are_limited_by_size(tmp_path):
    files = local_files(folder_of_many(tmp_path, 3))
    packs = groups(files)
    assert [file for pack in packs for file in pack] == [file for file in files if file.bytes < SMALL_BYTES]
    assert all(sum(file.bytes for file in pack) <= PACK_BYTES for pack in packs)
    assert groups(files[:MANY]) == []


def test_restore_packs_of_killed_agent_are_removed(node, bucket):
    node.job(command=("true",))
    assert node.run() == 0
    checkpoints = next(node.folder.glob("node/*/*/checkpoints"))
    (checkpoints / ".slipway-restore-packs-x1").mkdir()
    (checkpoints / ".slipway-restore-packs-x1" / "0").write_text("half")
    assert node.run(attempt=2) == 0
    assert list(checkpoints.iterdir()) == []
