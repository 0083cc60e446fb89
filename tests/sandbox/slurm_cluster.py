"""A small cluster with one group of nodes, as Slurm's files are written for it."""

from launcher.sandbox.cluster.specification import ClusterSpec, NodeGroup, Queue

GROUP = NodeGroup(
    queue="gpu",
    name="p5",
    instance_type="p5.48xlarge",
    capacity_type="SPOT",
    min_count=1,
    max_count=2,
    subnet_id="subnet-1",
    security_groups=(),
    efa=True,
    placement_group=True,
    cpus=192,
    memory_mib=2097152,
    gpus=8,
    settings={"Sockets": "2", "CoresPerSocket": "48", "ThreadsPerCore": "2"},
)
SPEC = ClusterSpec(
    name="demo",
    head_instance_type="m5.large",
    head_subnet_id="subnet-1",
    head_security_groups=(),
    queues=(Queue(name="gpu", exclusive=True, settings={}),),
    groups=(GROUP,),
    settings=(("JobRequeue", "1"), ("RequeueExit", "75")),
    tags={},
    left_out=(),
)
