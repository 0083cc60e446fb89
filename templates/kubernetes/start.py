# ruff: noqa: INP001, T201 - one file that is shipped as it is and is a pod's first process; what it prints is the job's log
"""Starts the agent in a pod: sets the pod's number, fetches secrets, checks driver and EFA, and becomes the agent.

It reads SLIPWAY_ROOT, SLIPWAY_OPERATOR, SLIPWAY_PARTS, SLIPWAY_MEETING (the first pod of a Job), SLIPWAY_EFA and
SLIPWAY_SECRETS, which the manifest sets, and the operator's variables. Uses only the standard library and the agent's
own boto3.
"""

import json
import os
import re
import sys
import time
import zipimport
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("SLIPWAY_ROOT", "/slipway")) / "job"
AGENT = Path(os.environ.get("SLIPWAY_AGENT", FOLDER / "slipway-agent.pyz"))
JOB = Path(os.environ.get("SLIPWAY_JOB", FOLDER / "job.json"))
PORT = int(os.environ.get("SLIPWAY_SANDBOX_PORT", "29500"))
PAUSE_S, LONGEST_PAUSE_S = (0.2, 0.2) if os.environ.get("SLIPWAY_SANDBOX") == "1" else (10.0, 300.0)
"""Pause between two attempts to read the secrets, doubled each time: as kubelet's between two container starts."""
DRIVER, COMPAT = Path("/proc/driver/nvidia/version"), Path("/usr/local/cuda/compat")
DEVICES = Path(os.environ.get("SLIPWAY_DEVICES", "/dev/infiniband"))


def place(environment: Mapping[str, str]) -> tuple[int, str | None]:
    """This pod's number, from 0, and the rendezvous address; None if the operator's own agent arranges it."""
    operator = environment["SLIPWAY_OPERATOR"]
    if operator == "job":
        return int(environment["JOB_COMPLETION_INDEX"]), f"{environment['SLIPWAY_MEETING']}:{PORT}"
    if operator == "pytorchjob":
        number = environment.get("PET_NODE_RANK") or environment.get("RANK") or "0"
        return int(number), f"{environment['MASTER_ADDR']}:{environment.get('MASTER_PORT', PORT)}"
    return int(environment.get("JOB_COMPLETION_INDEX") or environment.get("RANK") or 0), None


def rendezvous(environment: MutableMapping[str, str]) -> None:
    """Set torchrun's rendezvous, unless the plan's environment does; `torchrun train.py` is then sufficient."""
    number, meeting = place(environment)
    environment.setdefault("SLIPWAY_PART", str(number))
    if meeting is None:
        return
    address, _, port = meeting.rpartition(":")
    environment.setdefault("MASTER_ADDR", address)
    environment.setdefault("MASTER_PORT", port)
    environment.setdefault("SLIPWAY_MASTER_ADDR", environment["MASTER_ADDR"])
    environment.setdefault("SLIPWAY_MASTER_PORT", environment["MASTER_PORT"])
    # c10d orders nodes by address: with a static rendezvous the first pod has rank 0 (the agent sets PET_NODE_RANK).
    environment.setdefault("PET_RDZV_BACKEND", "static" if int(environment["SLIPWAY_PARTS"]) > 1 else "c10d")
    environment.setdefault("PET_RDZV_ENDPOINT", meeting)
    environment.setdefault("PET_RDZV_ID", environment["SLIPWAY_RUN_KEY"])
    if environment.get("SLIPWAY_CHIPS") == "neuron" and int(environment["SLIPWAY_PARTS"]) > 1:
        environment.setdefault("NEURON_RT_ROOT_COMM_ID", f"{address}:62182")


def efa_problem(required: int, found: int) -> str:
    """Why a pod with so few EFA interfaces does not start; "" if it has enough."""
    if found >= required:
        return ""
    return (
        f"this pod needs {required} EFA interfaces and has {found}; it stops, because without them the job "
        "would use TCP without an error (is aws-efa-k8s-device-plugin on the node?)"
    )


def compat_libraries(driver: Path, compat: Path) -> str:
    """The folder of the image's CUDA libraries if the node's driver is older than these; "" otherwise.

    As in the entrypoint of AWS's deep learning containers, which a pod's own command replaces
    (aws/deep-learning-containers, start_cuda_compat.sh).
    """
    try:
        found = re.search(r"Kernel Module.*?\s(\d+[.\d]+)", driver.read_text(encoding="utf-8", errors="replace"))
        newest = re.search(r"\d+[.\d]+$", (compat / "libcuda.so.1").readlink().name)
    except OSError:
        return ""
    if found is None or newest is None:
        return ""
    has, wants = ([int(part) for part in text.split(".")] for text in (found[1], newest[0]))
    return str(compat) if has < wants else ""


