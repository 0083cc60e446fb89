"""The embedded AWS in a process of its own: `python -m launcher.sandbox.server --folder F ...`.

It is moto's server on loopback with the models of launcher/sandbox/aws, the clusters deployed into it, and the control
socket of its owner. When it is ready, the complete file `ready.json` is in its folder; errors are in its log. It ends
on SIGTERM and when its standard input ends, that is, with its owner. If the last input was `DETACH`, the server has no
owner any more, and ends on a stop request.
"""

import argparse
import errno
import gc
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from launcher.aws.session import share_descriptions
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.model.emulator import MARK
from launcher.model.monitoring import BOOTS_FOLDER, FAILED_BOOT
from launcher.sandbox import environment
from launcher.sandbox.cluster.existing import ExistingCluster
from launcher.sandbox.cluster.training_plan import TrainingPlan
from launcher.sandbox.instances import aws_cli_server
from launcher.sandbox.keys import AccessKey, KeyRing
from launcher.submit.jobs import SchedulerError

READY = "ready.json"
PORT_TAKEN = 5
"""The exit code of a server whose port another process uses; the last line of its log names the port."""
DETACH = b"stay"
"""Sent by an owner before it ends: the server continues without an owner."""
ACCESS_LOG, TEMPORARY = "s3-access.jsonl", "tmp"
_HOST = "127.0.0.1"
_HOST_6 = "::1"
_BACKLOG = 128
_TRIES = 20


def bind(port: int) -> list[socket.socket]:
    """Sockets that listen on one port of every loopback address: "localhost" is 127.0.0.1 or ::1, by client.

    `port` 0: any port that is free on all addresses.

    Raises:
        OSError: another process uses the requested port.
    """
    for _ in range(_TRIES):
        try:
            first = _listen(socket.AF_INET, _HOST, port)
        except OSError as error:
            raise OSError(f"port {port} on {_HOST} cannot be used: {error.strerror}") from error
        chosen = first.getsockname()[1]
        try:
            return [first, _listen(socket.AF_INET6, _HOST_6, chosen)]
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return [first]  # a computer without IPv6
            first.close()
            if port:
                raise OSError(f"port {port} on {_HOST_6} cannot be used: {error.strerror}") from error
    raise OSError(f"no port is free on {_HOST} and {_HOST_6} together")


def _listen(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def prepare_environment(folder: Path) -> None:
    """Set the variables that moto reads during its import, and keep its temporary files inside the folder."""
    (folder / TEMPORARY).mkdir(mode=0o700)
    os.environ.update(
        {
            "TMPDIR": str(folder / TEMPORARY),
            # moto signs nothing with them; without any, the SDK would look for the user's own.
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_EC2_METADATA_DISABLED": "true",
            "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",  # 1,293 for each region that is used, and none is needed
            "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
        }
    )


def pod_environment(port: int, key: AccessKey, region: str) -> dict[str, str]:
    """The environment of a command on a Kubernetes node: this computer's programs, Python's first, and the sandbox."""
    sandbox_variables = environment.sandbox_environment(f"http://localhost:{port}", region, key)
    variables = {**environment.machine_environment(os.environ), **sandbox_variables}
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables.get('PATH', '/usr/bin:/bin')}"
    return {**variables, **environment.rendezvous_port(port), "SLIPWAY_SANDBOX": "1"}


