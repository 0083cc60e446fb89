"""Packing the user's folder with a real git, and unpacking it as on the node."""

import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from launcher.catalog.assets import asset
from launcher.model.errors import ImpossibleError
from launcher.submit import work_archive
from launcher.submit.stub_files import empty_submodules
from launcher.submit.work_archive import pack, work_files
from tests.checks import some

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_DIR": "/nonexistent/other",
}


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "GIT_DIR"}
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    write(folder, train_dot_py="print(1)\n", conf__a_dot_yaml="a: 1\n")
    (folder / "train.py").chmod(0o755)
    return folder


@pytest.fixture
def work_repository(work):
    git(work, "init", "-q")
    write(work, _dot_gitignore="data/\n*.ckpt\n", data__big="x" * 1000, old_dot_ckpt="x")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "one")
    return work


def packed(folder, tmp_path, name="a.tar.gz"):
    return pack(folder, tmp_path / name, ENVIRONMENT)


def members(archive):
    with tarfile.open(archive.path) as opened:
        return {member.name: member for member in opened.getmembers()}


class TestGit:
    def test_git_ignored_files_are_left_out_and_the_revision_is_recorded(self, work_repository, tmp_path):
        archive = packed(work_repository, tmp_path)
        assert sorted(members(archive)) == [".gitignore", "conf/a.yaml", "train.py"]
        assert (archive.git.revision, archive.git.dirty, archive.files) == (
            git(work_repository, "rev-parse", "HEAD"),
            False,
            3,
        )

    def test_modified_work_tree_is_packed_with_the_changes_and_marked_dirty(self, work_repository, tmp_path):
        write(work_repository, train_dot_py="print(2)\n", new_dot_py="new\n")
        (work_repository / "conf" / "a.yaml").unlink()
        archive = packed(work_repository, tmp_path)
        assert sorted(members(archive)) == [".gitignore", "new.py", "train.py"]
        assert archive.git.dirty
        with tarfile.open(archive.path) as opened:
            assert opened.extractfile("train.py").read() == b"print(2)\n"

    def test_subfolder_of_a_repository_is_packed_alone(self, work_repository, tmp_path):
        assert sorted(members(packed(work_repository / "conf", tmp_path))) == ["a.yaml"]
        write(work_repository, train_dot_py="print(3)\n")
        assert not packed(work_repository / "conf", tmp_path).git.dirty

    def test_repository_without_a_commit_is_packed_without_revision(self, work, tmp_path):
        git(work, "init", "-q")
        archive = packed(work, tmp_path)
        assert (archive.git.revision, archive.git.dirty, archive.files) == (None, True, 2)

    def test_git_ignored_folder_is_packed_without_git(self, work_repository, tmp_path):
        archive = packed(work_repository / "data", tmp_path)
        assert (sorted(members(archive)), archive.git) == (["big"], None)

    def test_submodule_is_packed_with_all_files(self, work_repository, tmp_path):
        inner = tmp_path / "inner"
        write(inner, lib_dot_py="lib\n")
        git(inner, "init", "-q")
        git(inner, "add", ".")
        git(inner, "commit", "-q", "-m", "one")
        git(work_repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "vendor")
        assert "vendor/lib.py" in members(packed(work_repository, tmp_path))

    def test_private_and_generated_files_are_packed_only_if_tracked(self, work_repository, tmp_path):
        write(work_repository, _dot_env="KEY=1\n", _dot_slipway__runs__x="x", node_modules__a="a")
        assert ".env" not in members(packed(work_repository, tmp_path))
        git(work_repository, "add", "-f", "node_modules/a")
        assert [name for name in members(packed(work_repository, tmp_path)) if "node" in name] == ["node_modules/a"]


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 4294967296\n"


def problems(folder):
    """The messages and fixes of a refused folder, by the first word of the message."""
    with pytest.raises(ImpossibleError) as refused:
        work_files(folder, ENVIRONMENT)
    return {finding.message.partition(" ")[0]: (finding.message, finding.hint) for finding in refused.value.findings}


@pytest.fixture
def clone(work_repository, tmp_path):
    """A clone without --recurse-submodules of a repository whose submodule has a submodule."""
    allowed = ("-c", "protocol.file.allow=always")
    for name in ("deep", "inner"):
        write(tmp_path / name, lib_dot_py="lib\n")
        git(tmp_path / name, "init", "-q")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "-q", "-m", "one")
    git(tmp_path / "inner", *allowed, "submodule", "--quiet", "add", str(tmp_path / "deep"), "third/deep")
    git(tmp_path / "inner", "commit", "-q", "-m", "two")
    git(work_repository, *allowed, "submodule", "--quiet", "add", str(tmp_path / "inner"), "vendor")
    git(work_repository, "commit", "-q", "-m", "two")
    git(tmp_path, "clone", "-q", str(work_repository), "clone")
    return tmp_path / "clone"


