"""HyperPod's examples in the sandbox: a copy that can be priced, the output of `down`, and remaining resources."""

import json
import os
import subprocess
import sys

from launcher.aws import stacks
from launcher.aws.session import Session
from tests.plans import EXAMPLES
from tests.sandbox.example_plans import copied

RATE = "option: on-demand\n  price_overrides: {ml.trn2.48xlarge/on-demand: 25}"


def example(name, root, changes=()):
    """A copy of an example, with a rate if no price is published."""
    rate = [("option: on-demand", RATE)] if name == "trn2-on-demand" else []
    return copied(EXAMPLES / "hyperpod" / f"{name}.yaml", root, [*rate, *changes])


def down(path, sandbox, root):
    """The JSON output of `slipway down FILE` on a computer without runs, with the sandbox in the environment."""
    command = [sys.executable, "-m", "launcher", "down", str(path), "--yes", "--json"]
    elsewhere = root / "elsewhere"
    environment = {**sandbox.process_environment(os.environ), "XDG_STATE_HOME": str(elsewhere / "state")}
    elsewhere.mkdir(exist_ok=True)
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def remains(sandbox):
    """The sandbox's remaining resources of a cluster on HyperPod."""
    session = Session(environment=sandbox.process_environment({}), region=sandbox.region)
    fsx = session.client("fsx")
    return {
        "stacks": sorted(name for name in stacks.names(session) if name.startswith("slipway-")),
        "schedulers": list(sandbox.clusters()),
        "clusters": session.client("sagemaker").list_clusters()["ClusterSummaries"],
        "file systems": fsx.describe_file_systems()["FileSystems"],
        "links": fsx.describe_data_repository_associations()["Associations"],
    }
