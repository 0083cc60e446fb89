"""HyperPod's continuous provisioning: an instance whose scripts still run has not started."""

from datetime import UTC, datetime

from launcher.sandbox.aws import hyperpod_events
from launcher.sandbox.aws.pod_cluster import EmulatedPodCluster


def test_instance_that_is_tried_is_listed_once_and_has_no_start_event():
    group = {
        "InstanceGroupName": "workers",
        "InstanceType": "ml.p5.48xlarge",
        "LifeCycleConfig": {"SourceS3Uri": "s3://scripts", "OnCreate": "node.sh"},
        "ExecutionRole": "arn:aws:iam::123456789012:role/workers",
        "InstanceCount": 1,
    }
    pod = EmulatedPodCluster(
        request={"ClusterName": "slipway-x", "InstanceGroups": [group], "NodeProvisioningMode": "Continuous"},
        region_name="us-east-1",
        account_id="123456789012",
        cluster_id="x",
        tags=[],
        creation_time=datetime.now(UTC),
        waiting={"logical": "workers"},
    )
    tried = pod.add("workers", tried=True)
    listed = pod.list_nodes(pod.nodes.values(), group_part="workers", with_logical_ids=True)
    assert [(node["NodeLogicalId"], node["InstanceStatus"]["Status"]) for node in listed] == [("logical", "Pending")]
    assert pod.instances("workers") == []
    assert hyperpod_events.summaries(pod, {}) == []
    pod.nodes[tried].status = "Running"
    (event,) = hyperpod_events.summaries(pod, {})
    assert "completed successfully" in event["Description"]
