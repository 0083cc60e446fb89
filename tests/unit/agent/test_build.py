import itertools
import json
import os
import subprocess
import sys
import zipfile
from hashlib import sha256

import pytest
from botocore.exceptions import EndpointVariantError
from botocore.loaders import create_loader
from botocore.regions import EndpointResolver

from launcher.agent.build import SERVICES, build
from launcher.catalog.assets import asset
from launcher.rendering.kubernetes_job import START_SCRIPT


@pytest.fixture(scope="module")
def built_agent(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "slipway-agent.pyz"
    return path, build(path)


def start(path, home, *arguments, **environment):
    """Run the file with nothing of this environment: no packages, no variables."""
    command = [sys.executable, "-S", "-E", "-s", str(path), *(arguments or ["--version"])]
    variables = {"HOME": str(home), "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(command, env=variables, cwd=home, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def unpacked_home(built_agent, tmp_path_factory):
    """A home folder in which the agent has run once."""
    home = tmp_path_factory.mktemp("home")
    start(built_agent[0], home)
    return home


def endpoint_of(resolver, asked):
    """What botocore makes of an endpoint's description, or its refusal."""
    try:
        return resolver.construct_endpoint(**asked)
    except EndpointVariantError as refused:
        return str(refused)


def cached_files(home):
    return home / ".cache" / "slipway-agent"


class TestFile:
    def test_sdk_of_a_pods_first_process_knows_the_services_of_secrets(self, built_agent, tmp_path):
        program = (
            "import runpy, sys; sdk = runpy.run_path(sys.argv[1])['session']();"
            "print([sdk.client(name, region_name='us-east-2').meta.service_model.service_id for name in sys.argv[2:]])"
        )
        command = [sys.executable, "-S", "-E", "-s", "-c", program, str(asset(START_SCRIPT)), "secretsmanager", "ssm"]
        variables = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "SLIPWAY_AGENT": str(built_agent[0])}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert done.stdout == "['Secrets Manager', 'SSM']\n", done.stderr

    def test_endpoints_of_the_agents_services_are_those_of_botocore(self, built_agent):
        with zipfile.ZipFile(built_agent[0]) as file:
            own = EndpointResolver(json.loads(file.read("lib/botocore/data/endpoints.json")))
        whole = EndpointResolver(create_loader().load_data("endpoints"))
        regions = {
            region
            for partition in whole.get_available_partitions()
            for service in ("ec2", *SERVICES)
            for region in whole.get_available_endpoints(service, partition, allow_non_regional=True)
        }
        assert {"us-east-1", "cn-north-1", "us-gov-west-1"} < regions
        for region, service in itertools.product(sorted(regions), SERVICES):
            for option in ({}, {"use_dualstack_endpoint": True}, {"use_fips_endpoint": True}):
                asked = {"service_name": service, "region_name": region, **option}
                assert endpoint_of(own, asked) == endpoint_of(whole, asked)

    def test_agent_file_name_is_the_digest_of_the_content(self, built_agent):
        path, digest = built_agent
        assert digest == sha256(path.read_bytes()).hexdigest()

    def test_two_builds_give_identical_archives(self, built_agent, tmp_path):
        path, digest = built_agent
        assert build(tmp_path / "other") == digest
        assert (tmp_path / "other").read_bytes() == path.read_bytes()

    def test_agent_file_entries_are_sorted_with_a_fixed_date(self, built_agent):
        with zipfile.ZipFile(built_agent[0]) as file:
            entries = file.infolist()
        assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
        assert {(entry.date_time, entry.compress_type) for entry in entries} == {((1980, 1, 1, 0, 0, 0), 0)}

    def test_agent_file_contains_only_the_modules_a_node_needs(self, built_agent):
        with zipfile.ZipFile(built_agent[0]) as file:
            names = file.namelist()
        services = {
            name.split("/")[3] for name in names if name.startswith("lib/botocore/data/") and name.count("/") > 3
        }
        assert services == {"s3", "secretsmanager", "ssm", "sts"}
        tops = {name.split("/")[1] for name in names if name.startswith("lib/")}
        sdk = {"boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six.py", "urllib3"}
        assert tops == sdk | {"launcher", "licences"}
        launcher_files = {name for name in names if name.startswith("lib/launcher/")}
        assert not [
            name for name in launcher_files if not name.startswith(("lib/launcher/__init__.py", "lib/launcher/agent/"))
        ]
        assert not [name for name in names if name.endswith((".pyc", ".so")) or "__pycache__" in name]

    def test_agent_archive_contains_the_licences(self, built_agent):
        with zipfile.ZipFile(built_agent[0]) as file:
            holders = {name.split("/")[2] for name in file.namelist() if name.startswith("lib/licences/")}
        assert holders == {"boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3"}


class TestStart:
    def test_agent_file_starts_without_installed_packages(self, built_agent, tmp_path):
        done = start(built_agent[0], tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"slipway-agent {built_agent[1][:12]} (slipway.job/1, Python 3.")

    def test_sdk_can_be_imported_from_the_agent_file(self, built_agent, unpacked_home):
        library = cached_files(unpacked_home) / built_agent[1] / "lib"
        program = (
            f"import sys; sys.path.insert(0, {str(library)!r})\n"
            "from launcher.agent import session\n"
            "from launcher.agent.store.objects import Store\n"
            "import boto3, six, urllib3\n"
            "store = Store('s3://bucket/x')\n"
            "print({module.__file__.startswith(sys.path[0]) for module in (session, boto3, six, urllib3)})\n"
        )
        variables = {"PATH": "/usr/bin:/bin", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
        command = [sys.executable, "-S", "-s", "-c", program]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("{True}\n", "")

    def test_unpacks_once_into_a_private_folder(self, built_agent, unpacked_home):
        folder = cached_files(unpacked_home) / built_agent[1]
        before = folder.stat().st_ino
        assert cached_files(unpacked_home).stat().st_mode & 0o022 == 0
        assert folder.stat().st_mode & 0o077 == 0
        start(built_agent[0], unpacked_home)
        assert folder.stat().st_ino == before
        assert [path.name for path in cached_files(unpacked_home).iterdir()] == [built_agent[1]]

    def test_two_at_once_are_both_whole(self, built_agent, tmp_path):
        command = [sys.executable, "-S", "-E", "-s", str(built_agent[0]), "--version"]
        variables = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        running = [
            subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(4)
        ]
        answers = {process.communicate()[0][:26] for process in running}
        assert answers == {f"slipway-agent {built_agent[1][:12]}".encode()}
        assert [path.name for path in cached_files(tmp_path).iterdir()] == [built_agent[1]]

    def test_a_damaged_folder_is_replaced(self, built_agent, tmp_path):
        start(built_agent[0], tmp_path)
        program = cached_files(tmp_path) / built_agent[1] / "lib" / "launcher" / "agent" / "program.py"
        program.write_text("")
        assert start(built_agent[0], tmp_path).stdout.startswith("slipway-agent ")
        assert program.stat().st_size > 0
        assert [path.name for path in cached_files(tmp_path).iterdir()] == [built_agent[1]]

    def test_cache_folder_open_to_others_is_not_used(self, built_agent, tmp_path):
        cached_files(tmp_path).mkdir(parents=True)
        cached_files(tmp_path).chmod(0o777)
        temporary = tmp_path / "tmp"
        temporary.mkdir()
        assert start(built_agent[0], tmp_path, TMPDIR=str(temporary)).returncode == 0
        assert list(cached_files(tmp_path).iterdir()) == []
        assert (temporary / f"slipway-agent-{os.getuid()}" / built_agent[1]).is_dir()

    def test_the_folder_can_be_named(self, built_agent, tmp_path):
        assert start(built_agent[0], tmp_path, SLIPWAY_AGENT_CACHE=str(tmp_path / "here")).returncode == 0
        assert (tmp_path / "here" / built_agent[1]).is_dir()

    def test_unreadable_job_file_exits_with_78(self, built_agent, unpacked_home):
        (unpacked_home / "job.json").write_text('{"schema": "slipway.job/1"}')
        done = start(built_agent[0], unpacked_home, "run", "--config", "job.json")
        assert done.returncode == 78
        assert done.stderr.splitlines()[0] == "slipway-agent: job.json: run is missing"

    def test_an_old_python_gets_a_sentence(self, built_agent, tmp_path):
        """Its first module must be understood, and refuse, before anything newer is read."""
        with zipfile.ZipFile(built_agent[0]) as file:
            text = file.read("__main__.py").decode()
        program = "import sys; sys.version_info = (3, 9, 18); sys.argv = ['agent', 'run']\n" + text
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 78
        assert done.stderr.startswith("slipway-agent: needs Python 3.10 or later, got 3.9.18 (")
