"""The environment variables of a process that uses the sandbox as AWS, without any other access to AWS."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox.keys import AccessKey
from launcher.submit.callers import without_callers_job

SERVER_LOG = "server.log"
"""File in a sandbox's folder with errors of the server, and calls that the server does not emulate."""

_USERS = (
    *("*_TOKEN", "*_API_KEY", "*_PASSWORD", "*_SECRET", "*_SECRET_KEY"),
    *("WANDB_*", "MLFLOW_*", "COMET_*", "NEPTUNE_*"),
    *("BASH_ENV", "ENV", "BASH_FUNC_*", "SHELLOPTS", "BASHOPTS"),
)
"""Patterns of names of the user's credentials and trackers, and of what the user's shells run at their start."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def of_sandbox(endpoint: str, region: str, key: AccessKey) -> dict[str, str]:
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


def of_machine(base: Mapping[str, str]) -> dict[str, str]:
    """An environment as an emulated instance has it: this computer's, without what a user's shell adds.

    An instance in AWS has nothing of that shell: a rehearsal with a key from there would pass, and the run would fail.

    >>> of_machine({"RANK": "3", "HF_TOKEN": "hf_x", "AWS_PROFILE": "prod", "PATH": "/bin"})
    {'PATH': '/bin'}
    """
    variables = without_callers_job(without_aws(base))
    return {name: value for name, value in variables.items() if not any(fnmatchcase(name, users) for users in _USERS)}
