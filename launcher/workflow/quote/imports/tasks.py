"""Reads tasks of SkyPilot and dstack."""

import re
from collections.abc import Mapping
from typing import Any

from launcher.catalog.load import Catalog
from launcher.workflow.quote.imports.imported import Imported, accelerator_named, by_accelerator, hours_of

SKY_LOST = {
    "volumes": "run.volumes mounts claims of a cluster (kind eks)",
    "service": "this is a training plan: slipway init --serve writes one for an endpoint",
    "pool": "a plan has one job: launch it once for each worker, with --env",
}
SKY_READ = {"name", "num_nodes", "resources", "envs", "workdir", "setup", "run", "file_mounts", "secrets"}
RESOURCES_LOST = {
    "disk_size": "Slipway sizes the disks by the type",
    "disk_tier": "Slipway sizes the disks by the type",
    "ports": "the command tunnel forwards a port",
    "cpus": "target.instance_type has them",
    "memory": "target.instance_type has it",
    "any_of": "target.instance_type takes a list of candidates",
    "ordered": "target.instance_type takes a list of candidates",
    "max_hourly_cost": "budget.max_usd_per_hour limits what a launch may cost",
    "autostop": "guardrails.idle_minutes stops idle nodes",
    "job_recovery": "Slipway resumes a job after every loss: run.retries",
    "labels": "tags",
    "network_tier": "Slipway gives nodes with EFA all their interfaces: target.efa_layout",
    "zone": "target.az_id takes the id of a zone, as use1-az4",
}
RESOURCES_READ = {"cloud", "infra", "region", "instance_type", "accelerators", "use_spot", "image_id"}
DSTACK_READ = {"type", "name", "nodes", "env", "image", "python", "commands", "max_duration", "max_price", "backends"}
DSTACK_LOST = {
    "volumes": "run.volumes mounts claims of a cluster (kind eks)",
    "ports": "the command tunnel forwards a port",
    "files": "run.workdir uploads the job's folder",
    "repos": "run.workdir uploads the job's folder",
    "retry": "Slipway resumes a job after every loss: run.retries",
    "stop_criteria": "a job ends when the command of its first node ends",
    "fleets": "target.cluster names an existing cluster",
    "priority": "target.priority is a priority class of Kueue",
    "working_dir": "run.workdir is the folder of the job",
    "availability_zones": "target.az_id takes the id of a zone, as use1-az4",
    "reservation": "purchase.reservation",
    "tags": "tags",
    "idle_duration": "guardrails.idle_minutes stops idle nodes",
    "registry_auth": "the nodes' role reads images of ECR",
}


def read_sky(task: Mapping[str, Any], catalog: Catalog) -> Imported:
    """The plan of a SkyPilot task."""
    imported = Imported(kind="a SkyPilot task")
    if task.get("name"):
        imported.name(str(task["name"]))
    imported.put("target.nodes", task.get("num_nodes") or 1)
    resources = task.get("resources") if isinstance(task.get("resources"), Mapping) else {}
    _sky_resources(imported, resources or {}, catalog)
    _environment(imported, {**_table(task.get("envs"))})
    if isinstance(task.get("workdir"), Mapping):
        imported.lose(
            f"workdir {task['workdir'].get('url')}", "clone the repository, and set run.workdir to its folder"
        )
    elif task.get("workdir"):
        imported.put("run.workdir", task["workdir"])
    if secrets := _table(task.get("secrets")):
        imported.lose(f"secrets {', '.join(secrets)}", "run.secrets takes the ARN of a secret for each variable")
    _file_mounts(imported, _table(task.get("file_mounts")))
    if task.get("setup"):
        imported.put("run.setup", [line for line in str(task["setup"]).splitlines() if line.strip()])
        folder = any(re.match(r"\s*(?:cd|pushd)\s", line) for line in str(task["setup"]).splitlines())
        if folder and task.get("run"):
            imported.lose("cd in setup", "run.setup and the command share a shell: the command begins in that folder")
    command = str(task.get("run") or "").strip()
    if command:
        imported.put("run.command", command)
        if "SKYPILOT_" in f"{command}{task.get('setup')}":
            names = "SKYPILOT_NODE_RANK is SLIPWAY_NODE_RANK, SKYPILOT_NUM_NODES is SLIPWAY_NODES"
            names += ", SKYPILOT_NUM_GPUS_PER_NODE is SLIPWAY_WORKERS_PER_NODE"
            imported.lose("SKYPILOT_ variables", f"{names}, the first of SKYPILOT_NODE_IPS is SLIPWAY_MASTER_ADDR")
    imported.lose_unread("", task, SKY_READ, SKY_LOST)
    return imported


