# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""Installs a chart into an EKS cluster: CloudFormation calls it for Custom::HyperPodChart, and later the guard does.

The chart is in S3, pinned by its digest, and helm is in the function's layer: nothing else is downloaded. The nodes may
not exist yet, so the function waits for no pod. The installation is deleted with its cluster. Uses only the standard
library and boto3; infra/parts/hyperpod_chart.py creates function and resource.
"""

import base64
import hashlib
import io
import json
import os
import subprocess
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pods
from botocore.signers import RequestSigner

HELM = os.environ.get("HELM_PROGRAM", "/opt/helm/helm")
TRIES, PAUSE_S = 12, 10.0
"""A new access entry becomes effective in the cluster only after some seconds."""
NOT_YET = ("Unauthorized", "the server has asked for the client to provide credentials", "forbidden")
REASON = 3000
"""Characters of a reason: CloudFormation accepts a response of 4,096 bytes."""


class ChartError(Exception):
    """The chart cannot be installed."""


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any] | None:
    """The Lambda handler: for CloudFormation, or for the guard, which requests the number of pods that need nodes.

    Every outcome gets a response: without one, CloudFormation waits for an hour.
    """
    if "RequestType" not in event:
        api = pods.api(token_for(os.environ["CLUSTER_NAME"], boto3.client))
        return pods.count_pods(api, event, datetime.now(UTC))
    try:
        if event["RequestType"] != "Delete":
            install(event["ResourceProperties"], boto3.client, time.sleep)
        answer(event, "SUCCESS", "installed")
    except Exception as problem:
        answer(event, "FAILED", f"{type(problem).__name__}: {problem}")
        raise
    return None


def answer(event: Mapping[str, Any], status: str, reason: str) -> None:
    """Report the outcome to CloudFormation, at the URL in its event."""
    properties = event["ResourceProperties"]
    body = {
        "Status": status,
        "Reason": reason[-REASON:],
        "PhysicalResourceId": f"{properties['Cluster']}/{properties['Release']}",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    request = urllib.request.Request(  # noqa: S310 - S3's, by CloudFormation
        event["ResponseURL"], data=json.dumps(body).encode(), method="PUT", headers={"Content-Type": ""}
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310 - the same
        pass


def install(properties: Mapping[str, str], client: Callable[..., Any], pause: Callable[[float], None]) -> None:
    """Install or update the release.

    Raises:
        ChartError: the chart's digest differs from the pinned one, or helm fails.
    """
    content = client("s3").get_object(Bucket=properties["Bucket"], Key=properties["Key"])["Body"].read()
    actual = hashlib.sha256(content).hexdigest()
    if actual != properties["Sha256"]:
        raise ChartError(
            f"s3://{properties['Bucket']}/{properties['Key']} has SHA-256 {actual}, pinned is {properties['Sha256']}"
        )
    with tempfile.TemporaryDirectory() as scratch:
        chart, values, authority = (Path(scratch, name) for name in ("chart", "values.yaml", "ca.crt"))
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(chart)
        values.write_text(properties["Values"], encoding="utf-8")
        authority.write_bytes(base64.b64decode(properties["Authority"]))
        command = [HELM, "upgrade", "--install", properties["Release"], str(chart)]
        command += ["--namespace", properties["Namespace"], "--values", str(values), "--history-max", "2"]
        variables = {
            "HELM_KUBEAPISERVER": properties["Endpoint"],
            "HELM_KUBECAFILE": str(authority),
            **{f"HELM_{kind}_HOME": str(Path(scratch, kind)) for kind in ("CACHE", "CONFIG", "DATA")},
        }
        for retries in reversed(range(TRIES)):
            token = token_for(properties["Cluster"], client)
            output = run(command, {**os.environ, **variables, "HELM_KUBETOKEN": token})
            if output is None:
                return
            if not retries or not any(sign in output for sign in NOT_YET):
                raise ChartError(f"helm upgrade --install {properties['Release']}: {output}")
            pause(PAUSE_S)


def run(command: list[str], environment: Mapping[str, str]) -> str | None:
    """Run helm; None on success, else its error output."""
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)  # noqa: T201 - the log
    return None if done.returncode == 0 else done.stderr.strip()[-REASON:]


def token_for(cluster: str, client: Callable[..., Any]) -> str:
    """A token for this function's role: a signed GetCallerIdentity request that names the cluster, and is not sent."""
    sts = client("sts", region_name=os.environ["AWS_REGION"])
    signer = RequestSigner(
        sts.meta.service_model.service_id,
        sts.meta.region_name,
        "sts",
        "v4",
        sts._request_signer._credentials,  # noqa: SLF001 - as the AWS CLI does (customizations/eks/get_token.py)
        sts.meta.events,
    )
    address = sts.meta.endpoint_url.rstrip("/")
    request = {
        "method": "GET",
        "url": f"{address}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=sts.meta.region_name, expires_in=60, operation_name="")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
