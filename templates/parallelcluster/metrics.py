# ruff: noqa: INP001 - one file that nodes fetch
"""Reports a node of Slurm to CloudWatch: its accelerators, or how long a job on it has shown no activity.

    metrics.py --cluster NAME --chips nvidia|neuron [--once]
    metrics.py --cluster NAME --jobs [--once]

Accelerators: utilisation, memory in use and uncorrectable memory errors, every minute; three custom metrics per node,
for any number of chips. NVIDIA's chips are read with DCGM, which ParallelCluster's images contain, or with nvidia-smi
if DCGM does not respond; Neuron's with neuron-monitor. Jobs: one custom metric of the cluster, every five minutes while
Slurm runs a job of any user on the node; the guard uses it (templates/guard/guard.py). node.sh creates a service for
each. Uses only the standard library; Python 3.10 or later; the AWS CLI sends the metrics.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.agent.node.stillness import Stillness

NAMESPACE = "Slipway/Nodes/{cluster}"
"""The cluster's own namespace, the only one of Slipway's that its nodes may write to."""
PERIOD_S = 60
MIB = 1024 * 1024
DCGM_FIELDS = "203,252,311"
"""GPU utilisation in percent, frame buffer in use in MiB, double-bit errors since boot (DCGM, field identifiers)."""
SMI_FIELDS = "utilization.gpu,memory.used,ecc.errors.uncorrected.volatile.total"
METADATA = "http://169.254.169.254"
JOBS_PERIOD_S = 300
SLURM = "slurm*/bin"
"""Below /opt, the location of Slurm's programs in the images of ParallelCluster and HyperPod."""
HOLDING = "CONFIGURING,RUNNING,COMPLETING"
"""States of a job that occupies its nodes (squeue, job state codes)."""


@dataclass(frozen=True)
class Sample:
    """All chips of a node together: percent of their time in use, bytes, and errors since boot."""

    utilization: float
    memory_bytes: float
    errors: float


def main() -> int:
    """Report until stopped, or once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster", required=True)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--chips", choices=["nvidia", "neuron"])
    mode.add_argument("--jobs", action="store_true")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    if options.jobs:
        report_jobs(options.cluster, metadata("placement/region"), once=options.once)
        return 0
    instance, region = metadata("instance-id"), metadata("placement/region")
    for sample in neuron_samples() if options.chips == "neuron" else nvidia_samples():
        send(sample, cluster=options.cluster, instance=instance, region=region)
        if options.once:
            return 0
    print("metrics.py: neuron-monitor has ended", file=sys.stderr)  # noqa: T201 - the service's log
    return 1


def report_jobs(cluster: str, region: str, *, once: bool) -> None:
    """Report how many minutes Slurm's jobs on this node have shown no CPU and no network, while any job runs."""
    began = due = time.monotonic()
    stillness, jobs = Stillness(began), frozenset[str]()
    while True:
        now = time.monotonic()
        still_s = stillness.still_s(now)
        found = running_jobs(jobs)
        if found != jobs:
            # What was still before a job came, or left, says nothing of those that are there.
            stillness.move(now)
            jobs, still_s, due = found, 0.0, now
        if jobs and now >= due:
            due = now + JOBS_PERIOD_S
            try:
                put({"Cluster": cluster}, (("JobStillMinutes", still_s / 60, "None"),), region=region)
            except subprocess.SubprocessError as problem:
                due = now
                print(f"metrics.py: not reported: {problem}", file=sys.stderr)  # noqa: T201 - the service's log
        if once:
            return
        time.sleep(PERIOD_S)


def running_jobs(last: frozenset[str]) -> frozenset[str]:
    """The ids of the jobs that Slurm runs on this node; the last known ids if Slurm does not respond."""
    path = os.pathsep.join((*map(str, Path("/opt").glob(SLURM)), os.environ.get("PATH", os.defpath)))
    squeue = shutil.which("squeue", path=path) or "squeue"
    arguments = ("--noheader", f"--states={HOLDING}", f"--nodelist={socket.gethostname().partition('.')[0]}")
    try:
        return frozenset(output_of(squeue, *arguments, "--format=%A").split())
    except (OSError, subprocess.SubprocessError) as problem:
        print(f"metrics.py: Slurm does not report its jobs: {problem}", file=sys.stderr)  # noqa: T201 - the log
        return last


