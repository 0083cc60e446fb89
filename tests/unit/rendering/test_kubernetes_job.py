"""A job's objects are valid under strict schemas, and the command in the pod runs."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from launcher.model.enums import Operator, TargetKind
from launcher.rendering import kubernetes_job
from launcher.rendering.kubernetes_job import (
    MANIFEST_FILE,
    NAMESPACE_FILE,
    START_FILE,
    findings,
    job_files,
    job_manifests,
    job_name,
    namespace_of,
)
from launcher.rendering.names import symbolic_names
from launcher.rendering.slurm_job import JOB_FILE
from tests.checks import some
from tests.unit.rendering.conftest import JOB

OLDEST, NEWEST = "1.31", "1.36"
"""Of Kubernetes, whose strict schemas the documents are held against."""
EFA = "vpc.amazonaws.com/efa"
TYPES = ("p5.48xlarge", "p5en.48xlarge", "p4d.24xlarge", "p6-b200.48xlarge", "trn1.32xlarge", "g5.xlarge")


@pytest.fixture
def on_kubernetes(plan_of):
    """A plan whose machines stand in a Kubernetes cluster; `managed`: in HyperPod's."""

    def make(*, managed=False, **extra):
        plan = plan_of(**extra)
        kind = TargetKind.HYPERPOD_SLURM if managed else TargetKind.EKS
        return replace(plan, place=replace(plan.place, target=kind))

    return make


@pytest.fixture
def context_of(catalog):
    def make(plan, operator=None, job=JOB):
        names = symbolic_names(plan)
        return job_manifests(plan, instances=catalog.instance_types, names=names, job=job, operator=operator)

    return make


def documents(manifests):
    return list(yaml.safe_load_all(manifests[1]))


def pods(document):
    """Every pod template of a job object."""
    spec = document["spec"]
    if document["kind"] == "Job":
        return [spec["template"]]
    if document["kind"] == "PyTorchJob":
        return [replica_spec["template"] for replica_spec in spec["pytorchReplicaSpecs"].values()]
    return [replica_spec["template"] for replica_spec in spec["replicaSpecs"]]


def container(pod):
    (only,) = pod["spec"]["containers"]
    return only


def variables(pod):
    return {variable["name"]: variable.get("value") for variable in container(pod)["env"]}


