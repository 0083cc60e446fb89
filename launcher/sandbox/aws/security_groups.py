"""Security groups and their rules, inline and apart, so that the EFA rules of a template can be read back from EC2.

Emulated: ingress and egress rules by CIDR, by group and by prefix list; the rule "all traffic out" that EC2 adds by
itself and that CloudFormation removes when a template has egress rules of its own. Not emulated: what the rules do;
an update.
"""

from typing import Any

from moto.ec2.models.security_groups import SecurityGroup

from launcher.sandbox.aws.model import Created, Model, Requested
from launcher.sandbox.aws.network import ec2, tagged

_EVERYWHERE = [{"CidrIp": "0.0.0.0/0"}]


def _group(wanted: Requested) -> SecurityGroup:
    group: SecurityGroup = ec2(wanted).create_security_group(
        name=wanted.get("GroupName") or wanted.name,
        description=wanted.need("GroupDescription"),
        vpc_id=wanted.get("VpcId"),
    )
    for rule in wanted.get("SecurityGroupIngress", []):
        _allow(wanted, group.id, rule, outwards=False)
    own = wanted.get("SecurityGroupEgress", [])
    if own:
        ec2(wanted).revoke_security_group_egress(group.id, "-1", None, None, _EVERYWHERE, source_groups=[])
    for rule in own:
        _allow(wanted, group.id, rule, outwards=True)
    return tagged(wanted, group)


def _remove_group(wanted: Requested, group: SecurityGroup) -> None:
    ec2(wanted).delete_security_group(group_id=group.id)


def _ingress(wanted: Requested) -> Created:
    return _rule(wanted, outwards=False)


def _egress(wanted: Requested) -> Created:
    return _rule(wanted, outwards=True)


def _rule(wanted: Requested, *, outwards: bool) -> Created:
    _allow(wanted, wanted.need("GroupId"), wanted.properties, outwards=outwards)
    return Created(physical_resource_id=wanted.name, attributes={"Id": wanted.name})


def _remove_ingress(wanted: Requested, rule: Created) -> None:
    del rule
    ec2(wanted).revoke_security_group_ingress(**_arguments(wanted.need("GroupId"), wanted.properties, outwards=False))


def _remove_egress(wanted: Requested, rule: Created) -> None:
    del rule
    ec2(wanted).revoke_security_group_egress(**_arguments(wanted.need("GroupId"), wanted.properties, outwards=True))


def _allow(wanted: Requested, group_id: str, rule: Any, *, outwards: bool) -> None:
    backend = ec2(wanted)
    add = backend.authorize_security_group_egress if outwards else backend.authorize_security_group_ingress
    add(**_arguments(group_id, rule, outwards=outwards))


def _arguments(group_id: str, rule: Any, *, outwards: bool) -> dict[str, Any]:
    """A rule of CloudFormation as moto's EC2 takes it."""
    description = rule.get("Description")
    cidr, group = rule.get("CidrIp"), rule.get("DestinationSecurityGroupId" if outwards else "SourceSecurityGroupId")
    prefix_list = rule.get("DestinationPrefixListId" if outwards else "SourcePrefixListId")
    extra = {"Description": description} if description else {}
    return {
        "group_name_or_id": group_id,
        "ip_protocol": str(rule.get("IpProtocol")),
        "from_port": rule.get("FromPort"),
        "to_port": rule.get("ToPort"),
        "ip_ranges": [{"CidrIp": cidr, **extra}] if cidr else [],
        "source_groups": [{"GroupId": group, **extra}] if group else [],
        "prefix_list_ids": [{"PrefixListId": prefix_list, **extra}] if prefix_list else [],
    }


MODELS = (
    Model(type="AWS::EC2::SecurityGroup", make=_group, remove=_remove_group),
    Model(type="AWS::EC2::SecurityGroupIngress", make=_ingress, remove=_remove_ingress),
    Model(type="AWS::EC2::SecurityGroupEgress", make=_egress, remove=_remove_egress),
)