def session() -> Any:
    """The agent's own boto3: an image need not contain boto3."""
    bootstrap: dict[str, Any] = {"__name__": "bootstrap"}
    exec(zipimport.zipimporter(str(AGENT)).get_code("__main__"), bootstrap)  # noqa: S102 - the agent's own start
    sys.path.insert(0, str(bootstrap["payload_folder"](AGENT, bootstrap["file_hash"](AGENT))))
    import boto3  # noqa: PLC0415 - it is there only now

    return boto3


def secrets_problem(environment: MutableMapping[str, str], arns: Mapping[str, str], boto3: Any) -> str:
    """Set the variables of secrets; "", or why they could not be read in the attempts that run.retries allows."""
    pause_s, tries = PAUSE_S, 1 + int(environment["SLIPWAY_RETRIES"])
    for number in range(1, tries + 1):
        try:
            values = secrets(arns, boto3)
            # The agent prints them, for its log is what `slipway logs` shows.
            environment.update({**values, "SLIPWAY_REMARKS": "\n".join(remarks(values, arns))})
        except Exception as problem:  # noqa: BLE001 - whatever boto3 raises: what is not read is not there
            why = f"cannot read the job's secrets: {problem} (try {number} of {tries})"
        else:
            return ""
        print(f"slipway: {why}", flush=True)
        if number < tries:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return why


def secrets(arns: Mapping[str, str], boto3: Any) -> dict[str, str]:
    """The values of secrets and parameters, by variable; they are never written to disk."""
    found = {}
    for variable, arn in arns.items():
        try:
            found[variable] = secret(arn, boto3)
        except Exception as problem:
            message = f"run.secrets.{variable}: {problem}"
            raise ValueError(message) from problem
    return found


def secret(arn: str, boto3: Any) -> str:
    """The value of a secret or parameter."""
    _, _, service, region, *_ = parts = arn.split(":")
    client = boto3.client(service, region_name=region)
    if service != "secretsmanager":
        return str(client.get_parameter(Name=arn, WithDecryption=True)["Parameter"]["Value"])
    # As ECS writes it: the secret's own ARN has seven parts, then come a JSON key, a stage and a version.
    key, stage, version, *_ = (*parts[7:], "", "", "")
    which = {"VersionStage": stage, "VersionId": version}
    answer = client.get_secret_value(
        SecretId=":".join(parts[:7]), **{name: value for name, value in which.items() if value}
    )
    if "SecretString" not in answer:
        message = "the secret is binary; store it as text, for example in base64"
        raise ValueError(message)
    return secret_text(key, answer["SecretString"])


def secret_text(key: str, text: str) -> str:
    """A secret's text, or one key of it."""
    if not key:
        return text
    keys = keys_of(text)
    if keys is None:
        message = f"the secret is no JSON object, and has no key {key}"
        raise ValueError(message)
    if key not in keys:
        message = f"no key {key} in the secret; it has {sorted(keys)}"
        raise ValueError(message)
    return keys[key] if isinstance(keys[key], str) else json.dumps(keys[key])


def keys_of(text: str) -> dict[str, Any] | None:
    """The object of a key/value secret; None if the text is something else."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def remarks(values: Mapping[str, str], arns: Mapping[str, str]) -> Iterator[str]:
    """A line for each variable that is a whole key/value secret: one key is more often meant."""
    for variable, arn in arns.items():
        keys = keys_of(values[variable]) if ":secretsmanager:" in arn and not "".join(arn.split(":")[7:8]) else None
        if keys:
            text = f"{variable} is the whole JSON text of a secret with the keys {sorted(keys)}"
            yield f"{text}; for one of them, write :KEY:: behind its ARN"


def main() -> None:
    """Prepare the environment and become the agent."""
    environment = os.environ
    efa = int(environment.get("SLIPWAY_EFA", "0"))
    if efa and environment.get("SLIPWAY_SANDBOX") != "1":
        problem = efa_problem(efa, len(list(DEVICES.glob("uverbs*"))))
        if problem:
            environment["SLIPWAY_UNFIT"] = problem
    rendezvous(environment)
    compat = compat_libraries(DRIVER, COMPAT)
    if compat:
        print(f"slipway: the node's NVIDIA driver is older than the image's CUDA: its libraries are those of {compat}")
        environment["LD_LIBRARY_PATH"] = f"{compat}:{environment.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    arns = json.loads(environment.get("SLIPWAY_SECRETS", "{}"))
    if arns and "SLIPWAY_UNFIT" not in environment:
        problem = secrets_problem(environment, arns, session())
        if problem:
            environment["SLIPWAY_UNFIT"] = problem
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(AGENT), "run", "--config", str(JOB)])  # noqa: S606 - the agent


if __name__ == "__main__":
    main()
