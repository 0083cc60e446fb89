"""Weights that cross the network between nodes: sharded training on nodes with a slower network than published runs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import fit_training
from launcher.catalog.load import load
from launcher.catalog.training import load_training
from launcher.model.enums import Method, Stack
from launcher.planning import throughput, utilisation
from launcher.planning.shape import TrainingShape
from tests.checks import some

FACTS = load_training()
CATALOG = load()


def shape_on(instance_type, nodes, **changes):
    """An 8B full fine-tuning on a number of nodes."""
    row = CATALOG.instance_types[instance_type]
    shape = TrainingShape(
        params_b=8.03,
        active_params_b=8.03,
        layers=32,
        hidden=4096,
        vocab=128_256,
        stack=Stack.HUGGINGFACE,
        micro_batch=2,
        efa=nodes > 1,
        node_gbps=row.network_baseline_gbps,
        accelerator=CATALOG.accelerators[row.accelerator],
        chips=row.accelerators * nodes,
        chips_per_node=row.accelerators,
    )
    return replace(shape, **changes)


def tokens_per_s(shape):
    return throughput.rate(shape, FACTS).tokens_mid


def test_pairs_of_nodes_with_one_chip_are_slower_than_the_chips_of_one_node():
    """48 GB of weights and gradients, half of them of the other node, over 100 Gbit/s: 2.3 s for 8,192 tokens."""
    assert throughput.gather_seconds(shape_on("p5.4xlarge", 2), 100.0) == pytest.approx(2.27, abs=0.01)
    on_pair, on_node = tokens_per_s(shape_on("p5.4xlarge", 2)) / 2, tokens_per_s(shape_on("p5.48xlarge", 1)) / 8
    assert 2.0 < on_node / on_pair < 5.0


@pytest.mark.parametrize(
    "instance_type, nodes, changes",
    [
        ("p5.4xlarge", 1, {}),
        ("p5.4xlarge", 2, {"params_b": 1.0, "active_params_b": 1.0}),
        ("p5.4xlarge", 2, {"method": Method.LORA}),
        ("p5.4xlarge", 2, {"stack": Stack.TUNED}),
        ("p5.4xlarge", 2, {"active_params_b": 1.0}),
        ("p5.4xlarge", 2, {"node_gbps": None}),
        ("p5.48xlarge", 4, {"params_b": 70.0, "active_params_b": 70.0}),
        ("p4d.24xlarge", 8, {"params_b": 70.0, "active_params_b": 70.0}),
        ("trn1.32xlarge", 8, {"params_b": 70.0, "active_params_b": 70.0}),
    ],
    ids=["one node", "fits a node", "frozen", "tuned", "mixture", "unknown network", "p5", "p4d", "trainium"],
)
def test_no_wait_where_published_runs_hold_or_no_weights_cross(instance_type, nodes, changes):
    assert throughput.gather_factors(shape_on(instance_type, nodes, **changes), FACTS, 0.4) is None


def test_larger_micro_batches_hide_the_network_and_an_open_one_widens_the_range():
    few, many, unsaid = (
        throughput.gather_factors(shape_on("p5.4xlarge", 4, micro_batch=size), FACTS, 0.4) for size in (1, 8, None)
    )
    assert few[0] == few[1] == few[2] < many[1] < 1.0
    assert (unsaid[0], unsaid[2]) == (few[0], many[2])
    assert unsaid[0] < unsaid[1] < unsaid[2]


@given(
    st.sampled_from(["p5.4xlarge", "g5.12xlarge", "g6.12xlarge", "g6e.12xlarge", "g6e.48xlarge"]),
    st.floats(1.0, 200.0),
    st.sampled_from([Method.FULL, Method.PRETRAIN, Method.LORA, Method.QLORA]),
    st.sampled_from([None, 1, 8]),
    st.integers(2, 64),
)
def test_network_only_slows_and_more_nodes_never_do_less_together(instance_type, params_b, method, micro_batch, nodes):
    job = {"params_b": params_b, "active_params_b": params_b, "method": method, "micro_batch": micro_batch}
    shape = shape_on(instance_type, nodes, **job)
    rate, plain = throughput.rate(shape, FACTS), throughput.rate(replace(shape, node_gbps=None), FACTS)
    more = throughput.rate(shape_on(instance_type, nodes + 1, **job), FACTS)
    for with_wait, without, greater in some(zip(rate[:3], plain[:3], more[:3], strict=True)):
        assert with_wait <= without
        assert greater >= with_wait * (1 - 1e-9)
    assert rate.tokens_low <= rate.tokens_mid <= rate.tokens_high


def test_published_rows_have_no_network_of_an_instance():
    """The fit does not change with the term: its own wait is in the rows."""
    assert all(row.shape.node_gbps is None for row in some(fit_training.shipped_rows()))
    assert utilisation.chip_traits(CATALOG.accelerators["L40S"], FACTS).inference_card
