"""The result of a deployment as JSON: `slipway deploy`, slipway.deploy/1."""

from collections.abc import Mapping
from typing import Literal

from launcher.model.quote import Quote
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object


@json_object
class DeployDocument:
    """The outputs of each stack; `deployed` is false after a dry run."""

    schema: Literal["slipway.deploy/1"] = "slipway.deploy/1"
    name: str
    digest: str
    region: str
    simulated: bool
    deployed: bool
    stacks: Mapping[str, Mapping[str, str]]


def document(quoted: Quote, outputs: Mapping[str, Mapping[str, str]], *, simulated: bool, deployed: bool) -> Json:
    """slipway.deploy/1."""
    plan = quoted.plan
    return as_json(
        DeployDocument(
            name=plan.name,
            digest=plan.digest,
            region=plan.place.region,
            simulated=simulated,
            deployed=deployed,
            stacks=outputs,
        )
    )
