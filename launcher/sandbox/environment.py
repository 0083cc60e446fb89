"""The environment variables of a process that uses the sandbox as AWS, without any other access to AWS."""

from collections.abc import Mapping

from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox.keys import AccessKey

SERVER_LOG = "server.log"
"""File in a sandbox's folder with errors of the server, and calls that the server does not emulate."""

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