def nvidia_samples() -> Iterator[Sample]:
    """One sample per minute."""
    while True:
        try:
            yield dcgm_sample(output_of("dcgmi", "dmon", "-e", DCGM_FIELDS, "-c", "1"))
        except (OSError, subprocess.SubprocessError, ValueError):
            yield smi_sample(output_of("nvidia-smi", f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader,nounits"))
        time.sleep(PERIOD_S)


def neuron_samples() -> Iterator[Sample]:
    """One sample per line of neuron-monitor, which writes one per minute; ends when neuron-monitor ends."""
    groups = {
        "period": f"{PERIOD_S}s",
        "neuron_runtimes": [
            {"tag_filter": ".*", "metrics": [{"type": "neuroncore_counters"}, {"type": "memory_used"}]}
        ],
        "system_metrics": [{"type": "neuron_hw_counters"}],
    }
    read, write = os.pipe()
    with os.fdopen(write, "w") as configuration:
        json.dump(groups, configuration)
    command = ["neuron-monitor", "-c", f"/dev/fd/{read}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[read]) as monitor:
        os.close(read)
        try:
            for line in monitor.stdout or ():
                yield neuron_sample(line)
        finally:
            monitor.terminate()


def output_of(*command: str) -> str:
    """The output of a program; an error if the program fails."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PERIOD_S).stdout


def dcgm_sample(text: str) -> Sample:
    """The sample of a table of `dcgmi dmon`: a line per GPU, "GPU 0  98  70123  0", N/A for a field without value."""
    return sample_of_rows([line.split()[2:] for line in text.splitlines() if line.startswith("GPU")])


def smi_sample(text: str) -> Sample:
    """The sample of nvidia-smi's values: one line per GPU, "98, 70123, 0"."""
    return sample_of_rows([line.split(",") for line in text.splitlines() if line.strip()])


def sample_of_rows(rows: list[list[str]]) -> Sample:
    """The sample of the three values of each GPU.

    Raises:
        ValueError: the node has no GPU, or none with a utilisation.
    """
    values = [[number(cell) for cell in row] for row in rows]
    busy = [row[0] for row in values if row[0] is not None]
    if not busy:
        message = "no GPU with a utilisation"
        raise ValueError(message)
    return Sample(
        utilization=sum(busy) / len(busy),
        memory_bytes=sum(row[1] or 0.0 for row in values) * MIB,
        errors=sum(row[2] or 0.0 for row in values),
    )


def number(text: str) -> float | None:
    """A number, or None for N/A and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def neuron_sample(line: str) -> Sample:
    """The sample of one report of neuron-monitor; the report omits unused cores, which count as idle."""
    report = json.loads(line)
    hardware = report["neuron_hardware_info"]
    cores = hardware["neuron_device_count"] * hardware["neuroncore_per_device_count"]
    busy, used = 0.0, 0.0
    for runtime in report.get("neuron_runtime_data") or ():
        in_use = runtime["report"].get("neuroncore_counters", {}).get("neuroncores_in_use") or {}
        busy += sum(core["neuroncore_utilization"] for core in in_use.values())
        memory = runtime["report"].get("memory_used", {}).get("neuron_runtime_used_bytes") or {}
        used += memory.get("neuron_device", 0)
    devices = report["system_data"].get("neuron_hw_counters", {}).get("neuron_devices") or ()
    errors = sum(device["mem_ecc_uncorrected"] + device["sram_ecc_uncorrected"] for device in devices)
    return Sample(utilization=busy / cores, memory_bytes=used, errors=errors)


def metadata(path: str) -> str:
    """A value of the instance's metadata, version 2."""
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", METADATA).rstrip("/")
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    ask = urllib.request.Request(f"{base}/latest/api/token", method="PUT", headers=headers)  # noqa: S310 - link-local
    with urllib.request.urlopen(ask, timeout=5) as answer:  # noqa: S310 - link-local
        token = answer.read().decode()
    url = f"{base}/latest/meta-data/{path}"
    ask = urllib.request.Request(url, headers={"X-aws-ec2-metadata-token": token})  # noqa: S310 - link-local
    with urllib.request.urlopen(ask, timeout=5) as answer:  # noqa: S310 - link-local
        text: str = answer.read().decode()
    return text


def send(sample: Sample, *, cluster: str, instance: str, region: str) -> None:
    """Send a sample to CloudWatch."""
    values = (
        ("AcceleratorUtilization", sample.utilization, "Percent"),
        ("AcceleratorMemoryUsed", sample.memory_bytes, "Bytes"),
        ("AcceleratorErrors", sample.errors, "Count"),
    )
    put({"Cluster": cluster, "InstanceId": instance}, values, region=region)


def put(dimensions: dict[str, str], values: tuple[tuple[str, float, str], ...], *, region: str) -> None:
    """Send values to CloudWatch, each with its name and its unit."""
    namespace = NAMESPACE.format(cluster=dimensions["Cluster"])
    named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    data = [{"MetricName": name, "Dimensions": named, "Value": value, "Unit": unit} for name, value, unit in values]
    command = ["aws", "cloudwatch", "put-metric-data", "--region", region, "--namespace", namespace]
    subprocess.run([*command, "--metric-data", json.dumps(data)], check=True, timeout=PERIOD_S)


if __name__ == "__main__":
    sys.exit(main())