class TestStubs:
    """Files that stand for others are refused, each with the command that brings the others."""

    def test_clone_without_submodules_is_refused_with_the_command(self, clone):
        (message, fix), *others = problems(clone).values()
        assert (message, others) == ("vendor/ is a submodule without its files", [])
        assert fix.startswith("git submodule update --init --recursive; ")

    def test_nested_submodule_without_files_is_named_by_the_whole_path(self, clone):
        git(clone, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
        assert list(problems(clone)) == ["vendor/third/deep/"]
        git(clone, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
        assert {"vendor/lib.py", "vendor/third/deep/lib.py"} <= set(work_files(clone, ENVIRONMENT).names)

    def test_submodule_in_an_ignore_line_is_left_out(self, clone):
        (clone / ".slipwayignore").write_text("/vendor/\n")
        assert not [name for name in work_files(clone, ENVIRONMENT).names if name.startswith("vendor")]

    def test_gitlink_without_gitmodules_is_refused_with_another_fix(self, clone):
        (clone / ".gitmodules").unlink()
        assert problems(clone)["vendor/"][1].startswith("put its files there, then git rm --cached vendor/")

    def test_folder_outside_git_with_empty_submodule_is_refused(self, work):
        write(
            work, _dot_gitmodules='[submodule "x"]\n\tpath = third/x\n\turl = ../x\n[submodule "up"]\n\tpath = ../up\n'
        )
        (work / "third" / "x").mkdir(parents=True)
        (work.parent / "up").mkdir()
        assert list(problems(work)) == ["third/x/"]

    def test_submodule_whose_folder_is_missing_is_refused(self, clone):
        shutil.rmtree(clone / "vendor")
        (message, fix), *others = problems(clone).values()
        assert (message, others) == ("vendor/ is a submodule without its files", [])
        assert fix.startswith("git submodule update --init --recursive; ")
        (clone / ".slipwayignore").write_text("/vendor/\n")
        assert "vendor/" not in work_files(clone, ENVIRONMENT).names

    def test_missing_submodule_below_the_shipped_folder_is_refused(self, clone):
        write(clone, jobs__train_dot_py="pass\n")
        git(clone, "mv", "vendor", "jobs/vendor")
        shutil.rmtree(clone / "jobs" / "vendor")
        assert list(problems(clone / "jobs")) == ["vendor/"]
        assert empty_submodules(clone / "jobs") == ["vendor/"]

    def test_submodule_that_git_no_longer_has_is_not_missed(self, clone):
        git(clone, "rm", "-q", "--cached", "vendor")
        shutil.rmtree(clone / "vendor")
        assert (clone / ".gitmodules").is_file()
        assert work_files(clone, ENVIRONMENT).names

    def test_folder_outside_git_with_missing_submodule_is_refused(self, work):
        write(work, _dot_gitmodules='[submodule "x"]\n\tpath = third/x\n\turl = ../x\n')
        assert list(problems(work)) == ["third/x/"]

    @pytest.mark.parametrize(
        "pointer",
        [POINTER, POINTER.replace("git-lfs", "hawser"), POINTER.replace("oid", f"ext-0-a sha256:{'b' * 64}\noid")],
    )
    def test_lfs_pointer_is_refused_with_size_and_command(self, work_repository, pointer):
        (work_repository / "weights 1.bin").write_text(pointer)
        ((message, fix),) = problems(work_repository).values()
        assert message == "weights 1.bin is a Git LFS pointer: its 4,294,967,296 bytes are not here"
        assert fix.startswith('git lfs pull --include "weights 1.bin"')

    @pytest.mark.parametrize("end", ["", "\n", "\r\n"])
    def test_annex_pointer_is_refused_with_size_and_command(self, work_repository, end):
        (work_repository / "weights 1.bin").write_text(f"/annex/objects/SHA256E-s4096--{'a' * 64}.bin{end}")
        ((message, fix),) = problems(work_repository).values()
        assert message == "weights 1.bin is a git-annex pointer: its 4,096 bytes are not here"
        assert fix.startswith("git annex get 'weights 1.bin'")

    @pytest.mark.parametrize("text", [f"# {POINTER}", POINTER.replace("sha256:", "md5:"), POINTER.splitlines()[0]])
    def test_text_file_mentioning_lfs_pointers_is_packed(self, work, text):
        (work / "notes.txt").write_text(text)
        assert "notes.txt" in work_files(work, ENVIRONMENT).names


class TestForeignRepositories:
    """A folder of somebody else's branch can name programs; none of them runs."""

    def bare_in(self, work, tmp_path):
        """The work folder as a bare repository, whose config names a program; returns the file that it writes."""
        ran = tmp_path / "ran"
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\ntouch {ran}\n")
        program.chmod(0o755)
        git(work, "init", "-q", "--bare", ".")
        with (work / "config").open("a") as config:
            config.write(f"\tfsmonitor = {program}\n\thooksPath = {tmp_path}\n\tworktree = .\n")
        (work / "config").write_text((work / "config").read_text().replace("bare = true", "bare = false"))
        return ran

    def test_bare_repository_in_the_folder_is_refused_without_running_a_program(self, work, tmp_path):
        ran = self.bare_in(work, tmp_path)
        git(work, "status")
        assert ran.exists(), "the attack itself works"
        ran.unlink()
        with pytest.raises(ImpossibleError, match="bare") as refused:
            work_files(work, ENVIRONMENT)
        assert "remove or rename" in refused.value.hint
        assert not ran.exists()

    def test_monitor_of_an_ordinary_repository_is_not_started(self, work_repository, tmp_path):
        ran = tmp_path / "ran"
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\ntouch {ran}\n")
        program.chmod(0o755)
        git(work_repository, "config", "core.fsmonitor", str(program))
        assert work_files(work_repository, ENVIRONMENT).git is not None
        assert not ran.exists()

    @pytest.mark.parametrize("kind", ["clean", "process"])
    @pytest.mark.parametrize("place", [".gitattributes", ".git/info/attributes", "elsewhere", "included"])
    def test_filter_of_an_ordinary_repository_is_not_started(self, work_repository, tmp_path, kind, place):
        ran, program = tmp_path / "ran", tmp_path / "program"
        program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
        program.chmod(0o755)
        attributes = tmp_path / "attributes" if place in ("elsewhere", "included") else work_repository / place
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("* filter=a=b.c\n")
        settings = f'[filter "a=b.c"]\n\t{kind} = {program}\n\trequired = true\n'
        settings += f"[core]\n\tattributesFile = {attributes}\n" if place in ("elsewhere", "included") else ""
        if place == "included":
            (tmp_path / "settings").write_text(settings)
            settings = f"[include]\n\tpath = {tmp_path / 'settings'}\n"
        with (work_repository / ".git/config").open("a") as config:
            config.write(settings)
        (work_repository / "train.py").touch()
        assert work_files(work_repository, ENVIRONMENT).git is not None
        assert not ran.exists()
        with contextlib.suppress(subprocess.CalledProcessError):
            git(work_repository, "status")
        assert ran.exists(), "the attack itself works"


class TestElsewhere:
    def test_folder_outside_git_is_packed_without_environments_and_caches(self, work, tmp_path):
        write(work, _dot_env="KEY=1\n", _dot_slipway__a="a", env__pyvenv_dot_cfg="", deep__b="b")
        (work / "__pycache__").mkdir(exist_ok=True)
        (work / "__pycache__" / "m.pyc").write_text("x")
        archive = packed(work, tmp_path)
        assert {"conf/a.yaml", "deep/b", "train.py"} <= set(members(archive))
        assert not [
            name for name in members(archive) if ".env" in name or ".slipway" in name or name.startswith("env/")
        ]
        assert not [name for name in members(archive) if name.startswith("__pycache__")]
        assert archive.git is None

    def test_missing_workdir_is_refused(self, tmp_path):
        with pytest.raises(ImpossibleError, match=r"run\.workdir: no folder"):
            packed(tmp_path / "nothing", tmp_path)

    def test_empty_workdir_is_refused(self, tmp_path):
        (tmp_path / "empty").mkdir()
        with pytest.raises(ImpossibleError) as refused:
            packed(tmp_path / "empty", tmp_path)
        assert refused.value.findings[0].code == "workdir-empty"


PRIVATE_KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE\n-----END OPENSSH PRIVATE KEY-----\n"
)


class TestPrivate:
    """What holds credentials stays on this machine, tracked or not, and is named."""

    NAMES = (
        *(".env", ".env.production", ".ENV", "conf/.netrc", "id_rsa", "id_rsa.pub", "id_ed25519_work", "id_ecdsa"),
        *(".git-credentials", ".kube/config", ".docker/config.json", ".huggingface/token", ".aws/credentials"),
        *(".ssh/known_hosts", ".pypirc", "deep/er/.npmrc"),
    )

    @pytest.mark.parametrize("tracked", [True, False])
    def test_file_with_a_private_name_is_left_out(self, work_repository, tmp_path, tracked):
        for name in self.NAMES:
            (work_repository / name).parent.mkdir(parents=True, exist_ok=True)
            (work_repository / name).write_text("KEY=1\n")
        if tracked:
            git(work_repository, "add", "-f", ".")
            git(work_repository, "commit", "-q", "-m", "two")
        archive = packed(work_repository, tmp_path)
        assert set(members(archive)) - {"data/big", "old.ckpt"} == {".gitignore", "conf/a.yaml", "train.py"}
        shortest = {name.split("/")[0] if name.startswith(".") else name for name in self.NAMES}
        assert set(archive.left_out) == shortest

    def test_private_files_outside_git_are_left_out(self, work, tmp_path):
        write(work, _dot_env="KEY=1\n", _dot_aws__credentials="x")
        archive = packed(work, tmp_path)
        assert (sorted(members(archive)), archive.left_out) == (["conf/a.yaml", "train.py"], (".aws", ".env"))

    def test_file_containing_a_private_key_is_left_out(self, work, tmp_path):
        (work / "deploy.txt").write_text(f"the key:\n{PRIVATE_KEY}")
        (work / "account.json").write_text('{"type": "x", "private_key": "-----BEGIN PRIVATE KEY-----\\nMII"}')
        (work / "windows.pem").write_bytes(b"-----BEGIN RSA PRIVATE KEY-----\r\nMII\r\n")
        (work / "public.pem").write_text("-----BEGIN PUBLIC KEY-----\nMII\n")
        (work / "scan.py").write_text('KEY = re.compile("-----BEGIN PRIVATE KEY-----")\n')
        archive = packed(work, tmp_path)
        assert archive.left_out == ("account.json", "deploy.txt", "windows.pem")
        assert {"public.pem", "scan.py"} <= set(members(archive))

    def test_slipwayignore_rules_add_and_readmit_files(self, work_repository, tmp_path):
        write(
            work_repository,
            _dot_env="KEY=1\n",
            keys__id_rsa="x",
            keys__mine_dot_txt=PRIVATE_KEY,
            notes__a="a",
            notes__b="b",
        )
        write(work_repository, _dot_slipwayignore="notes/*\n!notes/b\n!.env\n!keys/\n!data/big\n")
        archive = packed(work_repository, tmp_path)
        there = {".env", ".gitignore", ".slipwayignore", "conf/a.yaml", "data/big", "keys/id_rsa", "keys/mine.txt"}
        assert set(members(archive)) == there | {"notes/b", "train.py"}
        assert archive.left_out == ()

    def test_unreadable_slipwayignore_is_refused(self, work, tmp_path):
        (work / ".slipwayignore").write_bytes(b"\xff\xfe")
        with pytest.raises(ImpossibleError, match=r"\.slipwayignore cannot be read: it is not UTF-8 text"):
            packed(work, tmp_path)


class TestSameBytes:
    def test_archive_hash_depends_on_names_contents_and_executable_bit_only(self, work, tmp_path):
        first = packed(work, tmp_path, "one.tar.gz")
        os.utime(work / "train.py", (1, 1))
        (work / "conf" / "a.yaml").chmod(0o600)
        second = packed(work, tmp_path, "another-name.tar.gz")
        assert first.sha256 == second.sha256 == hashlib.sha256(first.path.read_bytes()).hexdigest()
        (work / "train.py").chmod(0o644)
        assert packed(work, tmp_path).sha256 != first.sha256

    def test_archive_members_have_no_owner_and_no_time(self, work, tmp_path):
        for member in some(members(packed(work, tmp_path)).values()):
            assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)


