"""The serving estimate compared with published measurements, including rows outside the fit."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks import fit_serving, serving_accuracy
from benchmarks.report_sections import replace_section, sections
from benchmarks.serving_rows import RowsError, read_rows
from launcher.catalog.serving import COEFFICIENTS, ROWS

ROW = {
    "model": "Llama-3.1-8B-Instruct",
    "hardware": "inf2.48xlarge",
    "accel": "Inferentia2",
    "engine": "vLLM + optimum-neuron",
    "dtype": "bf16",
    "tp": "8",
    "dp": "1",
    "batch": "32",
    "concurrency": "32",
    "input_len": "1500",
    "output_len": "250",
    "max_seq": "4096",
    "output_tok_s": "440",
    "ttft_ms": "",
    "tpot_ms": "",
    "date": "2026",
    "source": "x",
}


def write(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(ROW))
        table.writeheader()
        table.writerows({**ROW, **row} for row in rows)
    return path


def errors(rows, family, coefficients):
    matching_rows = fit_serving.of_family(rows, family)
    return [abs(fit_serving.estimated(row, coefficients).tokens_per_s / row.tokens_per_s - 1) for row in matching_rows]


def share(values, bound):
    return sum(value <= bound for value in values) / len(values)


@pytest.mark.long
def test_serving_accuracy_targets_hold_on_the_shipped_rows():
    accuracy = serving_accuracy.measure(*read_rows(ROWS))
    assert accuracy["inf2_trn1"]["median_abs_error"] <= 0.12
    assert accuracy["inf2_trn1"]["within_25"] >= 0.80
    assert accuracy["gpu"]["within_35"] >= 0.75
    assert accuracy["inf2_trn1"]["leave_one_model_out"]["within_25"] >= 0.75
    assert accuracy["gpu"]["leave_one_model_out"]["within_35"] >= 0.70
    assert accuracy["gpu_mixture"]["leave_one_model_out"]["within_35"] >= 0.70
    assert accuracy["gpu_mixture"]["n"] >= 46
    assert accuracy["refused"] == len(accuracy["refused_rows"])
    counted = sum(accuracy[family]["n"] for family in ("inf2_trn1", "gpu", "gpu_mixture"))
    assert counted + accuracy["refused"] == len(ROWS.read_text(encoding="utf-8").splitlines()) - 1


@pytest.mark.parametrize("family, bound, least", [("neuron", 0.25, 0.80), ("gpu", 0.35, 0.75), ("mixture", 0.35, 0.75)])
def test_serving_accuracy_holds_on_rows_outside_the_fit(family, bound, least):
    rows = read_rows(ROWS)[0]
    relative_errors = []
    for fitted, unseen in ((rows[::2], rows[1::2]), (rows[1::2], rows[::2])):
        relative_errors += errors(unseen, family, fit_serving.fit(fit_serving.of_family(fitted, family), family))
    assert share(relative_errors, bound) >= least


def test_shipped_serving_coefficients_equal_the_fit():
    shipped = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    again = fit_serving.fit(fit_serving.of_family(read_rows(ROWS)[0], "neuron"), "neuron")
    assert again == pytest.approx(shipped["neuron"], rel=1e-3)


def test_serving_rates_do_not_exceed_the_chip():
    shipped = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    rates = {
        name: value
        for family in ("neuron", "gpu", "mixture")
        for name, value in shipped[family].items()
        if "rate" in name
    }
    assert all(0 < value <= 1 for value in rates.values())
    assert shipped["neuron"]["scheduling"] <= 1


@pytest.mark.parametrize(
    "changes, chip, tensor_parallel",
    [
        ({}, "Inferentia2", 8),
        ({"hardware": "trn1.32xlarge (TP32)", "tp": "32", "accel": "Trainium1"}, "Trainium1", 32),
        ({"hardware": "ml.g5.12xlarge", "accel": "GPU", "engine": "vLLM 0.10", "tp": "4"}, "A10G", 4),
        ({"hardware": "2xA10G (half g5.12xlarge)", "accel": "GPU", "engine": "vLLM", "tp": "2"}, "A10G", 2),
        ({"hardware": "8xA100-80GB", "accel": "GPU", "engine": "vLLM", "tp": "8"}, "A100-80GB", 8),
        ({"hardware": "A100-40GB x1", "accel": "GPU", "engine": "vLLM", "tp": "1"}, "A100-40GB", 1),
        ({"hardware": "H200 SXM 141GB x1", "accel": "GPU", "engine": "TensorRT-LLM 1.0", "tp": "1"}, "H200", 1),
        ({"hardware": "L40S x1", "accel": "GPU", "engine": "TensorRT-LLM 0.6.1", "tp": "1"}, "L40S", 1),
        ({"hardware": "1x L4 24GB", "accel": "GPU", "engine": "vLLM 0.9", "tp": "1", "model": "Qwen2.5-7B"}, "L4", 1),
    ],
)
def test_hardware_of_a_serving_row_is_parsed(tmp_path, changes, chip, tensor_parallel):
    (row,), refused = read_rows(write(tmp_path / "rows.csv", changes))
    assert not refused
    assert (row.chip, row.copy.tensor_parallel) == (chip, tensor_parallel)
    assert fit_serving.estimated(row, fit_serving.FAMILIES["neuron" if row.neuron else "gpu"][0]).tokens_per_s > 0


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"model": "Mixtral-8x7B-Instruct-v0.1"}, "mixture of experts"),
        ({"model": "Qwen9-90B-A9B"}, "no dense size"),
        ({"model": "Something"}, "no dense size"),
        ({"hardware": "trn2.48xlarge (TP64)", "accel": "Trainium2", "tp": "64"}, "no serving estimate on Trainium2"),
        ({"hardware": "MI300X", "accel": "GPU"}, "no accelerator of the catalog"),
        ({"hardware": "8xB200", "accel": "GPU"}, "no published serving row on B200"),
        ({"output_tok_s": ""}, "no output tokens per second"),
    ],
)
def test_unsupported_serving_rows_are_refused_with_the_reason(tmp_path, changes, words):
    rows, (refused,) = read_rows(write(tmp_path / "rows.csv", changes))
    assert rows == []
    assert words in refused.reason


def test_unknown_model_is_estimated_by_size(tmp_path):
    (row,), _ = read_rows(write(tmp_path / "rows.csv", {"model": "NewLab-34B-chat"}))
    assert row.copy.model.params_b == 34


def test_serving_estimate_ignores_id_order_and_source(tmp_path):
    one = {"source": "here", "date": "2024"}
    rows, _ = read_rows(write(tmp_path / "rows.csv", one, {"model": "Llama-2-7b"}, {"source": "there"}))
    facts = fit_serving.FAMILIES["neuron"][0]
    assert fit_serving.estimated(rows[0], facts) == fit_serving.estimated(rows[2], facts)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "model,hardware,engine,dtype,tp,output_tok_s\n"])
def test_rows_file_of_another_kind_is_refused(tmp_path, text, capsys):
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    assert serving_accuracy.main([str(path), "--json"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_negative_serving_throughput_is_refused(tmp_path):
    with pytest.raises(RowsError, match="output_tok_s is '-5'"):
        read_rows(write(tmp_path / "rows.csv", {"output_tok_s": "-5"}))


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e400"])
@pytest.mark.parametrize("column", ["output_tok_s", "tp", "dp", "batch", "input_len", "output_len", "max_seq"])
def test_invalid_number_is_reported_with_the_column(tmp_path, column, value):
    with pytest.raises(RowsError, match=f"{column} is '{value}'; it must be"):
        read_rows(write(tmp_path / "rows.csv", {column: value}))


@pytest.mark.parametrize("column", ["tp", "dp", "batch"])
def test_fractional_count_is_refused(tmp_path, column):
    with pytest.raises(RowsError, match=f"{column} is '0.5'; it must be a whole number of 1 or more"):
        read_rows(write(tmp_path / "rows.csv", {column: "0.5"}))


def test_latency_of_nan_is_read_as_unpublished(tmp_path):
    ((row,), _) = read_rows(write(tmp_path / "rows.csv", {"ttft_ms": "nan"}))
    assert row.ttft_ms is None


def test_empty_cells_of_a_serving_row_are_filled_in(tmp_path):
    bare = {"hardware": "4xH100-80GB", "accel": "GPU", "engine": "SGLang 0.4", "tp": "", "batch": "", "max_seq": ""}
    rows, _ = read_rows(write(tmp_path / "rows.csv", bare, {"batch": "", "concurrency": "8"}))
    assert (rows[0].copy.tensor_parallel, rows[0].live) == (4, 32)
    assert (rows[1].copy.batch, rows[1].live) == (8, 8)


@pytest.mark.parametrize("concurrency, copies", [("1", 1), ("3", 3), ("4", 4), ("", 4)])
def test_copies_that_no_request_reaches_do_not_count(tmp_path, concurrency, copies):
    ((row,), _) = read_rows(write(tmp_path / "rows.csv", {"dp": "4", "concurrency": concurrency}))
    assert row.copies == copies


@pytest.mark.parametrize("concurrency, tokens_per_s", [("1", "36.1"), ("128", "1606.9")])
def test_estimate_of_four_copies_holds_for_one_request_and_for_many(tmp_path, concurrency, tokens_per_s):
    """optimum-neuron, vllm-results-dp4.csv of 2025-09-22: one request at a time, and 128, over four copies on trn1."""
    measured = {"hardware": "trn1.32xlarge", "accel": "Trainium1", "dp": "4", "concurrency": concurrency}
    ((row,), _) = read_rows(write(tmp_path / "rows.csv", {**measured, "output_tok_s": tokens_per_s}))
    rates, _ = fit_serving.FAMILIES["neuron"]
    assert fit_serving.estimated(row, rates).tokens_per_s == pytest.approx(float(tokens_per_s), rel=0.25)


def test_json_option_writes_no_section_and_the_report_has_a_serving_section(tmp_path, monkeypatch, capsys):
    report = tmp_path / "accuracy.md"
    replace_section(report, "training", "# Training\n\nkept")
    monkeypatch.setattr(serving_accuracy, "REPORT", report)
    path = write(tmp_path / "rows.csv", {})
    assert serving_accuracy.main([str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inf2_trn1"]["n"] == 1
    assert "serving" not in sections(report.read_text(encoding="utf-8"))
    assert serving_accuracy.main([str(path)]) == 0
    report_sections = sections(report.read_text(encoding="utf-8"))
    assert report_sections["training"] == "# Training\n\nkept"
    assert report_sections["serving"].startswith("# Accuracy of the serving estimate")
    replace_section(report, "training", "# Training\n\nnew")
    assert sections(report.read_text(encoding="utf-8"))["serving"] == report_sections["serving"]