class TestSchemas:
    @pytest.mark.long
    @pytest.mark.parametrize("version", [OLDEST, NEWEST])
    @pytest.mark.parametrize("name", TYPES)
    def test_kubernetes_job_passes_the_strict_schema_for_every_type(self, context_of, on_kubernetes, name, version):
        target = {"instance_type": name, "nodes": 1 if name == "g5.xlarge" else 2}
        image = {} if name != "p6-b200.48xlarge" else {"run": {"image": "team/trainer@sha256:" + "0" * 64}}
        manifests = context_of(on_kubernetes(target=target, **image), Operator.JOB)
        for manifest in (*documents(manifests), *yaml.safe_load_all(manifests[0])):
            kubernetes_validate.validate(manifest, version, strict=True)

    @pytest.mark.parametrize("operator", Operator)
    def test_pods_of_every_operator_pass_the_strict_schema(self, context_of, on_kubernetes, operator):
        """What an operator's pods are made of is the same PodTemplateSpec."""
        for template in pods(documents(context_of(on_kubernetes(managed=True), operator))[-1]):
            pod = {"apiVersion": "v1", "kind": "Pod", **template}
            kubernetes_validate.validate(pod, NEWEST, strict=True)

    @pytest.mark.parametrize("operator", Operator)
    def test_volumes_of_a_plan_are_mounted_in_every_pod(self, context_of, on_kubernetes, operator):
        volumes = [{"claim": "fsx-claim", "path": "/fsx"}, {"claim": "data", "path": "/data"}]
        manifests = context_of(on_kubernetes(managed=True, run={"volumes": volumes}), operator)
        for template in some(pods(documents(manifests)[-1])):
            kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", **template}, NEWEST, strict=True)
            named = {mount["name"]: mount["mountPath"] for mount in container(template)["volumeMounts"]}
            claims = [volume for volume in template["spec"]["volumes"] if "persistentVolumeClaim" in volume]
            mounted = {claim["persistentVolumeClaim"]["claimName"]: named[claim["name"]] for claim in claims}
            assert mounted == {"fsx-claim": "/fsx", "data": "/data"}

    def test_paths_on_volumes_use_the_variable_of_the_volume(self, on_kubernetes):
        """A sandbox has another folder in the place of each, and replaces it in variables alone."""
        run = {
            "volumes": [{"claim": "fsx-claim", "path": "/fsx"}],
            "data": [{"uri": "s3://corpus/tokens", "path": "/fsx/tokens"}],
        }
        plan = on_kubernetes(run=run, checkpoint={"mode": "own", "uri": "/fsx/runs"})
        spec = kubernetes_job.pod_spec(plan, names=symbolic_names(plan), job=JOB)
        assert (spec.checkpoint.uri, spec.data[0].path) == ("${SLIPWAY_VOLUME_0}/runs", "${SLIPWAY_VOLUME_0}/tokens")
        assert spec.data[0].shared

    @pytest.mark.skipif("SLIPWAY_VENDOR_DATA" not in os.environ, reason="SLIPWAY_VENDOR_DATA names no folder")
    def test_pytorchjob_passes_the_schema_of_the_operator(self, context_of, on_kubernetes):
        definition = Path(os.environ["SLIPWAY_VENDOR_DATA"], "crds", "kubeflow.org_pytorchjobs.yaml")
        (version,) = yaml.safe_load(definition.read_text(encoding="utf-8"))["spec"]["versions"]
        (document,) = documents(context_of(on_kubernetes(managed=True), Operator.PYTORCHJOB))
        schema = closed_plan(version["schema"]["openAPIV3Schema"])
        jsonschema.validate(document["spec"], schema["properties"]["spec"])
        document["spec"]["runPolicy"]["backofLimit"] = 3
        with pytest.raises(jsonschema.ValidationError, match="backofLimit"):
            jsonschema.validate(document["spec"], schema["properties"]["spec"])


