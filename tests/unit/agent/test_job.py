import json

import pytest

from launcher.agent.errors import JobSpecError
from launcher.agent.job import CheckpointSpec, JobSpec, expand, load, parse
from launcher.agent.session import Session


def job(**changes):
    values = {
        "run": "20261120T120000Z-tiny",
        "name": "tiny-gpt",
        "command": ("python", "train.py", "--note", 'a "b" $c'),
        "workdir": "${SLURM_SUBMIT_DIR}/work",
        "env": {"LANG": "C.UTF-8"},
        "checkpoint": CheckpointSpec(uri="s3://bucket/tiny-gpt/run", interval_s=12.5, keep=2, max_mb_s=40.0),
        "scratch": "/scratch",
        "events": "/shared/events.jsonl",
        "metrics": "/shared/metrics.jsonl",
        "drain": True,
    }
    return JobSpec(**values | changes)


def document(**changes):
    return json.dumps(json.loads(job().to_json()) | changes)


def problems(text):
    with pytest.raises(JobSpecError) as caught:
        parse(text)
    return caught.value.problems


class TestRoundTrip:
    def test_job_written_as_json_is_parsed_equal(self):
        assert parse(job().to_json()) == job()

    def test_missing_and_null_keys_have_the_defaults(self):
        short = {name: value for name, value in json.loads(job().to_json()).items() if name not in {"env", "imds"}}
        short["checkpoint"] = {"uri": "s3://bucket/x", "max_mb_s": None}
        read = parse(json.dumps(short))
        assert (read.env, read.imds, read.checkpoint) == ({}, True, CheckpointSpec(uri="s3://bucket/x"))

    def test_the_text_depends_on_the_job_alone(self):
        assert job().to_json() == job().to_json()
        assert job().to_json().endswith("}\n")

    def test_round_trip_is_read_from_a_file(self, tmp_path):
        path = tmp_path / "job.json"
        path.write_text(job().to_json(), encoding="utf-8")
        assert load(path) == job()

    def test_job_without_checkpoints_needs_no_uri(self):
        assert parse(job(checkpoint=CheckpointSpec(uri=None, mode="none")).to_json()).checkpoint.uri is None


class TestOptions:
    """Keys that came later: a job without them is what it was."""

    def test_optional_keys_are_written_only_if_used(self):
        assert {"ends_at", "leave_before_s", "hung_minutes"} & set(json.loads(job().to_json())) == set()
        assert {"mtbf_s", "timeout_s"} & set(json.loads(job().to_json())["checkpoint"]) == set()
        used = job(
            ends_at="2026-11-21T11:30:00Z",
            leave_before_s=4500.0,
            hung_minutes=30.0,
            checkpoint=CheckpointSpec(uri="s3://bucket/x", mode="dcp", mtbf_s=86400.0, timeout_s=5.0),
        )
        assert parse(used.to_json()) == used

    @pytest.mark.parametrize(
        "ends_at,leaves_at",
        [
            ("2026-11-21T11:30:00Z", "2026-11-21T10:45:00+00:00"),
            ("2026-11-21T12:30:00.5+01:00", "2026-11-21T10:45:00.500000+00:00"),
        ],
    )
    def test_the_last_checkpoint_is_three_quarters_of_an_hour_before_the_end(self, ends_at, leaves_at):
        assert job(ends_at=ends_at).leaves_at().isoformat() == leaves_at
        assert job().leaves_at() is None

    @pytest.mark.parametrize(
        "change",
        [
            {"ends_at": "tomorrow"},
            {"ends_at": "2026-11-21T11:30:00"},
            {"leave_before_s": -1},
            {"hung_minutes": 0},
        ],
        ids=str,
    )
    def test_invalid_values_are_reported_with_the_key(self, change):
        (problem,) = problems(document(**change))
        assert problem.startswith(f"{next(iter(change))}: got")

    @pytest.mark.parametrize("mode", ["agent", "dcp"])
    def test_storing_mode_without_a_uri_is_refused(self, mode):
        (problem,) = problems(document(checkpoint={"mode": mode}))
        assert problem == f"checkpoint.uri: missing; mode '{mode}' needs s3://bucket/prefix"


