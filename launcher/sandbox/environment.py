"""The environment variables of a process that uses the sandbox as AWS, without any other access to AWS."""

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox.keys import AccessKey

SERVER_LOG = "server.log"
"""File in a sandbox's folder with errors of the server, and calls that the server does not emulate."""

_OF_COMPUTER = (
    *("PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "LANGUAGE", "LC_*"),
    *("SSL_CERT_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX*", "UV_DEFAULT_INDEX"),
    *("PYENV_*", "PYTHONDONTWRITEBYTECODE", "SLIPWAY_SANDBOX*", "SLIPWAY_SCRATCH"),
)
"""Patterns of what this computer's programs need: their places, its language, certificates and package indexes."""
_PROGRAMS = ("launcher", "boto3", "moto")
"""Packages of the sandbox's own programs."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")

_FIRST_PORT, _PORTS = 20_000, 10_000


def rendezvous_port(number: int) -> dict[str, str]:
    """The variable with a job's rendezvous port; the nodes of all sandboxes are this computer, so that jobs differ.

    >>> rendezvous_port(45_001)
    {'SLIPWAY_SANDBOX_PORT': '25001'}
    """
    return {"SLIPWAY_SANDBOX_PORT": str(_FIRST_PORT + number % _PORTS)}


def sandbox_environment(endpoint: str, region: str, key: AccessKey) -> dict[str, str]:
    """The variables that direct SDKs and the CDK to an endpoint, with its credentials.

    The user's own profiles and credentials are hidden, so that no process uses them by mistake.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": key.id,
        "AWS_SECRET_ACCESS_KEY": key.secret,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_DEFAULT_ACCOUNT": ACCOUNT,
        "CDK_DEFAULT_REGION": region,
        # The notices are fetched from a web server, and the sandbox makes no outside connections.
        "CDK_NOTICES": "false",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "1",
    }


def without_aws(base: Mapping[str, str]) -> dict[str, str]:
    """An environment without AWS settings and without proxies: the sandbox is on loopback.

    >>> without_aws({"AWS_PROFILE": "prod", "HTTPS_PROXY": "http://proxy:3128", "HOME": "/home/ada"})
    {'HOME': '/home/ada'}
    """
    return {name: value for name, value in base.items() if not name.startswith("AWS_") and name.lower() not in _PROXIES}


def machine_environment(base: Mapping[str, str]) -> dict[str, str]:
    """An environment as an emulated machine has it: what this computer's programs need, and nothing else of `base`.

    A machine in AWS has nothing of the submitting shell: a rehearsal with a key or a package folder from there would
    pass, and the run would fail.

    >>> machine_environment(
    ...     {"RANK": "3", "HF_TOKEN": "hf_x", "AWS_PROFILE": "prod", "PYTHONPATH": "/me/src", "PATH": "/bin"}
    ... )
    {'PATH': '/bin'}
    """
    variables = {
        name: value for name, value in base.items() if any(fnmatchcase(name, pattern) for pattern in _OF_COMPUTER)
    }
    folders = [folder for folder in base.get("PYTHONPATH", "").split(os.pathsep) if folder and _has_programs(folder)]
    return variables | ({"PYTHONPATH": os.pathsep.join(folders)} if folders else {})


def _has_programs(folder: str) -> bool:
    """Whether the sandbox's own programs are imported from a folder of PYTHONPATH."""
    return any(Path(folder, package).is_dir() for package in _PROGRAMS)
