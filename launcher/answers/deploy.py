"""The result of a deployment as JSON: `slipway deploy`, slipway.deploy/1."""

from collections.abc import Mapping

from launcher.model.quote import Quote
from launcher.records.codec import Json, picked


def document(quoted: Quote, outputs: Mapping[str, Mapping[str, str]], *, simulated: bool, deployed: bool) -> Json:
    """slipway.deploy/1: the outputs of each stack; `deployed` is false after a dry run."""
    return {
        "schema": "slipway.deploy/1",
        **picked(quoted, "name=plan.name digest"),
        "region": quoted.plan.place.region,
        "simulated": simulated,
        "deployed": deployed,
        "stacks": {name: dict(values) for name, values in outputs.items()},
    }
