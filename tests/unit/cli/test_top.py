"""`slipway top`: the lines of nvidia-smi, and the screen at 80 and 120 columns."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from launcher.answers.top import document, page
from launcher.model.chip_use import ChipUse, parse_chip_use
from launcher.records.run_state import RunState
from launcher.workflow.run.top import JobNow, NodeNow

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
    assert "loss 2.500 · 1.25 s a step · $80.00 an hour" in text
    assert "98 %" in text
    assert "40.00" in text
    assert lines[-1].strip() == "– chips not known: nvidia-smi: not found"


def test_top_document_has_each_node_once():
    written = document(NOW)
    assert (written["schema"], written["step_s"], written["usd_per_hour"]) == ("slipway.top/1", 1.25, "80")
    assert [node["unknown"] for node in written["nodes"]] == ["", "nvidia-smi: not found"]


def test_top_of_job_without_nodes_has_sentence():
    assert page(replace(NOW, nodes=()), 80)[-1] == "  no node runs it now"
