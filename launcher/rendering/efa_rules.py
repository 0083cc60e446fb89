"""Five mistakes that disable EFA, each a rule: without EFA, a job of several nodes silently runs over slow TCP.

On rendered documents: pods that request fewer interfaces than their node has, and nodes whose plugin, by its own
document or by the values of HyperPod's chart, does not show them. On templates of stacks: launch templates that attach
fewer (HyperPod attaches its own), security groups whose members may not communicate with each other (EFA is not IP: a
rule to 0.0.0.0/0 does not cover it), and node groups in several zones, since EFA ends at a zone (EC2 user guide,
Elastic Fabric Adapter, "EFA limitations").
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from launcher.model.finding import Finding, error
from launcher.model.hyperpod import ml_name
from launcher.model.instance_type import InstanceType
from launcher.model.kubernetes import EFA, HUGE_PAGES

Document = Mapping[str, Any]
PLUGIN = "aws-efa-k8s-device-plugin"
_KINDS = ("efa", "efa-only")
_ALL = "-1"
_TEMPLATE, _GROUP, _NODES = "AWS::EC2::LaunchTemplate", "AWS::EC2::SecurityGroup", "AWS::EKS::Nodegroup"
_HYPERPOD = "AWS::SageMaker::Cluster"


def document_findings(documents: Iterable[Document], interfaces: int, *, where: str) -> Iterator[Finding]:
    """The EFA resources of their nodes that the pods in some documents do not request."""
    for document in documents if interfaces else ():
        for pod in pod_templates(document):
            yield from _pod_findings(pod, interfaces, where)


def pod_templates(document: Document) -> list[Document]:
    """The pod templates of a job's object of any kind."""
    spec = document.get("spec") or {}
    if "pytorchReplicaSpecs" in spec:
        return [replica_spec["template"] for replica_spec in spec["pytorchReplicaSpecs"].values()]
    if "replicaSpecs" in spec:
        return [replica_spec["template"] for replica_spec in spec["replicaSpecs"]]
    # A DaemonSet or Deployment has a pod template too, and runs no job.
    return [spec["template"]] if "template" in spec and document.get("kind") == "Job" else []


def _pod_findings(pod: Document, interfaces: int, where: str) -> Iterator[Finding]:
    limits = [pod_container.get("resources", {}).get("limits", {}) for pod_container in pod["spec"]["containers"]]
    requested = sum(int(limit.get(EFA, 0)) for limit in limits)
    if requested < interfaces:
        message = f"a pod asks for {requested} of its node's {interfaces} {EFA}: the job would use TCP"
        hint = f'resources: {{limits: {{{EFA}: "{interfaces}"}}}}'
        yield error("efa-not-asked-for", where, message, hint)
    variables = [variable for container in pod["spec"]["containers"] for variable in container.get("env", ())]
    without = any((variable["name"], variable.get("value")) == ("FI_EFA_USE_HUGE_PAGE", "0") for variable in variables)
    if not without and not any(str(limit.get(HUGE_PAGES, "0")).rstrip("KMGi") not in ("", "0") for limit in limits):
        message = f"pods with EFA ask for no {HUGE_PAGES}: libfabric sets up its interfaces there"
        yield error("efa-without-pages", where, message, f"resources: {{limits: {{{HUGE_PAGES}: 5120Mi}}}}")


def plugin_findings(documents: Iterable[Document], facts: InstanceType, *, where: str) -> Iterator[Finding]:
    """Whether EFA's device plugin runs on the nodes of a type, if some documents define the cluster's plugins."""
    if not facts.efa_interfaces:
        return
    sets = [document for document in documents if document.get("kind") == "DaemonSet"]
    if not any(PLUGIN in set_["metadata"]["name"] and _runs_on(set_, facts.name) for set_ in sets):
        yield _not_shown(facts.name, where, f"keep its DaemonSet, with {facts.name} in its node affinity")


def chart_findings(values: Document, facts: InstanceType, *, where: str) -> Iterator[Finding]:
    """Whether EFA's device plugin runs on the nodes of a type, if HyperPod's chart installs it by these values."""
    plugin_values, name = values.get(PLUGIN) or {}, ml_name(facts.name)
    switched_on = (plugin_values.get("devicePlugin") or {}).get("enabled")
    types = (plugin_values.get("supportedInstanceLabels") or {}).get("values") or ()
    if facts.efa_interfaces and not (switched_on and name in types):
        yield _not_shown(name, where, f"{PLUGIN}: enabled, with {name} among supportedInstanceLabels.values")


