"""Parameters of Systems Manager as CloudFormation creates and changes them; moto stores their values and versions.

Emulated: a name that exists is refused, and any change writes the template's value again, as the resource handler's
PutParameter does (aws-ssm-parameter of aws-cloudformation-resource-providers-ssm). Not emulated: parameter policies.
"""

from moto.ssm.models import SimpleSystemManagerBackend, ssm_backends

from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError


def _ssm(requested: Requested) -> SimpleSystemManagerBackend:
    return ssm_backends[requested.account_id][requested.region_name]


def _put(requested: Requested, name: str, *, overwrite: bool) -> Created:
    _ssm(requested).put_parameter(
        name=name,
        description=requested.get("Description", ""),
        value=requested.need("Value"),
        parameter_type=requested.need("Type"),
        allowed_pattern=requested.get("AllowedPattern", ""),
        keyid="",
        overwrite=overwrite,
        tags=[] if overwrite else [{"Key": key, "Value": value} for key, value in requested.get("Tags", {}).items()],
        data_type=requested.get("DataType", "text"),
        tier=requested.get("Tier"),
        policies=None,
    )
    return Created(
        physical_resource_id=name, attributes={"Type": requested.need("Type"), "Value": requested.need("Value")}
    )


def _make(requested: Requested) -> Created:
    name = str(requested.get("Name") or f"CFN-{requested.logical_id}-{requested.name[-12:]}")
    if _ssm(requested).get_parameter(name) is not None:
        raise ResourceRefusedError(f"{name} already exists in stack or account")
    return _put(requested, name, overwrite=False)


def _change(requested: Requested, before: Created) -> Created:
    if requested.get("Name") not in (None, before.physical_resource_id):
        created = _make(requested)
        _remove(requested, before)
        return created
    tags = requested.get("Tags", {})
    _ssm(requested).add_tags_to_resource("Parameter", before.physical_resource_id, tags)
    return _put(requested, before.physical_resource_id, overwrite=True)


def _remove(requested: Requested, parameter: Created) -> None:
    _ssm(requested).delete_parameter(parameter.physical_resource_id)


MODELS = (Model(type="AWS::SSM::Parameter", make=_make, change=_change, remove=_remove),)