def _file_mounts(imported: Imported, mounts: Mapping[str, Any]) -> None:
    """Folders of S3 that are copied become `run.data`; other mounts are named."""
    data = []
    for path, source in mounts.items():
        settings = source if isinstance(source, Mapping) else {"source": source, "mode": "COPY"}
        uri, mode = str(settings.get("source") or settings.get("name") or ""), str(settings.get("mode") or "MOUNT")
        if uri.startswith("s3://") and path.startswith("/") and mode.upper() == "COPY":
            data.append({"uri": uri, "path": path})
            continue
        if isinstance(source, Mapping) and mode.upper() != "COPY":
            why = "checkpoints and run.outputs are stored in S3, run.data downloads a folder; nothing is mounted"
        elif "://" in uri:
            why = "run.data downloads folders of S3"
        else:
            why = "run.workdir uploads the job's folder: put it there"
        imported.lose(f"file_mounts {path} ({uri}{'' if mode == 'COPY' else f', {mode}'})", why)
    if data:
        imported.put("run.data", data)


def _sky_resources(imported: Imported, resources: Mapping[str, Any], catalog: Catalog) -> None:
    infra = [part for part in str(resources.get("infra") or "").split("/") if part]
    cloud = str(resources.get("cloud") or (infra[0] if infra else "aws")).lower()
    if infra[2:]:
        imported.lose(f"zone {infra[2]}", RESOURCES_LOST["zone"])
    if cloud != "aws":
        imported.lose(f"cloud {cloud}", "Slipway deploys on AWS")
        if place := resources.get("region") or "/".join(infra[1:]):
            imported.lose(f"region {place}", f"it is one of {cloud}: set target.region")
    elif region := resources.get("region") or (infra[1] if len(infra) > 1 and infra[1] != "*" else None):
        imported.put("target.region", region)
    if resources.get("instance_type"):
        imported.put("target.instance_type", resources["instance_type"])
    _sky_accelerators(imported, resources, catalog)
    imported.put("purchase.option", "spot" if resources.get("use_spot") else "on-demand")
    image = str(resources.get("image_id") or "")
    if image.startswith("docker:"):
        imported.put("run.image", image.removeprefix("docker:"))
    elif image.startswith("ami-"):
        imported.put("target.ami", image)
    elif image:
        imported.lose(f"image_id {image}", "target.ami takes the id of an AMI, run.image a container image")
    imported.lose_unread("resources.", resources, RESOURCES_READ, RESOURCES_LOST)


def _sky_accelerators(imported: Imported, resources: Mapping[str, Any], catalog: Catalog) -> None:
    accelerators = resources.get("accelerators")
    items = list(accelerators) if isinstance(accelerators, list | set) else [accelerators] if accelerators else []
    choices = [
        text
        for item in items
        for text in (
            # YAML reads `{A100:8}` as a key without a value.
            [str(name) if count is None else f"{name}:{count}" for name, count in item.items()]
            if isinstance(item, Mapping)
            else [str(item)]
        )
    ]
    if choices and not resources.get("instance_type"):
        name, _, count = choices[0].partition(":")
        if re.fullmatch(r"(?:[1-9]\d*(?:\.0)?)?", count):
            by_accelerator(imported, catalog, name, int(float(count or 1)))
        else:
            imported.lose(f"accelerators {choices[0]}", "the count is no whole number: set target.instance_type")
    if choices[1:]:
        imported.lose("resources.accelerators", f"the first is taken; others: {', '.join(choices[1:])}")


