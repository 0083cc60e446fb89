"""Security groups and their rules, inline and separate, so that EC2 returns the EFA rules of a template.

Judged by: cfn-lint 1.58.0's copy of CloudFormation's registry, which judges every synthesised template
(tests/infra/linting.py); Describe calls by moto 5.2.5.

Emulated: ingress and egress rules by CIDR, by group and by prefix list; the rule "all traffic out" that EC2 adds by
default and that CloudFormation removes if a template has its own egress rules. Not emulated: the effect of the rules;
updates.
"""

from functools import partial
from typing import Any

from moto.ec2.models.security_groups import SecurityGroup

from launcher.sandbox.aws.model import Created, Model, Requested
from launcher.sandbox.aws.network import ec2, with_tags


def _group(requested: Requested) -> SecurityGroup:
    group: SecurityGroup = ec2(requested).create_security_group(
        name=requested.get("GroupName") or requested.name,
        description=requested.need("GroupDescription"),
        vpc_id=requested.get("VpcId"),
    )
    for rule in requested.get("SecurityGroupIngress", []):
        _allow(requested, group.id, rule, outwards=False)
    egress = requested.get("SecurityGroupEgress", [])
    if egress:
        ec2(requested).revoke_security_group_egress(
            group.id, "-1", None, None, [{"CidrIp": "0.0.0.0/0"}], source_groups=[]
        )
    for rule in egress:
        _allow(requested, group.id, rule, outwards=True)
    return with_tags(requested, group)


def _rule(requested: Requested, *, outwards: bool) -> Created:
    _allow(requested, requested.need("GroupId"), requested.properties, outwards=outwards)
    return Created(physical_resource_id=requested.name, attributes={"Id": requested.name})


def _allow(requested: Requested, group_id: str, rule: Any, *, outwards: bool) -> None:
    backend = ec2(requested)
    add = backend.authorize_security_group_egress if outwards else backend.authorize_security_group_ingress
    add(**_arguments(group_id, rule, outwards=outwards))


def _arguments(group_id: str, rule: Any, *, outwards: bool) -> dict[str, Any]:
    """A rule of CloudFormation in the form that moto's EC2 expects."""
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


def _revoke(requested: Requested, _rule: Created, *, outwards: bool) -> None:
    backend = ec2(requested)
    revoke = backend.revoke_security_group_egress if outwards else backend.revoke_security_group_ingress
    revoke(**_arguments(requested.need("GroupId"), requested.properties, outwards=outwards))


MODELS = (
    Model(
        type="AWS::EC2::SecurityGroup",
        make=_group,
        remove=lambda requested, group: ec2(requested).delete_security_group(group_id=group.id),
    ),
    *(
        Model(
            type=f"AWS::EC2::SecurityGroup{direction}",
            make=partial(_rule, outwards=outwards),
            remove=partial(_revoke, outwards=outwards),
        )
        for direction, outwards in (("Ingress", False), ("Egress", True))
    ),
)
