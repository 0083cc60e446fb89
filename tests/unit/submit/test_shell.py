"""Shipping the job folder to a head node: complete and unchanged, or not at all."""

import os
import tarfile
from pathlib import Path

import pytest

from launcher.submit.jobs import SchedulerError
from launcher.submit.shell import LocalShell, unpacked_path, unpacking


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "job.sbatch").write_text("#!/bin/bash\n")
    path = tmp_path / "job.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        packed.add(tmp_path / "job.sbatch", "job.sbatch")
    return path


@pytest.fixture
def local_shell(tmp_path: Path) -> LocalShell:
    (tmp_path / "home").mkdir()
    return LocalShell({"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")})


def test_job_archive_is_unpacked_into_the_job_folder(local_shell: LocalShell, archive: Path, tmp_path: Path) -> None:
    assert local_shell.put(archive, "slipway/a b") == str(tmp_path / "home/slipway/a b")
    assert [path.name for path in (tmp_path / "home/slipway/a b").iterdir()] == ["job.sbatch"]
    assert [path.name for path in (tmp_path / "home/slipway").iterdir()] == ["a b"]


@pytest.mark.parametrize("source", ["cat {other}", "head -c 40 {archive}", "cat {archive} {other}", "true", "false"])
def test_job_archive_with_other_bytes_is_not_unpacked(
    local_shell: LocalShell, archive: Path, tmp_path: Path, source: str
) -> None:
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz") as packed:
        packed.add(tmp_path / "job.sbatch", "evil.sbatch")
    script = unpacking("slipway/a", source.format(other=other, archive=archive), archive)
    with pytest.raises(SchedulerError, match="cannot create the job folder"):
        unpacked_path(local_shell.run(script), "slipway/a", local_shell.name)
    assert list((tmp_path / "home/slipway").iterdir()) == []
