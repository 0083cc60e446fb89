"""A second look at a finished checkpoint, for what its trainer writes or removes after it."""

import shutil

import pytest

from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.errors import UnusableCheckpointError


class RemovedBetweenLooks(FinishedFolder):
    """A checkpoint that its trainer removes after the first look."""

    def survey(self):
        found = super().survey()
        shutil.rmtree(self.path)
        return found


def test_change_that_the_first_look_alone_sees_is_none(tmp_path):
    folder = tmp_path / "step-1"
    folder.mkdir()
    (folder / "data").write_text("1")
    finished = {"step": 1, "path": folder, "files": local_files(folder)}
    (folder / "data").chmod(0o600)
    assert FinishedFolder(**finished).look_again()[0] == "data was written again"
    with pytest.raises(UnusableCheckpointError, match="step-1"):
        RemovedBetweenLooks(**finished).look_again()
