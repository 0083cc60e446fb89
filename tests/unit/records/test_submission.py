"""A submission is found by its record on every target."""

from datetime import UTC, datetime

import pytest

from launcher.model.errors import UnreadableInputError
from launcher.records import run_folder
from launcher.records.submission import FILE, recorded
from tests.unit.records.submissions import API, NODE, submission


@pytest.fixture
def new_run(tmp_path):
    return run_folder.create("x", datetime.now(UTC), tmp_path)


@pytest.mark.parametrize("head_node,scheduler", [(API, "kubernetes"), (NODE, "slurm")])
@pytest.mark.parametrize("cancelled", [True, False])
def test_it_is_read_as_it_was_written(new_run, head_node, scheduler, cancelled):
    record = submission(head_node, job="j", cancelled=cancelled)
    record.write(new_run)
    assert recorded(new_run) == record
    assert new_run.read_json(FILE)["scheduler"] == scheduler


def test_an_earlier_version_that_names_no_target_is_asked_for_as_its_head_node_says(new_run):
    submission(API, job="j").write(new_run)
    document = new_run.read_json(FILE)
    del document["target"]
    new_run.write_json(FILE, document)
    assert recorded(new_run) == submission(API, job="j")


def test_a_target_that_nobody_knows_is_refused(new_run):
    submission(API).write(new_run)
    new_run.write_json(FILE, {**new_run.read_json(FILE), "target": "mainframe"})
    with pytest.raises(UnreadableInputError, match="not a submission record"):
        recorded(new_run)


def test_one_of_an_earlier_version_is_read(new_run):
    submission(NODE, job="7").write(new_run)
    document = new_run.read_json(FILE)
    del document["cancelled"], document["target"], document["head_node"]["role"], document["head_node"]["kind"]
    new_run.write_json(FILE, document)
    assert recorded(new_run) == submission(NODE, job="7")


@pytest.mark.parametrize("key,value", [("kind", 3), ("role", ["a"])])
def test_a_damaged_one_is_refused(new_run, key, value):
    submission(API).write(new_run)
    document = new_run.read_json(FILE)
    document["head_node"][key] = value
    new_run.write_json(FILE, document)
    with pytest.raises(UnreadableInputError, match="not a submission record"):
        recorded(new_run)
