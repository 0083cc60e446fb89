from dataclasses import replace
from pathlib import Path

from launcher.sandbox.cluster.specification import Queue
from launcher.sandbox.slurm.files import SlurmPlaces, slurm_conf
from tests.checks import some
from tests.sandbox import slurm_cluster as cluster

GROUP = replace(cluster.GROUP, queue="p5", name="nodes")
QUEUES = (Queue(name="p5", exclusive=True, settings={}), Queue(name="empty", exclusive=False, settings={}))
SPEC = replace(cluster.SPEC, queues=QUEUES, groups=(GROUP,), settings=(("RequeueExit", "75"),))
PLACES = SlurmPlaces(folder=Path("/sandbox/c0"), nodes=Path("/sandbox/c0/n"))


def lines(spec=SPEC):
    return slurm_conf(PLACES, spec, (7000, 7001, 7002)).splitlines()


class TestSlurmConf:
    def test_slurm_configuration_has_a_line_for_each_node(self):
        nodes = [line for line in lines() if line.startswith("NodeName=")]
        assert [line.split()[0] for line in nodes] == ["NodeName=p5-st-nodes-1", "NodeName=p5-dy-nodes-1"]
        assert "Port=7001" in nodes[0]
        assert "Port=7002" in nodes[1]
        assert "CPUs=192 RealMemory=2097152 Sockets=2 CoresPerSocket=48 ThreadsPerCore=2 Gres=gpu:8" in nodes[0]
        assert "Feature=static,p5.48xlarge,nodes,efa,gpu" in nodes[0]

    def test_node_topology_follows_the_cluster_settings(self):
        bare = replace(SPEC, groups=(replace(GROUP, settings={"Sockets": "2", "CoresPerSocket": "48"}),))
        assert not any("ThreadsPerCore" in line for line in some(lines(bare)))

    def test_slurm_configuration_has_a_partition_for_each_queue(self):
        partitions = [line for line in lines() if line.startswith("PartitionName=")]
        assert "Nodes=p5-st-nodes-1,p5-dy-nodes-1" in partitions[0]
        assert "Default=YES OverSubscribe=EXCLUSIVE" in partitions[0]
        assert "Default=NO OverSubscribe=NO" in partitions[1]

    def test_cluster_settings_are_the_last_lines_of_the_slurm_configuration(self):
        assert lines()[-1] == "RequeueExit=75"

    def test_longest_names_leave_room_for_a_socket_path(self):
        queue, resource = "q" * 25, "r" * 25
        group = replace(GROUP, queue=queue, name=resource, max_count=128, min_count=0)
        places = SlurmPlaces(folder=Path("/123/slw-12345678/c9"), nodes=Path("/n"))
        node = max(group.node_names(), key=len)
        # What slurmstepd listens on: <spool>/<node>_<job>.<step>, 4294967291 being the batch script's step.
        assert len(f"{places.spool(127)}/{node}_99999.4294967291") <= 108
