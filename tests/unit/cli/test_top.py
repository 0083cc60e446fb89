"""`slipway top`: the lines of nvidia-smi, and the screen at 80 and 120 columns."""

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from launcher.answers.html.nodes import nodes_plot
from launcher.answers.top import document, page
from launcher.model.chip_use import QUERY, WITHOUT, ChipUse, parse_chip_use
from launcher.model.errors import UnreadableInputError
from launcher.records import run_folder
from launcher.records.node_look import NodeNow, keep_look, kept_look
from launcher.records.run_state import RunState
from launcher.workflow.run.top import JobNow

LINE = "98, 71680, 81920, 612.5"


def test_utilization_of_eight_cards_is_averaged_with_lowest():
    use = parse_chip_use("\n".join([LINE] * 7 + ["20, 71680, 81920, 300.0"]) + "\n")
    assert use == ChipUse(
        chips=8, utilization=88.25, lowest=20.0, memory_gib=560.0, memory_total_gib=640.0, power_w=4587.5
    )


@pytest.mark.parametrize(
    "line, missing",
    [
        ("98, 71680, 81920, [N/A]", "power_w"),
        ("[Not Supported], 71680, 81920, 300", "utilization"),
        ("98, [N/A], 81920, 300", "memory_gib"),
    ],
)
def test_unreported_card_value_is_unknown(line, missing):
    assert getattr(parse_chip_use(f"{line}\n"), missing) is None


@pytest.mark.parametrize("printed", ["", "No devices were found\n", "Unable to determine the device handle: 1, 2\n"])
def test_nvidia_smi_output_without_card_gives_no_use(printed):
    assert parse_chip_use(printed) is None


STATE = RunState(
    name="tiny", run="r", status="running", submission=None, facts=None, report=None, attempts=(), step=40, loss=2.5
)
NODES = (
    NodeNow(name="p5-48xlarge-dy-nodes-1", chips=parse_chip_use(f"{LINE}\n" * 8), unknown=""),
    NodeNow(name="p5-48xlarge-dy-nodes-2", chips=None, unknown="nvidia-smi: not found"),
)
NOW = JobNow(
    state=STATE, as_of=datetime(2026, 11, 28, 12, tzinfo=UTC), nodes=NODES, step_s=1.25, usd_per_hour=Decimal(80)
)