class TestRefusal:
    @pytest.mark.parametrize(
        "change,problem",
        [
            ({"schema": "slipway.job/9"}, "schema: got 'slipway.job/9'; this agent reads 'slipway.job/1'"),
            ({"command": "python train.py"}, "job.json: command must be list, got str"),
            ({"drain": "yes"}, "job.json: drain must be bool, got str"),
            ({"ends_at": 17}, "job.json: ends_at must be str, got int"),
            ({"dran": True}, "job.json: dran is unknown; did you mean 'drain'"),
            ({"checkpoint": {"kep": 3}}, "job.json: checkpoint.kep is unknown; did you mean 'keep'"),
            ({"checkpoint": {"keep": "3"}}, "job.json: checkpoint.keep must be int, got str"),
            ({"before": [{"command": ["x"], "onn": "all"}]}, "job.json: before[0].onn is unknown"),
        ],
        ids=str,
    )
    def test_invalid_key_is_refused_with_the_path(self, change, problem):
        assert problems(document(**change))[0].startswith(problem)

    def test_invalid_steps_and_quoted_values_are_reported(self):
        messages = problems(
            document(before=[{"command": [], "on": "some"}], quoted={"euros": 1.0}, plan_uri="s3://bucket/x")
        )
        assert [line.partition(":")[0] for line in messages] == ["quoted.euros", "before[0]"]

    def test_all_invalid_values_are_reported_together(self):
        bad = {"uri": "bucket/x", "mode": "torch", "keep": 0, "grace_seconds": -1, "writers": "all"}
        messages = problems(document(run="a/b", name="Tiny", workdir="work", checkpoint=bad, env={"1A": "x"}))
        assert [line.partition(":")[0] for line in messages] == [
            "run",
            "name",
            "env.1A",
            "workdir",
            "checkpoint.mode",
            "checkpoint.writers",
            "checkpoint.uri",
            "checkpoint.keep",
            "checkpoint.grace_seconds",
        ]

    def test_missing_key_is_named(self):
        assert problems('{"schema": "slipway.job/1"}') == ("job.json: run is missing",)

    @pytest.mark.parametrize("text", ["", "{", "[]", "3", '"x"', "null", '{"run": NaN}', "[" * 10**5])
    def test_invalid_json_is_not_a_job(self, text):
        assert problems(text)

    @pytest.mark.parametrize("value", ["true", '"1"', "[]"])
    def test_other_types_are_not_accepted_as_a_number(self, value):
        text = document().replace('"grace_seconds": 90.0', f'"grace_seconds": {value}')
        assert problems(text)[0].startswith("job.json: checkpoint.grace_seconds must be float")

    def test_a_constructor_judges_as_the_parser_does(self):
        with pytest.raises(JobSpecError, match="command: empty"):
            job(command=())

    def test_missing_job_file_is_refused(self, tmp_path):
        with pytest.raises(JobSpecError, match="cannot be read"):
            load(tmp_path / "none.json")


class TestExpand:
    def test_set_variables_are_expanded(self):
        assert expand("${A}/x/${B_1}", {"A": "/a", "B_1": "b"}) == "/a/x/b"

    def test_unset_variables_are_named_in_the_error(self):
        with pytest.raises(JobSpecError, match=r"needs SLURM_TMPDIR, USER, which is not set"):
            expand("${USER}/${SLURM_TMPDIR}/${HOME}", {"HOME": "/root"})

    def test_other_dollar_forms_are_not_expanded(self):
        assert expand("/a/$B/$(c)", {"B": "x"}) == "/a/$B/$(c)"


def test_session_counts_the_rate_of_its_own_instance_types(tmp_path):
    """What forecasts and slow nodes cost follows the types that EC2 chose, in the order of the ranks."""
    paths = {name: str(tmp_path / name) for name in ("workdir", "scratch", "events", "metrics")}
    typed = {"usd_per_hour": 36.0, "usd_per_hour.g6.xlarge": 18.0, "usd_low": 60.0}
    spec = job(quoted=typed, **paths)
    assert parse(spec.to_json()).quoted == typed
    types = {"SLIPWAY_INSTANCE_TYPES": "g5.xlarge,g6.xlarge"}
    rates = [Session(spec, environment)._spec.quoted["usd_per_hour"] for environment in ({}, types)]
    assert rates == [36.0, 27.0]