class TestRefusals:
    @pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "conf/../../outside"])
    def test_link_to_a_target_outside_the_folder_is_refused(self, work, tmp_path, target):
        (tmp_path / "outside").write_text("secret")
        (work / "link").symlink_to(target)
        with pytest.raises(ImpossibleError) as refused:
            packed(work, tmp_path)
        assert "link is a link to a target outside the folder" in refused.value.findings[0].message

    def test_links_inside_the_folder_are_kept(self, work, tmp_path):
        (work / "conf" / "link").symlink_to("../train.py")
        (work / "folder").symlink_to("conf")
        (work / "later").symlink_to("not-there-yet")
        archive_members = members(packed(work, tmp_path))
        targets = {"conf/link": "../train.py", "folder": "conf", "later": "not-there-yet"}
        assert {name: archive_members[name].linkname for name in targets} == targets

    @pytest.mark.parametrize(
        "links, expected",
        [
            ({"a": "a"}, "a is a link that leads to itself, by a"),
            ({"a": "b", "b": "a"}, "a is a link that leads to itself, by b"),
            ({"a": "ignored.bin", ".slipwayignore": None}, "a is a link to ignored.bin, which is not shipped"),
            ({"w.bin": "../.git/annex/objects/Xx/SHA256E-s9--0.bin"}, "w.bin is a link of git-annex"),
        ],
    )
    def test_link_to_nothing_on_a_node_is_refused(self, work, tmp_path, links, expected):
        (work / "ignored.bin").write_text("x")
        for name, target in links.items():
            if target is None:
                (work / name).write_text("/ignored.bin\n")
            else:
                (work / name).symlink_to(target)
        with pytest.raises(ImpossibleError) as refused:
            packed(work, tmp_path)
        assert refused.value.findings[0].message.startswith(expected)

    def test_all_problems_of_a_workdir_are_reported_together(self, work, tmp_path):
        os.mkfifo(work / "pipe")
        (work / "link").symlink_to("/etc/passwd")
        with pytest.raises(ImpossibleError) as refused:
            packed(work, tmp_path)
        assert [finding.message.partition(" ")[0] for finding in refused.value.findings] == ["link", "pipe"]

    def test_file_name_other_than_utf_8_is_refused(self, work, tmp_path):
        (Path(os.fsdecode(os.fsencode(work) + b"/\xff"))).write_text("x")
        with pytest.raises(ImpossibleError) as refused:
            packed(work, tmp_path)
        assert "not UTF-8" in refused.value.findings[0].message

    @pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_FILES"])
    def test_too_large_workdir_names_the_largest_file_and_gitignore(self, work, tmp_path, monkeypatch, limit):
        (work / "weights.bin").write_bytes(bytes(3 << 20))
        monkeypatch.setattr(work_archive, limit, 2)
        with pytest.raises(ImpossibleError) as refused:
            packed(work, tmp_path)
        (finding,) = refused.value.findings
        assert (finding.code, "the largest: weights.bin 3 MiB" in finding.message) == ("workdir-too-large", True)
        assert ".gitignore" in finding.hint
        assert not (tmp_path / "a.tar.gz").exists()