@pytest.mark.parametrize("width", [80, 120])
def test_top_screen_fits_width_and_names_unknown_nodes(width):
    lines = page(NOW, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "loss 2.500 · 1.25 s a step · nodes $80.00 an hour" in text
    assert "98 %" in text
    assert "40.00" in text
    assert lines[-1].strip() == "– chips not known: nvidia-smi: not found"


def test_reason_of_many_nodes_without_chips_is_named_once():
    names = [f"n{number}" for number in range(64)]
    alike = tuple(NodeNow(name=name, chips=None, unknown=f"{name} has {WITHOUT}") for name in names)
    lines = page(replace(NOW, nodes=(*alike, NODES[1])), 120)
    assert [line.strip() for line in lines if "chips not known" in line] == [
        f"– chips not known: 64 nodes: {WITHOUT}",
        "– chips not known: nvidia-smi: not found",
    ]


def test_top_of_an_ended_job_shows_no_rate():
    ended = replace(NOW, state=replace(STATE, status="succeeded"), nodes=())
    text = "\n".join(page(ended, 80))
    assert "an hour" not in text
    assert "no node runs it now" in text


def test_top_document_has_each_node_once():
    written = document(NOW)
    assert (written["schema"], written["step_s"], written["usd_per_hour"]) == ("slipway.top/1", 1.25, "80")
    assert [node["unknown"] for node in written["nodes"]] == ["", "nvidia-smi: not found"]


def test_top_of_job_without_nodes_has_sentence():
    assert page(replace(NOW, nodes=()), 80)[-1] == "  no node runs it now"


NEURON = {
    "neuron_runtime_data": [
        {
            "pid": pid,
            "report": {
                "neuroncore_counters": {"neuroncores_in_use": {core: {"neuroncore_utilization": used}}},
                "memory_used": {"neuron_runtime_used_bytes": {"host": 5, "neuron_device": 8 << 30}},
            },
        }
        for pid, core, used in ((1, "0", 80.0), (2, "3", 40.0))
    ],
    "neuron_hardware_info": {
        "neuron_device_type": "trainium2",
        "neuron_device_count": 2,
        "neuron_device_memory_size": 96 << 30,
        "neuroncore_per_device_count": 4,
        "logical_neuroncore_config": 2,
    },
}
"""A report in the form of the neuron-monitor user guide: two processes, each on one of four logical cores."""


def test_neuron_report_counts_unused_cores_as_idle():
    use = parse_chip_use(json.dumps(NEURON) + "\n")
    assert use == ChipUse(chips=2, utilization=30.0, lowest=20.0, memory_gib=16.0, memory_total_gib=192.0, power_w=None)


def test_neuron_node_without_a_process_is_idle_and_not_unknown():
    use = parse_chip_use(json.dumps(NEURON | {"neuron_runtime_data": []}))
    assert (use.chips, use.utilization, use.memory_gib) == (2, 0.0, 0.0)


@pytest.mark.parametrize(
    "change",
    [
        {"neuron_hardware_info": {"error": "no driver"}},
        {"neuron_hardware_info": {**NEURON["neuron_hardware_info"], "neuron_device_count": 10**9}},
        {"neuron_hardware_info": {**NEURON["neuron_hardware_info"], "logical_neuroncore_config": 8}},
        {"neuron_runtime_data": [{"pid": 1, "error": "gone"}]},
        {"neuron_runtime_data": "many"},
    ],
)
def test_neuron_report_without_figures_gives_no_use(change):
    assert parse_chip_use(json.dumps(NEURON | change)) is None


@pytest.mark.parametrize(
    "program, printed, chips",
    [
        ("nvidia-smi", f"{LINE}\n{LINE}", 2),
        ("neuron-monitor", f"{json.dumps(NEURON)}\n{json.dumps(NEURON)}", 2),
    ],
)
def test_query_runs_the_chip_program_of_the_node(tmp_path, program, printed, chips):
    path = tmp_path / program
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
    path.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(QUERY, env=environment, capture_output=True, text=True, check=True)
    assert parse_chip_use(done.stdout).chips == chips


def test_node_without_chips_is_reported_as_such():
    done = subprocess.run(QUERY, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (127, WITHOUT)


def test_last_top_record_is_drawn_in_the_report(tmp_path):
    folder = run_folder.create("tiny", NOW.as_of, tmp_path)
    assert kept_look(folder) is None
    keep_look(folder, document(NOW))
    keep_look(folder, document(replace(NOW, nodes=())))
    drawn = nodes_plot(kept_look(folder)).text()
    assert drawn.count("<rect") == 1
    assert 'data-used="98"' in drawn
    assert "8 chips, 98 % used, the least used 98 %, 560 of 640 GiB, 4,900 W, $40.00 an hour" in drawn
    assert "p5-48xlarge-dy-nodes-2: not known: nvidia-smi: not found" in drawn
    assert "As of 2026-11-28 12:00:00 UTC" in drawn


def test_least_used_of_many_nodes_are_drawn(tmp_path):
    folder = run_folder.create("tiny", NOW.as_of, tmp_path)
    used = [parse_chip_use(f"{number}, 71680, 81920, 300\n") for number in range(1, 65)]
    nodes = tuple(NodeNow(name=f"n{number}", chips=use, unknown="") for number, use in enumerate(used, 1))
    keep_look(folder, document(replace(NOW, nodes=nodes)))
    drawn = nodes_plot(kept_look(folder)).text()
    assert drawn.count("<rect") == 32
    assert 'data-used="32"' in drawn
    assert 'data-used="33"' not in drawn
    assert "the 32 least used of 64 nodes" in drawn


def test_damaged_top_record_is_an_error_with_the_file(tmp_path):
    folder = run_folder.create("tiny", NOW.as_of, tmp_path)
    (folder.path / "top.json").write_text("{}")
    with pytest.raises(UnreadableInputError, match=r"top\.json"):
        kept_look(folder)
