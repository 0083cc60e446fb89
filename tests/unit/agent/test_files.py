import os
import socket

import pytest

from launcher.agent.checkpoint.files import changed_since, local_files, survey
from launcher.agent.errors import UnusableCheckpointError


@pytest.fixture
def step_folder(tmp_path):
    folder = tmp_path / "step-1"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "weights").write_text("x" * 10)
    return folder


def paths(folder):
    return [file.path for file in local_files(folder)]


class TestLinks:
    def test_link_to_a_file_elsewhere_is_stored_as_the_file(self, step_folder, tmp_path):
        (tmp_path / "blob").write_text("blob")
        (step_folder / "model").symlink_to(tmp_path / "blob")
        assert [(file.path, file.bytes) for file in local_files(step_folder)] == [("deep/weights", 10), ("model", 4)]

    def test_link_within_the_checkpoint_is_stored_as_a_link(self, step_folder):
        (step_folder / "latest").symlink_to("deep")
        (step_folder / "deep" / "again").symlink_to("../latest/./weights")
        (step_folder / "whole").symlink_to(step_folder / "deep" / "weights")
        (step_folder / "around").symlink_to("../step-1/deep/weights")
        links = {file.path: file.link for file in local_files(step_folder) if file.link}
        assert links == {
            "around": "deep/weights",
            "deep/again": "../latest/weights",
            "latest": "deep",
            "whole": "deep/weights",
        }
        assert [file.path for file in local_files(step_folder, follow=True)] == [
            "around",
            "deep/again",
            "deep/weights",
            "latest/again",
            "latest/weights",
            "whole",
        ]

    def test_link_into_another_checkpoint_of_the_set_is_stored_as_content(self, step_folder, tmp_path):
        (tmp_path / "step-2").mkdir()
        (tmp_path / "step-2" / "more").write_text("more")
        (step_folder / "shared").symlink_to("../step-2")
        (step_folder / "model").symlink_to("../step-2/more")
        files = local_files(tmp_path, ("step-1", "step-2"))
        assert [(file.path, file.link) for file in files if file.path.startswith("step-1")] == [
            ("step-1/deep/weights", ""),
            ("step-1/model", ""),
            ("step-1/shared/more", ""),
        ]

    def test_links_and_folders_alone_are_no_checkpoint(self, tmp_path):
        (tmp_path / "step-3" / "cache").mkdir(parents=True)
        (tmp_path / "step-3" / "link").symlink_to("cache")
        assert survey(tmp_path / "step-3").files == ()

    @pytest.mark.parametrize(
        "name,target,reason",
        [
            ("data", "../data", "'data', a link to a folder outside the checkpoint"),
            ("gone", "nowhere", "'gone', a link to nothing"),
            ("self", "self", "'self', a circular link"),
            ("up", ".", "'up', a circular link"),
            ("deep/up", "..", "'deep/up', a circular link"),
        ],
    )
    def test_link_outside_the_checkpoint_is_an_obstacle(self, step_folder, tmp_path, name, target, reason):
        (tmp_path / "data").mkdir()
        (step_folder / name).symlink_to(target)
        assert survey(step_folder).obstacle.startswith(f"holds {reason}")
        with pytest.raises(UnusableCheckpointError, match="step-1 holds"):
            local_files(step_folder)

    def test_folders_with_links_to_each_other_are_stored(self, step_folder):
        (step_folder / "a").mkdir()
        (step_folder / "a" / "b").symlink_to("../deep")
        (step_folder / "deep" / "a").symlink_to("../a")
        assert survey(step_folder).obstacle == ""

    def test_links_into_each_other_are_an_obstacle(self, step_folder):
        (step_folder / "a").symlink_to("b")
        (step_folder / "b").symlink_to("a")
        assert "circular link" in survey(step_folder).obstacle

    def test_checkpoint_folder_as_a_link_is_an_obstacle(self, step_folder, tmp_path):
        (tmp_path / "step-2").symlink_to(step_folder)
        assert survey(tmp_path / "step-2").obstacle == "is not a folder; a checkpoint must be a folder"


class TestUnstorableEntries:
    def test_fifo_is_an_obstacle(self, step_folder):
        os.mkfifo(step_folder / "pipe")
        assert survey(step_folder).obstacle.startswith("holds 'pipe', a FIFO")

    def test_socket_is_an_obstacle(self, step_folder, monkeypatch):
        monkeypatch.chdir(step_folder)
        with socket.socket(socket.AF_UNIX) as unix_socket:
            unix_socket.bind("rendezvous")
            assert survey(step_folder).obstacle.startswith("holds 'rendezvous', a socket")

    @pytest.mark.parametrize("name", [b"w\xff", b"deep/\xff"])
    def test_file_name_without_utf8_is_an_obstacle(self, step_folder, name):
        with open(os.path.join(os.fsencode(step_folder), name), "w"):  # noqa: PTH118, PTH123  a Path cannot hold it
            pass
        assert survey(step_folder).obstacle.endswith("a name that is not UTF-8")

    def test_folder_name_without_utf8_is_an_obstacle(self, step_folder):
        os.makedirs(os.path.join(os.fsencode(step_folder), b"\xff", b"sub"))  # noqa: PTH103, PTH118  a Path cannot hold it
        assert survey(step_folder).obstacle.endswith("a name that is not UTF-8")

    def test_storable_files_beside_an_obstacle_are_listed(self, step_folder):
        os.mkfifo(step_folder / "pipe")
        assert [file.path for file in survey(step_folder).files] == ["deep/weights"]

    def test_survey_of_a_missing_folder_raises_unusable_checkpoint(self, tmp_path):
        with pytest.raises(UnusableCheckpointError):
            survey(tmp_path / "step-9")


class TestChange:
    def test_changed_size_or_time_of_a_file_is_reported(self, step_folder):
        finished = local_files(step_folder)
        assert changed_since(finished, local_files(step_folder)) == ""
        (step_folder / "deep" / "weights").write_text("short")
        assert changed_since(finished, local_files(step_folder)) == "deep/weights had 10 bytes and has 5"
        (step_folder / "deep" / "weights").write_text("x" * 10)
        os.utime(step_folder / "deep" / "weights", ns=(1, 1))
        assert changed_since(finished, local_files(step_folder)) == "deep/weights was written again"

    def test_file_whose_last_name_is_being_removed_is_gone(self, step_folder, tmp_path):
        """For a moment a name leads to a file that has no link left, as this one does for as long as it is open."""
        removed = tmp_path / "removed"
        with removed.open("w") as file:
            removed.unlink()
            (step_folder / "model").symlink_to(f"/proc/{os.getpid()}/fd/{file.fileno()}")
            with pytest.raises(UnusableCheckpointError, match="step-1"):
                survey(step_folder)

    def test_added_file_is_a_change_and_a_removed_file_is_none(self, step_folder):
        finished = local_files(step_folder)
        (step_folder / "more").touch()
        assert changed_since(finished, local_files(step_folder)) == "more was added"
        (step_folder / "more").unlink()
        (step_folder / "deep" / "weights").unlink()
        assert changed_since(finished, local_files(step_folder)) == ""
