"""Set-up values that a trainer may report, and how the agent treats invalid ones."""

import json
import string

import pytest

from launcher.agent.metrics import MAX_VERSIONS, PARALLEL, figures_in, setup_in

WHOLE = {"data": 8, "tensor": 4, "pipeline": 1, "context": 1, "expert": 1}


def test_degrees_and_versions_are_no_figures_and_not_invalid():
    line = json.dumps({"step": 1, "parallel": WHOLE, "software": {"torch": "2.9.0+cu130", "neuronx-cc": "2.21"}})
    assert figures_in(line) == ({"step": 1}, True)
    assert setup_in(line) == (WHOLE, {"torch": "2.9.0+cu130", "neuronx-cc": "2.21"})
    assert tuple(WHOLE) == PARALLEL
    assert figures_in('{"parallel": null, "software": null}') == ({}, True)


@pytest.mark.parametrize(
    "parallel, left",
    [
        ({"data": 0}, {}),
        ({"data": -2, "tensor": 4}, {"tensor": 4}),
        ({"data": 2.5}, {}),
        ({"data": "8"}, {}),
        ({"data": True}, {}),
        ({"data": 2**40}, {}),
        ({"data": 8, "sequence": 2}, {"data": 8}),
        ({"data": {"data": 2}}, {}),
        ([8], {}),
        (8, {}),
        ("data", {}),
        (float("nan"), {}),
    ],
)
def test_invalid_degrees_are_left_out_and_counted(parallel, left):
    line = json.dumps({"step": 1, "parallel": parallel})
    assert figures_in(line) == ({"step": 1}, False)
    assert setup_in(line) == (left, {})


@pytest.mark.parametrize(
    "software",
    [
        {"torch": 2.9},
        {"torch": "2.9 nightly"},
        {"torch": "2\n9"},
        {"torch": "\x1b[31m2"},
        {"torch": ""},
        {"torch": "2" * 61},
        {"t" * 41: "2"},
        {"": "2"},
        {"to rch": "2"},
        {"t\u043erch": "2"},
        {"torch": ["2"]},
        ["torch"],
        "torch 2.9",
        7,
    ],
)
def test_invalid_versions_are_left_out_and_counted(software):
    line = json.dumps({"step": 1, "software": software})
    assert figures_in(line) == ({"step": 1}, False)
    assert setup_in(line) == ({}, {})


def test_of_very_many_versions_a_few_are_kept():
    line = json.dumps({"software": {f"{one}{two}": "1" for one in string.ascii_letters for two in string.digits}})
    assert figures_in(line)[1] is False
    assert len(setup_in(line)[1]) == MAX_VERSIONS


@pytest.mark.parametrize("line", ["", "7", "[" * 100_000, '{"parallel": {"data": 8}', b"\xff\xfe", "null"])
def test_line_without_an_object_has_no_setup(line):
    assert setup_in(line) == ({}, {})
