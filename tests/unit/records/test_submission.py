"""A submission is found by its record on every target."""

from datetime import UTC, datetime

import pytest

from launcher.model.document import document
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.records.submission import FILE, read_submission, with_job
from launcher.workflow.run.checkpoints import place_of
from tests.plans import request_of, ten_hours_on_p5
from tests.unit.cli.reports import QUOTE
from tests.unit.records.submissions import API, NODE, submission


@pytest.fixture
def new_run(tmp_path):
    return run_folder.create("x", datetime.now(UTC), tmp_path)


@pytest.mark.parametrize("head_node,scheduler", [(API, "kubernetes"), (NODE, "slurm")])
@pytest.mark.parametrize("cancelled", [True, False])
def test_submission_record_reads_back_unchanged(new_run, head_node, scheduler, cancelled):
    record = submission(head_node, job="j", cancelled=cancelled)
    record.write(new_run)
    assert read_submission(new_run) == record
    assert new_run.read_json(FILE)["scheduler"] == scheduler


def test_submission_of_an_earlier_version_without_target_reads_by_the_head_node(new_run):
    submission(API, job="j").write(new_run)
    document = new_run.read_json(FILE)
    del document["target"]
    new_run.write_json(FILE, document)
    assert read_submission(new_run) == submission(API, job="j")


def test_submission_with_an_unknown_target_is_refused(new_run):
    submission(API).write(new_run)
    new_run.write_json(FILE, {**new_run.read_json(FILE), "target": "mainframe"})
    with pytest.raises(UnreadableInputError, match="not a submission record"):
        read_submission(new_run)


def test_submission_of_an_earlier_version_is_read(new_run):
    submission(NODE, job="7").write(new_run)
    document = new_run.read_json(FILE)
    del document["cancelled"], document["target"], document["head_node"]["role"], document["head_node"]["kind"]
    new_run.write_json(FILE, document)
    assert read_submission(new_run) == submission(NODE, job="7")


@pytest.mark.parametrize("key,value", [("kind", 3), ("role", ["a"])])
def test_damaged_submission_is_refused(new_run, key, value):
    submission(API).write(new_run)
    document = new_run.read_json(FILE)
    document["head_node"][key] = value
    new_run.write_json(FILE, document)
    with pytest.raises(UnreadableInputError, match="not a submission record"):
        read_submission(new_run)


NOW = datetime(2026, 11, 20, 13, 0, 5, tzinfo=UTC)
ENDED = {"status": "failed", "attempts": [], "endpoint": None}


def launch(root, **report):
    """A run of the plan x with a report, and a submission unless it failed without an attempt."""
    run = run_folder.create("x", NOW, root)
    run.write_json("report.json", {**ENDED, **report})
    if report.get("status", "failed") != "failed":
        submission(NODE, job="7").write(run)
    return run


class TestRunSelection:
    """Of two runs, the newer a launch that submitted nothing, a deployment, or a job too."""

    def test_running_job_is_found_before_a_launch_without_a_job(self, tmp_path):
        job, failed = launch(tmp_path, status="running"), launch(tmp_path)
        said = []
        assert with_job("x", tmp_path, said.append, going_on=True).path == job.path
        assert said == [f"launch {failed.path.name} submitted no job (slipway report x); this is run {job.path.name}"]

    @pytest.mark.parametrize("going_on", [True, False])
    def test_ended_job_is_found_before_a_launch_without_a_job_only_for_results(self, tmp_path, going_on):
        job, failed = launch(tmp_path, status="succeeded"), launch(tmp_path)
        said = []
        chosen = with_job("x", tmp_path, said.append, going_on=going_on)
        assert (chosen.path, len(said)) == ((failed.path, 0) if going_on else (job.path, 1))

    @pytest.mark.parametrize("minute, outlasted", [(1, True), (0, False)])
    def test_job_that_ended_after_the_launch_that_was_refused_for_it_is_found(self, tmp_path, minute, outlasted):
        attempts = [{"ended_at": f"2026-11-20T13:{minute:02}:00+00:00"}]
        job = launch(tmp_path, status="cancelled", attempts=attempts)
        refused = launch(tmp_path)
        chosen = with_job("x", tmp_path, lambda _: None, going_on=True)
        assert chosen.path == (job if outlasted else refused).path

    @pytest.mark.parametrize("status, going_on", [("running", True), ("succeeded", False)])
    def test_job_is_found_before_a_later_deployment(self, tmp_path, status, going_on):
        job, deployment = launch(tmp_path, status=status), run_folder.create("x", NOW, tmp_path)
        assert with_job("x", tmp_path, pytest.fail).path == job.path
        assert with_job("x", tmp_path, pytest.fail, going_on=True).path == (job if going_on else deployment).path

    @pytest.mark.parametrize(
        "report", [{"attempts": [{"exit_code": 1}]}, {"endpoint": {"name": "e"}}, {"status": "succeeded"}]
    )
    def test_newest_run_with_a_job_or_an_endpoint_is_chosen(self, tmp_path, report):
        launch(tmp_path, status="running")
        newest = launch(tmp_path, **report)
        assert with_job("x", tmp_path, pytest.fail).path == newest.path

    def test_launch_still_deploying_is_the_chosen_run(self, tmp_path):
        launch(tmp_path, status="running")
        newest = launch(tmp_path)
        with recorded_command(newest, "launch", done="submitted"):
            assert with_job("x", tmp_path, pytest.fail, going_on=True).path == newest.path

    def test_hint_of_a_failed_launch_has_the_name_of_the_plan(self, tmp_path):
        gone = ImpossibleError("the cluster is removed", hint="slipway report NAME shows the run")
        with pytest.raises(ImpossibleError), recorded_command(launch(tmp_path), "launch", done="done"):
            raise gone
        assert gone.hint == "slipway report x shows the run"

    def test_newest_run_is_chosen_without_any_job(self, tmp_path):
        launch(tmp_path)
        newest = launch(tmp_path)
        assert with_job("x", tmp_path, pytest.fail).path == newest.path


class TestCheckpointUri:
    @pytest.fixture
    def rendered(self, new_run):
        new_run.write_json("quote.json", QUOTE)
        new_run.write_json("plan.json", document(request_of(ten_hours_on_p5("ec2", "us-east-2"))))
        new_run.rendered_folder.mkdir()
        new_run.write_json("rendered/job.json", {"checkpoint": {"uri": "s3://slipway-x-checkpoints/jobs/x"}})
        return new_run

    def test_checkpoint_place_is_the_submitted_one(self, rendered):
        submission(NODE, job="7").write(rendered)
        assert place_of(rendered) == ("s3://b/jobs/x", "us-east-2")

    def test_checkpoint_place_before_submission_is_in_the_deployed_store(self, rendered):
        rendered.write_json(
            "outputs.json", {"slipway-x-network": {}, "slipway-x-training": {"StoreUri": "s3://made/jobs"}}
        )
        assert place_of(rendered) == ("s3://made/jobs/x", "us-east-2")

    def test_checkpoint_place_of_the_plan_is_used_unchanged(self, rendered):
        plan = ten_hours_on_p5("ec2", "us-east-2", checkpoint={"uri": "s3://mine/here"})
        rendered.write_json("plan.json", document(request_of(plan)))
        rendered.write_json("rendered/job.json", {"checkpoint": {"uri": "s3://mine/here"}})
        assert place_of(rendered) == ("s3://mine/here", "us-east-2")

    def test_checkpoint_place_without_a_deployed_store_is_refused(self, rendered):
        with pytest.raises(ImpossibleError, match="stored no checkpoints"):
            place_of(rendered)