def read_dstack(task: Mapping[str, Any], catalog: Catalog) -> Imported:
    """The plan of a dstack task."""
    imported = Imported(kind="a dstack task")
    if task.get("name"):
        imported.name(str(task["name"]))
    imported.put("target.nodes", task.get("nodes") or 1)
    _dstack_resources(imported, task, catalog)
    _environment(imported, _table(task.get("env")))
    if task.get("image"):
        imported.put("run.image", task["image"])
    elif task.get("python"):
        imported.lose(f"python {task['python']}", "run.image names a container image with it, or run.setup installs it")
    commands = [str(line) for line in task.get("commands") or ()]
    if commands:
        imported.put("run.command", "\n".join(commands))
        if any("DSTACK_" in line for line in commands):
            names = "DSTACK_NODE_RANK is SLIPWAY_NODE_RANK, DSTACK_NODES_NUM is SLIPWAY_NODES"
            names += ", DSTACK_GPUS_PER_NODE is SLIPWAY_WORKERS_PER_NODE"
            imported.lose("DSTACK_ variables", f"{names}, DSTACK_MASTER_NODE_IP is SLIPWAY_MASTER_ADDR")
    if task.get("max_duration") and (hours := hours_of(str(task["max_duration"]))):
        imported.put("run.time_limit_h", hours)
    if task.get("max_price"):
        nodes = imported.get("target.nodes")
        imported.put("budget.max_usd_per_hour", round(float(task["max_price"]) * int(nodes), 2))
    imported.lose_unread("", task, DSTACK_READ, DSTACK_LOST)
    if any("${{" in line for line in commands):
        imported.lose("${{ ... }} in commands", "dstack fills it in: write the value, or a variable of run.env")
    return imported


DSTACK_READ |= {"regions", "instance_types", "resources", "spot_policy"}


def _dstack_resources(imported: Imported, task: Mapping[str, Any], catalog: Catalog) -> None:
    others = [str(cloud) for cloud in task.get("backends") or () if cloud != "aws"]
    if others:
        imported.lose(f"backends {', '.join(others)}", "Slipway deploys on AWS")
    if task.get("regions"):
        imported.put("target.region", task["regions"])
    if task.get("instance_types"):
        imported.put("target.instance_type", task["instance_types"])
    resources = _table(task.get("resources"))
    gpu = resources.get("gpu")
    if isinstance(gpu, Mapping):
        names = gpu.get("name")
        name, count = names[0] if isinstance(names, list) and names else names, gpu.get("count") or 1
        if isinstance(names, list) and len(names) > 1:
            imported.lose("resources.gpu.name", f"the first is taken; others: {', '.join(map(str, names[1:]))}")
        memory = str(gpu.get("memory") or "")
        sizes = dict.fromkeys(("memory", "total_memory"), "target.instance_type has it")
        imported.lose_unread("resources.gpu.", gpu, {"name", "count", "vendor"}, sizes)
    else:
        parts = str(gpu or "").split(":")
        name, count = parts[0], next((part for part in reversed(parts[1:]) if re.fullmatch(r"\d+(\.\.\d*)?", part)), 1)
        memory = next((part for part in parts[1:] if "GB" in part), "")
    least, upto, _ = str(count).partition("..")
    if upto:
        imported.assume("resources.gpu.count", f"{least} of {count}")
    if name and not str(name)[0].isdigit() and least.isdecimal():
        sized = f"{name}-{memory.partition('..')[0]}"
        known = memory and accelerator_named(sized, catalog.accelerators)
        by_accelerator(imported, catalog, sized if known else str(name), int(least))
    elif gpu:
        imported.lose(f"resources.gpu {gpu}", "it names no kind of accelerator: set target.instance_type")
    policy = task.get("spot_policy")
    imported.put("purchase.option", "spot" if policy == "spot" else "any" if policy == "auto" else "on-demand")
    sizes = dict.fromkeys(("cpu", "memory", "shm_size"), "target.instance_type has it")
    sizes["disk"] = RESOURCES_LOST["disk_size"]
    imported.lose_unread("resources.", resources, {"gpu"}, sizes)


def _environment(imported: Imported, variables: Mapping[str, Any]) -> None:
    unset = [name for name, value in variables.items() if value is None]
    given = {name: str(value) for name, value in variables.items() if value is not None}
    if given:
        imported.put("run.env", given)
    if unset:
        imported.lose(f"variables {', '.join(unset)}", "without a value: give --env NAME=VALUE, or run.secrets an ARN")


def _table(value: Any) -> dict[str, Any]:
    """A mapping, or a list of NAME=VALUE."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = (str(item).partition("=") for item in value or ())
    return {name: text if equals else None for name, equals, text in pairs}
