"""A private folder on a shared machine: Slipway refuses what other users created or can reach."""

import os

import pytest

from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.errors import AgentError
from launcher.agent.node.private_folder import make_private

NEIGHBOUR = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder to another user takes root")


@pytest.fixture
def share(tmp_path):
    """As /tmp is: everybody may write, and nobody rename what is not theirs."""
    place = tmp_path / "scratch"
    place.mkdir()
    place.chmod(0o1777)
    return place


def own_folder(place):
    return place / f"slipway-{os.geteuid()}"


class TestMade:
    def test_every_level_is_private(self, share):
        folder = make_private(share, "slipway-1", "job")
        assert [path.stat().st_mode & 0o7777 for path in (folder, folder.parent)] == [0o700, 0o700]

    def test_private_folder_is_reused_on_the_second_call(self, share):
        folder = make_private(share, "slipway-1", "job")
        (folder / "owner.json").write_text("{}")
        assert make_private(share, "slipway-1", "job") == folder

    def test_link_to_the_private_folder_is_followed(self, share, tmp_path):
        (tmp_path / "link").symlink_to(share)
        assert make_private(tmp_path / "link", "slipway-1").resolve() == share / "slipway-1"

    def test_missing_parent_of_the_private_folder_is_created(self, tmp_path):
        assert make_private(tmp_path / "deep" / "er", "slipway-1").is_dir()


class TestNeighbour:
    @as_root
    @pytest.mark.parametrize("level", [0, 1], ids=["first level", "second level"])
    def test_folder_of_another_user_is_refused(self, share, level):
        folder = [own_folder(share), own_folder(share) / "tiny"][level]
        folder.mkdir(mode=0o700, parents=True)
        folder.parent.chmod(0o1777 if level == 0 else 0o700)
        os.chown(folder, NEIGHBOUR, NEIGHBOUR)
        with (
            pytest.raises(AgentError, match=f"{folder} belongs to user {NEIGHBOUR}"),
            Scratch(share, job="tiny", run="r1"),
        ):
            pass

    def test_planted_link_is_refused(self, share, tmp_path):
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        own_folder(share).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(AgentError, match="is a link"), Scratch(share, job="tiny", run="r1"):
            pass
        assert list((tmp_path / "elsewhere").iterdir()) == []

    @pytest.mark.parametrize("mode", [0o755, 0o770, 0o777, 0o1777])
    def test_folder_open_to_others_is_refused(self, share, mode):
        own_folder(share).mkdir()
        own_folder(share).chmod(mode)
        with (
            pytest.raises(AgentError, match=f"is open to others .mode {mode:04o}"),
            Scratch(share, job="tiny", run="r1"),
        ):
            pass

    @as_root
    def test_files_of_another_user_inside_are_refused(self, share):
        root = make_private(share, f"slipway-{os.geteuid()}", "tiny")
        (root / "owner.json").write_text('{"run": "r1"}')
        (root / "previous").mkdir()
        os.chown(root / "previous", NEIGHBOUR, NEIGHBOUR)
        with (
            pytest.raises(AgentError, match="previous was not made by the agent"),
            Scratch(share, job="tiny", run="r1"),
        ):
            pass

    def test_parent_open_to_others_without_sticky_bit_is_refused(self, share):
        share.chmod(0o777)
        with pytest.raises(AgentError, match="not sticky"), Scratch(share, job="tiny", run="r1"):
            pass
        assert not own_folder(share).exists()

    @as_root
    def test_a_place_of_another_user_is_refused(self, share):
        os.chown(share, NEIGHBOUR, NEIGHBOUR)
        with pytest.raises(AgentError, match=f"belongs to user {NEIGHBOUR}"), Scratch(share, job="tiny", run="r1"):
            pass

    @as_root
    def test_a_second_user_has_room_beside_the_first(self, share, tmp_path):
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_mode & 0o001 == 0:
                folder.chmod(0o711)
        with Scratch(share, job="tiny", run="r1"):
            child = os.fork()  # the interpreter need not be one that another user may start
            if child == 0:
                os.setgroups([])
                os.setgid(NEIGHBOUR)
                os.setuid(NEIGHBOUR)
                os._exit(as_neighbour(share))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (share / f"slipway-{NEIGHBOUR}" / "tiny").stat().st_uid == NEIGHBOUR


def as_neighbour(share):
    """In a process of another user: 0 when there is room for it and what is root's is closed to it."""
    try:
        with Scratch(share, job="tiny", run="r2"):
            list((share / "slipway-0").iterdir())
    except PermissionError:
        return 0
    except BaseException:  # noqa: BLE001  the exit code says it
        return 2
    return 1