def write_whole(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, readable only by its owner."""
    partial = path.with_suffix(".tmp")
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(document), encoding="utf-8")
    partial.replace(path)


class Server:
    """Everything that runs in this process."""

    def __init__(
        self, folder: Path, short: Path, mark: str, end: Callable[[], None], *, port: int, with_slurm: bool
    ) -> None:
        """`folder` is private; `short` is a short path to it; port 0 is any free port; `end` ends this process."""
        sockets = bind(port)
        share_descriptions()
        # moto takes a second to import and is imported by nothing else than this process.
        from launcher.sandbox.aws import issued_keys  # noqa: PLC0415
        from launcher.sandbox.aws.auto_scaling import Groups  # noqa: PLC0415
        from launcher.sandbox.aws.ledger import EmulationLedger  # noqa: PLC0415
        from launcher.sandbox.aws.pcs import EmulatedPcs  # noqa: PLC0415
        from launcher.sandbox.aws.registration import install  # noqa: PLC0415
        from launcher.sandbox.aws.training_jobs import EmulatedTrainingJobs  # noqa: PLC0415
        from launcher.sandbox.aws.web import serve  # noqa: PLC0415
        from launcher.sandbox.cluster.registry import Registry  # noqa: PLC0415
        from launcher.sandbox.control import ControlServer  # noqa: PLC0415
        from launcher.sandbox.endpoint.model_server import Behaviour  # noqa: PLC0415

        self._end, self._cli_address = end, short / "aws-cli"
        self._cli_environment = {**environment.machine_environment(os.environ), MARK: mark}
        self._aws_cli: subprocess.Popen[bytes] | None = None
        self._making = threading.Lock()
        self._ledger = EmulationLedger()
        self.port = sockets[0].getsockname()[1]
        self._keys = KeyRing(issued_keys.issued_key)
        pods = partial(pod_environment, self.port, self._keys.owner)
        self._registry = Registry(short, mark, with_slurm=with_slurm, pods=pods, keys=self._keys)
        self._behaviour = Behaviour()
        self._training = EmulatedTrainingJobs(folder / "training", mark, pods)
        self._instances = Groups(folder / "instances", mark, pods, self._keys, self._start_aws_cli)
        pcs = EmulatedPcs(self._registry)
        install(
            self._ledger, self._registry, lambda: self._behaviour, jobs=self._training, groups=self._instances, pcs=pcs
        )
        issued_keys.install(self._keys)
        self._web = serve(sockets, folder / ACCESS_LOG, self._ledger, lambda: self._behaviour, self._keys, pcs=pcs)
        self.secret = secrets.token_urlsafe(32)
        self._address = short / "control"
        self._control = ControlServer(self._operations(), self.secret, self._address)

    def _operations(self) -> dict[str, Any]:
        def cluster(args: Mapping[str, Any]) -> Any:
            return self._registry.cluster(args["cluster"])

        return {
            "clusters": lambda _: [*self._registry.documents(), *self._instances.documents()],
            "ledger": lambda _: self._ledger.document(),
            "create_prerequisites": self._create_prerequisites,
            "behave": self._behave,
            "arm": self._arm,
            "recommend_rebalance": self._recommend_rebalance,
            "lose_node": self._lose_node,
            "replace_node": self._replace_node,
            "interrupt_job": lambda args: self._training.interrupt(args["name"]),
            "limit_training": self._limit_training,
            "limit_instances": self._limit_instances,
            "scheduler": lambda args: cluster(args).scheduler.environment(args["path"]),
            "answer": lambda args: self._registry.kubernetes_of(args["cluster"]).answer(up=args["up"]),
            "busy": self._busy,
            "entry": lambda args: self._instances.entry(args["instance"]),
            "jobs": self._jobs,
            "jobs_without_scheduler": lambda _: [*self._instances.running_jobs(), *self._training.running_jobs()],
            "stacks": lambda _: self._stacks(),
            "failed_boots": lambda _: self._failed_boots(),
            "end": lambda _: self._end(),
        }

    def _start_aws_cli(self) -> Path:
        """Start the process that runs the instances' AWS CLI, if it does not run; return the path of its socket."""
        if self._aws_cli is None:
            self._aws_cli = aws_cli_server.start(self._cli_address, self._cli_environment)
        return self._cli_address

    def _arm(self, args: Mapping[str, Any]) -> Any:
        if self._instances.has_group(args["cluster"]):
            return self._instances.notify(args["node"], args["action"], args["in_seconds"])
        return self._registry.cluster(args["cluster"]).notify(args["node"], args["action"], args["in_seconds"])

    def _recommend_rebalance(self, args: Mapping[str, Any]) -> None:
        if self._instances.has_group(args["cluster"]):
            self._instances.recommend_rebalance(args["node"])
        else:
            self._registry.cluster(args["cluster"]).recommend_rebalance(args["node"])

    def _busy(self, args: Mapping[str, Any]) -> bool:
        if self._instances.has_group(args["cluster"]):
            return self._instances.busy(args["node"])
        with _scheduler_errors():
            return self._registry.cluster(args["cluster"]).scheduler.busy(args["node"])

    def _jobs(self, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._instances.has_group(args["cluster"]):
            return []
        with _scheduler_errors():
            return self._registry.cluster(args["cluster"]).scheduler.jobs()

    def _lose_node(self, args: Mapping[str, Any]) -> None:
        if self._instances.has_group(args["cluster"]):
            self._instances.lose(args["node"], args["why"])
            return
        cluster = self._registry.cluster(args["cluster"])
        cluster.scheduler.node_lost(args["node"])
        cluster.lose(args["node"], args["why"])

    def _replace_node(self, args: Mapping[str, Any]) -> None:
        if self._instances.has_group(args["cluster"]):
            return  # its group replaces it
        cluster = self._registry.cluster(args["cluster"])
        cluster.replace(args["node"])
        cluster.scheduler.node_replaced(args["node"])

    @staticmethod
    def _stacks() -> list[dict[str, str]]:
        """The existing stacks, except the CDK's own."""
        from moto.cloudformation.models import cloudformation_backends  # noqa: PLC0415  moto again

        stacks = [
            {"name": stack.name, "status": stack.status, "region": region}
            for region, backend in list(cloudformation_backends[ACCOUNT].items())
            for stack in list(backend.stacks.values())
        ]
        return sorted((stack for stack in stacks if stack["name"] != "CDKToolkit"), key=lambda stack: stack["name"])

    @staticmethod
    def _failed_boots() -> int:
        """The number of boots that have failed: those that nodes reported, and HyperPod's own events and states."""
        from moto.s3.models import s3_backends  # noqa: PLC0415  moto again
        from moto.sagemaker.models import sagemaker_backends  # noqa: PLC0415  moto again

        from launcher.sandbox.aws.pod_cluster import FAILURE, EmulatedPodCluster  # noqa: PLC0415  moto again

        stores = list(s3_backends[ACCOUNT]["aws"].buckets.values())
        place = f"/{BOOTS_FOLDER}/"
        reported = sum(place in key and key.endswith(FAILED_BOOT) for store in stores for key in list(store.keys))
        regions = [backend for _, backend in list(sagemaker_backends[ACCOUNT].items())]
        clusters = [cluster for backend in regions for cluster in list(backend.clusters.values())]
        pods = [cluster for cluster in clusters if isinstance(cluster, EmulatedPodCluster)]
        stayed = sum(node.status == FAILURE for pod in pods for node in list(pod.nodes.values()))
        return int(reported + stayed + sum(len(pod.failed_starts) for pod in pods))

    def _create_prerequisites(self, args: Mapping[str, Any]) -> list[str]:
        from launcher.sandbox.aws.existing_clusters import make_existing  # noqa: PLC0415  moto again
        from launcher.sandbox.aws.prerequisites import create_prerequisites  # noqa: PLC0415  moto again

        bought = [TrainingPlan.of(plan) for plan in args["training_plans"]]
        cluster = None if args["cluster"] is None else ExistingCluster.of(args["cluster"])
        # Who comes second finds all of it: a cluster has its name before it has its own API.
        with self._making:
            created = create_prerequisites(
                args["region"], args["vpc_id"], args["zones"], args["buckets"], bought, groups=args["security_groups"]
            )
            is_new = cluster is not None and make_existing(args["region"], cluster, self._registry)
        return [*created, *([cluster.name] if cluster is not None and is_new else [])]

    def _behave(self, args: Mapping[str, Any]) -> None:
        self._behaviour = type(self._behaviour)(**args)

    def _limit_training(self, args: Mapping[str, Any]) -> None:
        capacity = self._training.capacity
        capacity.quotas, capacity.lacking = dict(args["quotas"]), frozenset(args["lacking"])

    def _limit_instances(self, args: Mapping[str, Any]) -> None:
        capacity = self._instances.capacity
        capacity.lacking, capacity.free = frozenset(args["lacking"]), dict(args["free"])
        capacity.spot_vcpus, capacity.vcpus = args["spot_vcpus"], args["vcpus"]
        capacity.spot_usd = {name: Decimal(usd) for name, usd in args["spot_usd"].items()}

    def ready(self) -> dict[str, Any]:
        """The facts that the owner needs."""
        key = self._keys.owner
        return {
            "port": self.port,
            "pid": os.getpid(),
            "control": str(self._address),
            "secret": self.secret,
            "key_id": key.id,
            "key_secret": key.secret,
        }

    def stop(self) -> None:
        """End the clusters, then the servers."""
        self._training.stop_all()
        self._instances.stop_all()
        if self._aws_cli is not None:
            self._aws_cli.communicate()
        self._registry.stop_all()
        self._control.stop()
        self._web.stop()


@contextmanager
def _scheduler_errors() -> Iterator[None]:
    try:
        yield
    except SchedulerError as problem:
        raise RuntimeError(problem.message) from problem


def main(arguments: list[str]) -> int:
    """Serve until the owner ends or requests the end."""
    parser = argparse.ArgumentParser(prog="python -m launcher.sandbox.server")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--short", type=Path, required=True)
    parser.add_argument("--mark", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--slurm", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args(arguments)
    over = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        over.set()

    signal.signal(signal.SIGTERM, end)
    # The terminal's Ctrl-C is the owner's business; it ends this process in its own order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare_environment(args.folder)
    # The objects of moto's modules stay: collecting garbage among them takes a quarter of their import.
    gc.set_threshold(100_000, 50, 50)
    try:
        server = Server(args.folder, args.short, args.mark, over.set, port=args.port, with_slurm=args.slurm)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return PORT_TAKEN
    threading.Thread(target=_watch_owner, args=(over,), name="owner", daemon=True).start()
    gc.freeze()
    write_whole(args.folder / READY, server.ready())
    over.wait()
    server.stop()
    return 0


def _watch_owner(over: threading.Event) -> None:
    """Wait for the end of standard input, which the owner holds open; then end the server, or let it stay."""
    text = b""
    with suppress(OSError):
        text = sys.stdin.buffer.read()
    if text != DETACH:
        over.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