def closed_plan(schema):
    """A schema that takes no key which it does not name, as the API server's strict field validation does."""
    if isinstance(schema, list):
        return [closed_plan(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed_schema = {key: closed_plan(value) for key, value in schema.items()}
    keeps = closed_schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in closed_schema
    if isinstance(closed_schema.get("properties"), dict) and closed_schema.get("type") == "object" and not keeps:
        closed_schema["additionalProperties"] = False
    if closed_schema.get("x-kubernetes-int-or-string"):
        closed_schema.pop("type", None)
    return closed_schema


class TestRequests:
    @pytest.mark.parametrize("name", TYPES[:5])
    @pytest.mark.parametrize("operator", Operator)
    def test_pod_requests_all_chips_and_efa_interfaces_of_a_node(
        self, catalog, context_of, on_kubernetes, name, operator
    ):
        facts = catalog.instance_types[name]
        plan = on_kubernetes(target={"instance_type": name}, run={"image": "team/trainer:1"})
        for pod in some(pods(documents(context_of(plan, operator))[-1])):
            resources = container(pod)["resources"]
            chips = "aws.amazon.com/neuron" if facts.neuron else "nvidia.com/gpu"
            for part in ("requests", "limits"):
                assert resources[part][chips] == str(facts.accelerators)
                assert resources[part][EFA] == str(facts.efa_interfaces)
                assert resources[part].get("hugepages-2Mi") == ("5120Mi" if facts.neuron else None)
            memory = int(resources["requests"]["memory"].removesuffix("Gi"))
            assert 0.5 * facts.memory_gib < memory < 0.8 * facts.memory_gib
            assert variables(pod)["SLIPWAY_EFA"] == str(facts.efa_interfaces)
            assert {toleration["key"] for toleration in pod["spec"]["tolerations"]} == {chips, EFA}

    @pytest.mark.parametrize(
        "name, nodes, efa", [("p5.48xlarge", 1, 0), ("p5.48xlarge", 2, 32), ("p5.48xlarge", 4, 32)]
    )
    def test_efa_check_of_a_pod_is_off_for_one_node(self, context_of, on_kubernetes, name, nodes, efa):
        plan = on_kubernetes(target={"instance_type": name, "nodes": nodes})
        for pod in some(pods(documents(context_of(plan, Operator.JOB))[-1])):
            assert variables(pod)["SLIPWAY_EFA"] == str(efa)

    @pytest.mark.parametrize("operator", Operator)
    def test_hyperpod_operator_forwards_the_save_signal(self, context_of, on_kubernetes, operator):
        for pod in some(pods(documents(context_of(on_kubernetes(), operator))[-1])):
            value = variables(pod).get("TORCHELASTIC_SIGNALS_TO_HANDLE", "")
            assert ("SIGUSR1" in value) is (operator is Operator.HYPERPOD_PYTORCHJOB)

    @pytest.mark.parametrize("operator", Operator)
    def test_pod_gets_no_variables_of_services(self, context_of, on_kubernetes, operator):
        for pod in some(pods(documents(context_of(on_kubernetes(), operator))[-1])):
            assert pod["spec"]["enableServiceLinks"] is False

    def test_pod_of_a_type_without_efa_requests_no_interfaces(self, context_of, on_kubernetes):
        plan = on_kubernetes(target={"instance_type": "g5.xlarge", "nodes": 1})
        (pod,) = pods(documents(context_of(plan, Operator.JOB))[-1])
        assert set(container(pod)["resources"]["limits"]) == {"nvidia.com/gpu"}
        assert variables(pod)["SLIPWAY_EFA"] == "0"

    def test_grace_period_of_a_pod_covers_the_checkpoint_write(self, context_of, on_kubernetes):
        plan = on_kubernetes(checkpoint={"grace_seconds": 60})
        (pod,) = pods(documents(context_of(plan, Operator.JOB, replace(JOB, checkpoint_write_s=201.5)))[-1])
        assert pod["spec"]["terminationGracePeriodSeconds"] == 262 + 30

    def test_node_selector_uses_the_ml_prefix_for_hyperpod_only(self, context_of, on_kubernetes):
        plain, managed = (
            on_kubernetes(managed=is_managed, target={"az_id": "use2-az1"}) for is_managed in (False, True)
        )
        (pod,) = pods(documents(context_of(plain, Operator.JOB))[-1])
        assert pod["spec"]["nodeSelector"] == {
            "node.kubernetes.io/instance-type": "p5.48xlarge",
            "topology.k8s.aws/zone-id": "use2-az1",
        }
        (pod,) = pods(documents(context_of(managed, Operator.JOB))[-1])
        assert pod["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"] == "ml.p5.48xlarge"
        assert pod["spec"]["nodeSelector"]["sagemaker.amazonaws.com/node-health-status"] == "Schedulable"


class TestQueue:
    @pytest.mark.parametrize("operator", list(Operator))
    def test_task_governance_queue_sets_namespace_priority_and_topology(self, context_of, on_kubernetes, operator):
        target = {"queue": "hyperpod-ns-vision-localqueue", "priority": "training-priority"}
        plan = on_kubernetes(managed=True, target=target)
        assert namespace_of(plan) == "hyperpod-ns-vision"
        document = documents(context_of(plan, operator))[-1]
        # Its admission policy asks pods for the label too.
        for labelled in (document, *pods(document)):
            labels = labelled["metadata"]["labels"]
            assert labels["kueue.x-k8s.io/queue-name"] == "hyperpod-ns-vision-localqueue"
            assert labels["kueue.x-k8s.io/priority-class"] == "training-priority"
        for pod in pods(document):
            topology = pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-preferred-topology"]
            assert topology == "topology.k8s.aws/network-node-layer-3"
            assert "affinity" not in pod["spec"]

    def test_pod_affinity_is_set_without_a_queue(self, context_of, on_kubernetes):
        (pod,) = pods(documents(context_of(on_kubernetes(), Operator.JOB))[-1])
        (near,) = pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert near["podAffinityTerm"]["topologyKey"] == "topology.k8s.aws/network-node-layer-3"

    @pytest.mark.parametrize(
        "queue,managed,namespace",
        [
            (None, False, "slipway"),
            (None, True, "hyperpod-slipway"),
            ("gpus", False, "slipway"),
            ("team-a/gpus", False, "team-a"),
            ("team-a/hyperpod-ns-b-localqueue", True, "team-a"),
        ],
    )
    def test_namespace_follows_queue_and_kind_of_cluster(self, on_kubernetes, queue, managed, namespace):
        assert namespace_of(on_kubernetes(managed=managed, target={"queue": queue})) == namespace


class TestOperators:
    def test_pod_failure_policy_ignores_interruptions_and_fails_permanent_exit_codes(self, context_of, on_kubernetes):
        job = documents(context_of(on_kubernetes(run={"retries": 2}), Operator.JOB))[-1]
        assert job["spec"]["backoffLimit"] == 4
        first, second, third = job["spec"]["podFailurePolicy"]["rules"]
        assert (first["action"], first["onExitCodes"]["values"]) == ("Ignore", [75])
        assert (second["action"], second["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
        assert (third["action"], third["onExitCodes"]["values"]) == ("FailJob", [78, 79, 126, 127, 143])

    def test_service_names_the_pod_of_the_rendezvous(self, context_of, on_kubernetes):
        service, job = documents(context_of(on_kubernetes(), Operator.JOB))
        (pod,) = pods(job)
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["subdomain"] == service["metadata"]["name"]
        assert variables(pod)["SLIPWAY_MEETING"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"

    def test_hyperpod_pytorchjob_has_auto_resume(self, context_of, on_kubernetes):
        (document,) = documents(context_of(on_kubernetes(managed=True)))
        assert document["kind"] == "PyTorchJob"
        assert document["metadata"]["annotations"]["sagemaker.amazonaws.com/enable-job-auto-resume"] == "true"
        assert document["metadata"]["namespace"].startswith("hyperpod")
        replicas = document["spec"]["pytorchReplicaSpecs"]
        assert (replicas["Master"]["replicas"], replicas["Worker"]["replicas"]) == (1, 1)
        assert "annotations" in documents(context_of(on_kubernetes()))[-1]["metadata"]
        assert "sagemaker" not in context_of(on_kubernetes())[1]

    def test_hyperpod_operator_monitors_the_log_for_hung_steps(self, context_of, on_kubernetes):
        plan = on_kubernetes(managed=True, guardrails={"hung_minutes": 20})
        (document,) = documents(context_of(plan, Operator.HYPERPOD_PYTORCHJOB))
        (rule,) = document["spec"]["runPolicy"]["logMonitoringConfiguration"]
        assert rule["expectedRecurringFrequencyInSeconds"] == 1200
        # The elastic agent matches from the start of a line, and reads a file that hyperpodrun writes only with --tee.
        assert re.match(rule["logPattern"], '{"step": 3, "loss": 2.5}')
        assert re.match(rule["logPattern"], "2026-11-29 12:00:00 train step=3 loss=2.5")
        assert re.match(rule["logPattern"], "epoch 3") is None
        (pod,) = pods(document)
        assert variables(pod)["PET_TEE"] == "0:1"
        assert document["spec"]["nprocPerNode"] == "8"

    def test_job_name_leaves_room_for_pod_suffixes(self, on_kubernetes):
        plan = on_kubernetes(name="a" * 40)
        assert len(job_name(plan, "r")) == 40
        assert job_name(plan, "r") != job_name(plan, "s")
        assert job_name(on_kubernetes(name="8b"), "r")[0].isalpha()


class TestFindings:
    def codes(self, plan, catalog):
        return [finding.code for finding in findings(plan, catalog.instance_types)]

    def test_runnable_plan_has_no_findings(self, on_kubernetes, catalog):
        assert self.codes(on_kubernetes(), catalog) == []

    def test_chip_without_an_aws_image_needs_an_image(self, on_kubernetes, catalog):
        target = {"instance_type": "trn2.48xlarge"}
        assert self.codes(on_kubernetes(target=target), catalog) == ["image-missing"]
        assert self.codes(on_kubernetes(target=target, run={"image": "team/trainer:1"}), catalog) == []

    @pytest.mark.parametrize("image", ["Trainer", "team/trainer@sha256:12", "/fsx/trainer.sqsh", "-x"])
    def test_invalid_image_reference_is_refused(self, on_kubernetes, catalog, image):
        assert self.codes(on_kubernetes(run={"image": image}), catalog) == ["not-an-image"]

    def test_container_runtime_in_a_pod_is_refused(self, on_kubernetes, catalog):
        assert self.codes(on_kubernetes(run={"container": "docker"}), catalog) == ["container-in-pod"]

    @pytest.mark.parametrize("name", ["-small", "small-", "-", "default"])
    def test_plan_name_invalid_as_service_account_is_refused(self, on_kubernetes, catalog, name):
        assert self.codes(on_kubernetes(name=name), catalog) == ["not-an-account"]

    def test_unknown_number_of_efa_interfaces_is_refused(self, on_kubernetes, catalog):
        facts = replace(catalog.instance_types["p5.48xlarge"], unknown=("efa_interfaces",))
        assert [finding.code for finding in findings(on_kubernetes(), {"p5.48xlarge": facts})] == ["efa-unknown"]


class TestAccount:
    """Whose rights pods have: their plan's on clusters of our own, one that all jobs share on those of others."""

    def accounts(self, manifests):
        parsed, manifests = documents(manifests), list(yaml.safe_load_all(manifests[0]))
        return [manifests[-1]["metadata"]["name"], parsed[-1]["spec"]["template"]["spec"]["serviceAccountName"]]

    def test_service_account_of_an_own_cluster_has_the_name_of_the_plan(self, context_of, on_kubernetes):
        assert self.accounts(context_of(on_kubernetes(name="mine"))) == ["mine", "mine"]

    def test_service_account_on_a_foreign_cluster_is_shared(self, context_of, on_kubernetes):
        plan = on_kubernetes(name="mine", target={"cluster": "theirs"}, checkpoint={"uri": "s3://theirs/runs"})
        assert self.accounts(context_of(plan)) == ["slipway-jobs", "slipway-jobs"]


class TestFiles:
    def test_job_files_contain_manifest_start_script_and_job_document(self, on_kubernetes, catalog):
        plan = on_kubernetes(run={"image": "team/trainer:1"})
        files = job_files(plan, catalog.instance_types, symbolic_names(plan), JOB)
        assert [file.path for file in files] == [NAMESPACE_FILE, MANIFEST_FILE, START_FILE, JOB_FILE]
        spec = json.loads(files[-1].text)
        assert (spec["imds"], spec["drain"]) == (False, False)
        assert spec["command"] == ["python", "train.py"]
        assert spec["workdir"] == "${SLIPWAY_ROOT}/job/work"
        assert spec["journal"] == f"s3://slipway-small-checkpoints/jobs/small/.runs/{JOB.run}"
        assert spec["grace_s"] == 120

    def test_cluster_without_workload_has_no_job_files(self, on_kubernetes, catalog):
        plan = on_kubernetes(workload={"train": None})
        assert job_files(plan, catalog.instance_types, symbolic_names(plan), JOB) == []


def test_every_operator_has_a_manifest_of_a_separate_kind(context_of, on_kubernetes):
    kinds = {documents(context_of(on_kubernetes(), operator))[-1]["kind"] for operator in Operator}
    assert kinds == {"Job", "PyTorchJob", "HyperPodPyTorchJob"}
    assert kubernetes_job.operator_of(on_kubernetes()) is Operator.JOB
    assert kubernetes_job.operator_of(on_kubernetes(run={"operator": "pytorchjob"})) is Operator.PYTORCHJOB
