"""The file of measurements: round trip, older files without a key, and invalid lines."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.model.measurement import MEASUREMENTS
from launcher.records.measurements import (
    add_measurement,
    load_measurements,
    measurement_document,
    parse_measurement,
)
from tests.checks import some
from tests.measured_runs import measurement


def test_every_measurement_key_is_documented():
    text = (Path(__file__).parents[3] / "docs" / "measuring.md").read_text()
    assert [key for key in some(measurement_document(measurement())) if f"`{key}`" not in text] == []


def test_measurement_of_a_version_without_interruptions_is_read(tmp_path):
    since = ("region", "purchase_option", "running_h", "interruptions", "restart_s", "restarts")
    since += ("step_range_s", "compile_s", "memory_gib", "mfu", "parallelism", "software")
    old = {key: value for key, value in measurement_document(measurement()).items() if key not in since}
    (tmp_path / MEASUREMENTS).write_text(json.dumps(old) + "\n")
    assert load_measurements(tmp_path / MEASUREMENTS) == ((measurement(),), ())


def test_measurements_read_back_without_duplicates(tmp_path):
    path = tmp_path / MEASUREMENTS
    for record in (measurement(), measurement(run="other"), measurement()):
        add_measurement(path, record)
    assert load_measurements(path) == ((measurement(), measurement(run="other")), ())


def test_later_fuller_measurement_of_a_run_replaces_the_earlier_in_any_order(tmp_path):
    path, known = tmp_path / MEASUREMENTS, measurement(target="eks", idle_tail_assumed_h=0.375)
    later = replace(known, idle_tail_h=0.4)
    for order in ((known, later), (later, known)):
        path.unlink(missing_ok=True)
        for record in order:
            add_measurement(path, record)
        assert load_measurements(path) == ((later,), ())


def test_damaged_measurement_line_is_named_and_others_are_read(tmp_path):
    path = tmp_path / MEASUREMENTS
    path.write_text('{"schema": "slipway.meas')
    add_measurement(path, measurement())
    measurements, (finding,) = load_measurements(path)
    assert measurements == (measurement(),)
    assert "line 1, is not a measurement" in finding.message


@pytest.mark.parametrize(
    "key, value",
    [
        ("nodes", 0),
        ("precision", "int3"),
        ("tokens_per_s", {"low": 2.0, "mid": 1.0, "high": 3.0}),
        ("params_b", 1.0),
        ("schema", "slipway.measurement/2"),
        ("global_batch_tokens", -1),
        ("interruptions", -1),
        ("running_h", -0.5),
        ("restart_s", "long"),
        ("idle_tail_h", -0.1),
        ("compile_s", -1.0),
        ("step_range_s", {"low": 2.0, "mid": 1.0, "high": 3.0}),
        ("mfu", {"low": 0.5, "mid": 0.4, "high": 0.6}),
        ("mfu", 0.4),
        ("parallelism", {"data": 0}),
        ("parallelism", {"data": "8"}),
        ("parallelism", [8]),
        ("software", {"torch": 2.9}),
        ("software", "torch"),
    ],
)
def test_invalid_measurement_is_refused(key, value):
    with pytest.raises(ValueError, match=r".+"):
        parse_measurement(measurement_document(measurement()) | {key: value})
