"""What the template makes of an endpoint against what its quote bills: types, numbers of instances, volumes."""

from datetime import UTC, datetime

import pytest

from launcher import plan_file
from launcher.catalog.load import load
from launcher.workflow.price import PriceOptions
from launcher.workflow.serving import price_serving
from tests.infra.serving.conftest import COMPONENT, FILES, TARGET, only, variant

GB_PER_GIB = 1.073741824
SIZED = ["asynchronous-inf2", "llama31-8b-g6e", "llama31-8b-inf2"]
"""Examples whose largest number of instances is the one that their traffic needs."""


@pytest.fixture(scope="module")
def quoted():
    """The best machine of an example, as it is quoted."""
    made = {}

    def quote(name):
        if name not in made:
            request = plan_file.load(FILES[name])
            now = datetime(2026, 11, 20, tzinfo=UTC)
            priced = price_serving(FILES[name], request, load(), now, PriceOptions())
            (rank,) = [index for index, each in enumerate(priced.drafts, 1) if each.place.instance_type]
            made[name] = (priced.drafts[rank - 1], priced.digest(rank))
        return made[name]

    return quote


@pytest.mark.parametrize("name", FILES)
def test_the_type_that_is_billed_is_the_one_that_is_made(endpoint, quoted, name):
    draft, _ = quoted(name)
    lines = [each.name for each in draft.components if each.group == "compute"]
    assert any(variant(endpoint(name))["InstanceType"] in each for each in lines)


@pytest.mark.parametrize("name", SIZED)
def test_the_plan_that_was_quoted_is_the_one_that_is_deployed(endpoint, quoted, name):
    draft, digest = quoted(name)
    made = endpoint(name)
    assert made.template("serving")["Outputs"]["PlanDigest"]["Value"] == digest
    capacity = [each["MaxCapacity"] for each in made.resources("serving", TARGET).values()] or [1]
    copies = draft.estimate.layout.copies if made.resources("serving", COMPONENT) else 1
    assert capacity == [draft.fleet.instances.most * copies]


@pytest.mark.parametrize("name", FILES)
def test_copies_and_their_shape_are_those_of_the_estimate(endpoint, quoted, name):
    layout = quoted(name)[0].estimate.layout
    made = endpoint(name)
    for component in made.resources("serving", COMPONENT).values():
        needs = component["Specification"]["ComputeResourceRequirements"]
        assert needs["NumberOfAcceleratorDevicesRequired"] * 2 == layout.tensor_parallel
    environment = only(made, "AWS::SageMaker::Model")["PrimaryContainer"]["Environment"]
    names = [
        ("SM_ON_TENSOR_PARALLEL_SIZE", "SM_VLLM_TENSOR_PARALLEL_SIZE", layout.tensor_parallel),
        ("SM_ON_BATCH_SIZE", "SM_VLLM_MAX_NUM_SEQS", layout.batch),
        ("SM_ON_SEQUENCE_LENGTH", "SM_VLLM_MAX_MODEL_LEN", layout.sequence),
    ]
    for neuron, gpu, value in names:
        assert (environment.get(neuron) or environment[gpu]) == str(value)


@pytest.mark.parametrize("name", FILES)
def test_volumes_are_as_large_as_they_are_billed(endpoint, quoted, name):
    draft, _ = quoted(name)
    billed = [float(each.quantity) for each in draft.components if each.name == "endpoint volumes"]
    size = variant(endpoint(name)).get("VolumeSizeInGB")
    made = [] if size is None else [pytest.approx(size * GB_PER_GIB * draft.fleet.instances.mean, rel=1e-6)]
    assert billed == made
