"""The files of a ParallelCluster: its configuration, what sets up its nodes, and the image to bake that from."""

from collections.abc import Mapping

from launcher.model.bundle import RenderedFile
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.rendering.cluster import CLUSTER_FILE, cluster_context, cluster_yaml
from launcher.rendering.image import image_files
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import METRICS_SCRIPT, NODE_SCRIPT, is_measured, script_text

NODE_FILE = "node.sh"
METRICS_FILE = "metrics.py"


def cluster_files(plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames) -> list[RenderedFile]:
    """The cluster's configuration, and what its nodes are set up with."""
    context = cluster_context(plan, instances=instances, names=names)
    files = [RenderedFile(path=CLUSTER_FILE, text=cluster_yaml(context))]
    if any(queue.node_setup for queue in context.queues):
        files.append(RenderedFile(path=NODE_FILE, text=script_text(NODE_SCRIPT), executable=True))
    if any(is_measured(instances[queue.instance_type]) for queue in context.queues):
        files.append(RenderedFile(path=METRICS_FILE, text=script_text(METRICS_SCRIPT)))
    files.extend(RenderedFile(path=path, text=text) for path, text in image_files(plan, instances).items())
    return files