def _not_shown(name: str, where: str, hint: str) -> Finding:
    message = f"{PLUGIN} does not run on {name}: no node would show {EFA}, and no pod with it be placed"
    return error("efa-not-shown", where, message, hint)


def _runs_on(daemon_set: Document, instance_type: str) -> bool:
    """Whether a DaemonSet's affinity lets it run on a type; without an affinity it runs on all types."""
    affinity = daemon_set["spec"]["template"]["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    types = [
        instance_type in expression["values"]
        for term in terms
        for expression in term.get("matchExpressions", ())
        if expression["key"] == "node.kubernetes.io/instance-type" and expression["operator"] == "In"
    ]
    return all(types)


def stack_findings(template: Document, facts: InstanceType) -> Iterator[Finding]:
    """The EFA features of a type that the nodes of a stack would lack."""
    if not facts.efa_interfaces:
        return
    resources = template.get("Resources", {})
    speaking = _groups_of_themselves(resources)
    for name, resource in resources.items():
        properties = resource.get("Properties", {})
        if resource["Type"] == _TEMPLATE and properties["LaunchTemplateData"].get("InstanceType") == facts.name:
            yield from _interface_findings(name, properties["LaunchTemplateData"], facts, speaking)
            # A node group names its launch template; its subnets are its own.
            users = [(key, one) for key, one in resources.items() if one["Type"] == _NODES]
            for key, one in users:
                uses = one["Properties"].get("LaunchTemplate", {}).get("Id") == {"Ref": name}
                if uses:
                    yield from _across_zones(key, one["Properties"]["Subnets"])
        for group in properties["InstanceGroups"] if resource["Type"] == _HYPERPOD else ():
            if group["InstanceType"] == ml_name(facts.name):
                network = group.get("OverrideVpcConfig") or properties["VpcConfig"]
                yield from _across_zones(name, network["Subnets"])
                if not speaking.intersection(_reference_names(network["SecurityGroupIds"])):
                    yield _isolation_finding(name, f"the group {group['InstanceGroupName']} has")


def _across_zones(name: str, subnets: Sequence[Any]) -> Iterator[Finding]:
    if len(subnets) > 1:
        message = f"the node group is in {len(subnets)} subnets: EFA ends at a zone"
        yield error("efa-across-zones", name, message, "one subnet a node group")


def _isolation_finding(name: str, whose: str) -> Finding:
    message = f"{whose} no security group whose members accept traffic from and to each other"
    return error("efa-kept-apart", name, message, "a rule for all traffic from the group itself, and one to it")


def _interface_findings(name: str, data: Document, facts: InstanceType, speaking: frozenset[str]) -> Iterator[Finding]:
    """The faults of a launch template: missing EFA interfaces, or no security group that lets members communicate."""
    interfaces = [
        interface for interface in data.get("NetworkInterfaces", ()) if interface.get("InterfaceType") in _KINDS
    ]
    if len(interfaces) < facts.efa_interfaces:
        message = f"{facts.name} has {facts.efa_interfaces} interfaces for EFA, and {len(interfaces)} are attached"
        yield error("efa-not-attached", name, message, "InterfaceType: efa or efa-only on every network card")
    alone = [
        interface
        for interface in interfaces
        if not speaking.intersection(_reference_names(interface.get("Groups", ())))
    ]
    if alone:
        yield _isolation_finding(name, f"{len(alone)} interfaces have")


def _groups_of_themselves(resources: Document) -> frozenset[str]:
    directions_by_group: dict[str, set[str]] = {}
    for name, resource in resources.items():
        properties = resource.get("Properties", {})
        for direction, other in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
            rules = [properties] if resource["Type"] == f"{_GROUP}{direction}" else []
            owners = _reference_names([properties.get("GroupId")])
            if resource["Type"] == _GROUP:
                rules, owners = properties.get(f"SecurityGroup{direction}", []), [name]
            for rule in rules:
                if str(rule.get("IpProtocol")) == _ALL and set(owners) & set(_reference_names([rule.get(other)])):
                    directions_by_group.setdefault(owners[0], set()).add(direction)
    return frozenset(name for name, directions in directions_by_group.items() if len(directions) == 2)  # noqa: PLR2004 - in and out


def _reference_names(references: Iterable[Any]) -> list[str]:
    names = []
    for reference in references:
        if isinstance(reference, Mapping):
            names += [str(reference.get("Ref") or reference.get("Fn::GetAtt", [""])[0])]
    return names
