"""A placeholder for a resource that is not emulated: a name and invented attributes, to deploy the other resources.

Emulated: nothing. Its `Ref` is its name, its `Fn::GetAtt` a text that names its origin. The ledger lists every use.
"""

from dataclasses import dataclass

from launcher.sandbox.aws.model import Created, Model, Requested, keep_resource, nothing

_CUSTOM = "custom resources need Lambda code, which the sandbox does not run"
_UNKNOWN = "moto has no model of this type"


@dataclass(slots=True, kw_only=True)
class Placeholder:
    """A resource in name only."""

    physical_resource_id: str
    arn: str
    cf_resource_type: str = ""
    logical_resource_id: str = ""

    def get_cfn_attribute(self, attribute_name: str) -> str:
        """An ARN for attributes whose name ends in Arn, else a text that names the resource and the attribute."""
        return self.arn if attribute_name.endswith("Arn") else f"{self.physical_resource_id}.{attribute_name}"


def placeholder(requested: Requested) -> Placeholder:
    """A placeholder for a requested resource."""
    path = f"{requested.type.replace('::', '-').lower()}/{requested.name}"
    arn = f"arn:aws:sandbox:{requested.region_name}:{requested.account_id}:{path}"
    return Placeholder(physical_resource_id=requested.name, arn=arn)


def reason(resource_type: str) -> str:
    """The reason why a type has a placeholder and no model."""
    custom = resource_type.startswith("Custom::") or resource_type == "AWS::CloudFormation::CustomResource"
    return _CUSTOM if custom else _UNKNOWN


def _metadata(requested: Requested) -> Created:
    requested.get("Analytics")
    return Created(physical_resource_id=requested.name)


NOTHING_MADE = Model(type="", make=placeholder, change=keep_resource, remove=nothing)
"""The model of every type without a model of its own."""

METADATA = Model(type="AWS::CDK::Metadata", make=_metadata, change=keep_resource, remove=nothing)
"""The CDK's usage metric: AWS creates nothing for it either."""
