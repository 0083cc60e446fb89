"""The price of the job that compiles a model for NeuronCores."""

from launcher.catalog.load import Catalog
from launcher.model.money import Assumption, Price
from launcher.model.plan import Place

COMPILE_H = 1.0
"""Hours of one instance. Compiling takes up to an hour (aws-neuron/aws-neuron-sdk#825, huggingface/optimum-neuron#698,
read 2026-11-20); fetching the weights and storing the result are assumed to be in it."""
NEURON = "neuron"
NAME = "compile job, where the shape is not compiled yet"


def compile_lines(place: Place, catalog: Catalog) -> tuple[Assumption, ...]:
    """The price of the compile job that `slipway render` writes; empty if the chip needs none.

    The job runs on an on-demand EC2 instance of the same type. It is in no monthly total: a shape is compiled once.
    """
    facts = catalog.instance_types[place.instance_type]
    if facts.accelerator is None or catalog.accelerators[facts.accelerator].family != NEURON:
        return ()
    price = catalog.on_demand(place.instance_type, place.region)
    if not isinstance(price, Price):
        return (Assumption(name=NAME, value="unpriced", unit="", source=price.reason),)
    rate = f"one {place.instance_type} on EC2 on demand at ${price.usd.normalize():f} an hour ({price.as_of})"
    return (
        Assumption(
            name=NAME,
            value=f"${float(price.usd) * COMPILE_H:,.2f}",
            unit="once, in no month",
            source=f"{COMPILE_H:g} h assumed of {rate}; it takes up to an hour: aws-neuron-sdk#825",
        ),
    )
