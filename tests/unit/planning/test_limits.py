"""Requests that no chip or offering can meet: all problems at once, each at its path."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.agent.store.transfers import PART_BYTES
from launcher.catalog.load import load
from launcher.catalog.training import load_training
from launcher.model.run_spec import DataSource, RunSpec
from launcher.planning import outside_command
from launcher.planning.outside_command import read_gb_per_s, store_gb_per_s
from launcher.planning.resolve import resolve_training
from tests.plans import request_of

DIMENSIONS = {"params_b": 8.0, "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "vocab": 128256}


@pytest.fixture(scope="module")
def limits_of():
    """The findings of a request and the types its candidates have."""
    catalog, facts = load(), load_training()

    def findings(train: dict[str, Any], target: dict[str, Any], option: object = "on-demand"):
        data = {
            "slipway": 1,
            "name": "job",
            "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 2.0, **train}},
            "target": {"region": "us-east-1", **target},
            "purchase": {"option": option},
        }
        resolved = resolve_training(request_of(data), catalog, facts)
        marks = [(finding.level.value, finding.code, finding.path) for finding in resolved.findings]
        return marks, {group.instance_type for group in resolved.groups}, resolved.findings

    return findings


class TestNeuron:
    """Neuron has no bitsandbytes: no 4-bit weights in training, no 8-bit states of the optimizer."""

    @pytest.mark.parametrize(
        "train, code", [({"method": "qlora"}, "no-such-method"), ({"optimizer": "adamw-8bit"}, "no-such-optimizer")]
    )
    @pytest.mark.parametrize("name", ["trn1.32xlarge", "trn2.48xlarge"])
    def test_quantised_training_on_trainium_is_error(self, limits_of, train, code, name):
        marks, types, _ = limits_of(train, {"instance_type": name, "nodes": 1})
        assert ("error", code, f"workload.train.{next(iter(train))}") in marks
        assert types == set()

    @pytest.mark.parametrize("train", [{"method": "qlora"}, {"optimizer": "adamw-8bit"}])
    def test_quantised_training_on_open_types_tries_gpus_alone(self, limits_of, train):
        marks, types, _ = limits_of(train, {})
        assert marks == []
        assert "p5.48xlarge" in types
        assert not [name for name in types if name.startswith("trn")]

    def test_lora_plan_considers_trainium(self, limits_of):
        _, types, _ = limits_of({"method": "lora"}, {})
        assert "trn1.32xlarge" in types


class TestPrecision:
    def test_fp8_on_only_type_without_fp8_is_error(self, limits_of):
        marks, types, _ = limits_of({"precision": "fp8"}, {"instance_type": "p4d.24xlarge", "nodes": 2})
        assert ("error", "no-such-precision", "workload.train.precision") in marks
        assert types == set()

    def test_fp8_on_several_types_keeps_types_with_fp8(self, limits_of):
        target = {"instance_type": ["p4d.24xlarge", "p5.48xlarge"], "nodes": 2}
        marks, types, _ = limits_of({"precision": "fp8"}, target)
        assert ("warning", "no-such-precision", "workload.train.precision") in marks
        assert types == {"p5.48xlarge"}

    def test_fp8_on_open_types_tries_only_types_with_fp8(self, limits_of):
        marks, types, _ = limits_of({"precision": "fp8"}, {})
        assert marks == []
        assert "p5.48xlarge" in types
        assert not types & {"p4d.24xlarge", "p4de.24xlarge"}

    def test_bf16_accepted_on_every_type(self, limits_of):
        _, types, _ = limits_of({}, {"instance_type": "p4d.24xlarge", "nodes": 2})
        assert types == {"p4d.24xlarge"}


class TestMeasured:
    def test_throughput_above_chip_peak_refused(self, limits_of):
        target = {"instance_type": "p5.48xlarge", "nodes": 2}
        marks, _, findings = limits_of({"throughput_tokens_per_s": 9e6}, target)
        assert ("error", "throughput-above-peak", "workload.train.throughput_tokens_per_s") in marks
        (text,) = [finding.message for finding in findings]
        # 8 chips x 989 TFLOP/s over 6 x 8.03 billion and 12 x 32 x 4096 x 4096 of attention.
        peak = 8 * 989e12 / (6 * 8.03026e9 + 12 * 32 * 4096 * 4096)
        assert f"{peak:,.0f}" in text

    def test_achievable_throughput_accepted(self, limits_of):
        target = {"instance_type": "p5.48xlarge", "nodes": 2}
        marks, types, _ = limits_of({"throughput_tokens_per_s": 60_000}, target)
        assert marks == []
        assert types == {"p5.48xlarge"}

    def test_fp8_throughput_has_higher_peak(self, limits_of):
        target = {"instance_type": "p5.48xlarge", "nodes": 2}
        marks, _, _ = limits_of({"throughput_tokens_per_s": 180_000, "precision": "fp8"}, target)
        assert marks == []
        marks, _, _ = limits_of({"throughput_tokens_per_s": 180_000, "precision": "bf16"}, target)
        assert [code for _, code, _ in marks] == ["throughput-above-peak"]


class TestBlockCounts:
    def test_node_count_without_capacity_block_size_refused(self, limits_of):
        target = {"instance_type": ["p4d.24xlarge", "trn1.32xlarge"], "nodes": 100}
        marks, _, _ = limits_of({}, target, "capacity-block")
        assert marks == [("error", "block-size", "target.nodes")] * 2

    def test_capacity_block_size_is_warning_with_other_purchase_option(self, limits_of):
        target = {"instance_type": "p4d.24xlarge", "nodes": 100}
        marks, types, _ = limits_of({}, target, ["capacity-block", "on-demand"])
        assert marks == [("warning", "block-size", "target.nodes")]
        assert types == {"p4d.24xlarge"}

    def test_node_range_with_capacity_block_size_accepted(self, limits_of):
        marks, _, _ = limits_of({}, {"instance_type": "p4d.24xlarge", "nodes": {"min": 3, "max": 5}}, "capacity-block")
        assert marks == []


class TestDimensions:
    @pytest.mark.parametrize("extra", [{}, {"active_params_b": 80.0}])
    def test_dimensions_contradicting_params_refused(self, limits_of, extra):
        model = {**DIMENSIONS, "params_b": 80.0, **extra}
        marks, _, _ = limits_of({"model": model}, {"instance_type": "p5.48xlarge", "nodes": 16})
        assert ("error", "dimensions-contradict", "workload.train.model.params_b") in marks

    def test_mixture_params_above_dense_dimensions_accepted(self, limits_of):
        model = {**DIMENSIONS, "params_b": 80.0, "active_params_b": 9.0}
        marks, _, _ = limits_of({"model": model}, {"instance_type": "p5.48xlarge", "nodes": 16})
        assert marks == []

    def test_all_limit_problems_are_reported_at_once(self, limits_of):
        model = {**DIMENSIONS, "params_b": 80.0}
        train = {"model": model, "precision": "fp8", "throughput_tokens_per_s": 9e9}
        marks, _, _ = limits_of(train, {"instance_type": "p4d.24xlarge", "nodes": 100}, "capacity-block")
        assert {code for _, code, _ in marks} == {
            "dimensions-contradict",
            "no-such-precision",
            "throughput-above-peak",
            "block-size",
        }


def test_unavailable_type_refused_with_reason(limits_of):
    marks, _, findings = limits_of({}, {"instance_type": "trn3.48xlarge", "nodes": 1})
    assert marks == [("error", "unavailable-type", "target.instance_type")]
    assert "no public type or price" in findings[0].message


@pytest.mark.parametrize("name,gb_per_s", [("g5.xlarge", 0.3125), ("trn1.2xlarge", 0.390625), ("p5.48xlarge", 1.0)])
def test_small_types_download_at_baseline_bandwidth(name, gb_per_s):
    assert store_gb_per_s(load().instance_types[name]) == pytest.approx(gb_per_s)
    assert store_gb_per_s(None) == 1.0


@pytest.mark.parametrize("nodes, gb_per_s", [(1, 1.0), (64, 1.0), (128, 0.7209), (512, 0.1802)])
def test_many_nodes_share_read_limit_of_s3_prefix(nodes, gb_per_s):
    assert read_gb_per_s(load().instance_types["p5.48xlarge"], nodes) == pytest.approx(gb_per_s, rel=1e-3)
    assert nodes * read_gb_per_s(None, nodes) * 1e9 / outside_command.PART_BYTES <= 5_500 or nodes < 93
    assert outside_command.PART_BYTES == PART_BYTES


def test_download_assumption_on_many_nodes_names_s3_limit():
    files = RunSpec(data=(DataSource(uri="s3://b/p", path="/data", gib=1000.0),))
    request = replace(request_of({"slipway": 1, "name": "p"}), run=files)
    facts = load().instance_types["p5.48xlarge"]
    few, many = (outside_command.outside_command_assumptions(request, facts, nodes, 1)[0] for nodes in (8, 256))
    assert "assumption, not measured" in few.source
    assert "S3's 5,500 reads/s" in many.source
    assert float(many.value) == pytest.approx(float(few.value) * 2.774, rel=0.01)