@pytest.fixture(scope="module")
def fetch_module():
    spec = importlib.util.spec_from_file_location("fetch_work", asset("templates/slurm/fetch_work.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestUnpacking:
    def test_packed_archive_unpacks_to_the_same_files(self, fetch_module, work, tmp_path):
        (work / "link").symlink_to("conf/a.yaml")
        target = tmp_path / "there"
        target.mkdir()
        fetch_module.unpack(packed(work, tmp_path).path, target)
        assert (target / "link").read_text() == "a: 1\n"
        assert (target / "link").is_symlink()
        modes = [(target / name).stat().st_mode & 0o111 for name in ("train.py", "conf/a.yaml")]
        assert (modes[0] > 0, modes[1]) == (True, 0)

    @pytest.mark.parametrize(
        "hostile",
        [
            [("../out", None)],
            [("/slipway-out", None)],
            [("a/../../out", None)],
            [("link", ".."), ("link/out", None)],
            [("link/out", None), ("link", "..")],
            [("link", "conf"), ("link/out", None)],
            [("link", "/etc")],
            [("a/link", "../..")],
            [("pipe", "fifo")],
        ],
    )
    def test_hostile_archive_writes_no_file_outside_the_target(self, fetch_module, tmp_path, hostile):
        path = tmp_path / "hostile.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, link in hostile:
                member = tarfile.TarInfo(name)
                if link == "fifo":
                    member.type = tarfile.FIFOTYPE
                elif link:
                    member.type, member.linkname = tarfile.SYMTYPE, link
                archive.addfile(member, io.BytesIO())
        target = tmp_path / "deep" / "there"
        target.mkdir(parents=True)
        with pytest.raises(fetch_module.Refusal):
            fetch_module.unpack(path, target)
        assert list(target.iterdir()) == []
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["deep", "hostile.tar.gz"]
