"""The guard's own state, and attacks of a job on it: metrics, objects, floods; the guard's own code with moto."""

import json
from datetime import datetime, timedelta

import pytest
from moto.s3.models import s3_backends

from tests.infra.guard_account import ACCOUNT, NOW, STATE, client
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.xdist_group("guard")

BUCKET, FOLDER = "slipway-tiny-checkpoints", "jobs/.guard/stack"
KEY = "jobs/.budget/stack/100.json"
LOOK = timedelta(minutes=5)
LIMIT = {
    "STOP_AT_USD": "100",
    "STOP_URI": f"s3://{BUCKET}/{KEY}",
    "STOP_SETTLE_MINUTES": "5",
    "STOP_RESERVE_MINUTES": "15",
    "STOP_ENDING_MINUTES": "5",
    "NODES": "2",
    "OTHER_USD_PER_HOUR": "6",
    "USD_PER_NODE_HOUR": "60",
    "IDLE_MINUTES": "0",
    "FOLDER_URI": f"s3://{BUCKET}/{FOLDER}",
}
"""Two nodes at $60 an hour and $6 beside them: $10.50 a look; the job is told at the seventh, its nodes end at the
eighth."""


@pytest.fixture
def store(aws):
    client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    return client("s3")


@pytest.fixture
def run_checks(aws, store, guard_of):
    """Look every five minutes from a step on; give the last guard."""

    def poll(first, count, **variables):
        for step in range(first, first + count):
            guard = guard_of(now=NOW + step * LOOK, **{**LIMIT, **variables})
            guard.deployed_at = lambda: NOW - LOOK
            guard.watch()
        return guard

    return poll


def forge(name, *values, namespace="Slipway", **dimensions):
    """What a process of a node may write where its role allows every namespace."""
    named = [{"Name": key, "Value": value} for key, value in {"Cluster": "tiny", **dimensions}.items()]
    for step, value in enumerate(values):
        data = {"MetricName": name, "Dimensions": named, "Timestamp": NOW + (step - 3) * LOOK, "Value": value}
        client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[data] * 20)


class TestMetrics:
    @pytest.mark.parametrize("value", [0.0, -1e6])
    def test_forged_zero_metrics_do_not_prevent_budget_stop(self, aws, run_checks, value):
        aws.nodes(2)
        for name in ("DollarsPerLook", "Dollars", "RunningNodes", "NodeHours", "EstimatedSpend"):
            forge(name, *[value] * 12)
        assert run_checks(0, 7).spent == pytest.approx(7 * 10.5)
        run_checks(7, 1)
        assert aws.fleet == "STOP_REQUESTED"

    @pytest.mark.parametrize("name", ["DollarsPerLook", "Dollars", "RunningNodes"])
    def test_forged_high_metrics_stop_no_other_cluster(self, aws, run_checks, name):
        aws.nodes(2)
        forge(name, *[1e6] * 12)
        assert run_checks(0, 3).spent == pytest.approx(3 * 10.5)
        assert (aws.fleet, aws.messages) == ("RUNNING", [])

    def test_forged_notification_mark_silences_no_failure(self, aws, run_checks):
        forge("FailedCalls", *[1] * 12, Call="UpdateItem: AccessDenied")
        forge("FailedCalls", *[1] * 12, Call="calculate its cost: ValueError")
        aws.nodes(2)
        with pytest.raises(Exception, match="NoSuchBucket"):
            run_checks(0, 1, FOLDER_URI="s3://not-there/x", IDLE_MINUTES="60")
        assert "slipway tiny: the guard could not act" in dict(aws.messages)

    @pytest.mark.parametrize("namespace", ["Slipway", "Slipway/Nodes/other"])
    def test_forged_job_metric_does_not_keep_idle_nodes(self, aws, store, guard_of, namespace):
        aws.nodes(2)
        forge("JobStillMinutes", *[0] * 12, namespace=namespace)
        guard = guard_of(HUNG_MINUTES="30", FOLDER_URI=LIMIT["FOLDER_URI"])
        guard.all_idle = bool
        guard.watch()
        assert aws.fleet == "STOP_REQUESTED"


class TestObjects:
    @pytest.mark.parametrize("at", ["2099-01-01T00:00:00+00:00", "never", ""])
    def test_forged_future_stop_object_does_not_keep_nodes(self, aws, store, run_checks, at):
        """Policies deny nodes this folder (infra/parts/node_policy.py); S3's own time counts in any case."""
        store.put_object(Bucket=BUCKET, Key=KEY, Body=json.dumps({"at": at}))
        aws.nodes(2)
        later = datetime.fromisoformat("2026-12-01T00:00:00+00:00") - NOW
        run_checks(0, 7)
        run_checks(int(later / LOOK), 1)
        assert aws.fleet == "STOP_REQUESTED"

    @pytest.mark.parametrize("place", ["", "running/"])
    def test_flood_of_objects_needs_few_requests_and_stops_in_time(self, aws, store, run_checks, place):
        body = json.dumps({"job": "x", "still_s": 0, "over": True}).encode()
        for number in range(2500):
            s3_backends[ACCOUNT]["aws"].put_object(BUCKET, f"{FOLDER}/messages/{place}{number:05}.json", body)
        aws.nodes(2)
        spent = json.dumps({"spent_usd": 6 * 10.5})
        client("ssm").put_parameter(Name=STATE, Value=spent, Type="String", Overwrite=True)
        requests = []
        store.meta.events.register("before-call.s3", lambda model, **_: requests.append(model.name))
        run_checks(0, 2, IDLE_MINUTES="60", HUNG_MINUTES="30")
        assert len(requests) < 2 * 250
        assert aws.fleet == "STOP_REQUESTED"

    def test_heartbeats_above_read_limit_count_as_work(self, store):
        with guard_module("job_messages") as job_messages:
            for number in range(job_messages.MOST_BEATS + 1):
                body = json.dumps({"job": "x", "still_s": 9999, "over": False}).encode()
                s3_backends[ACCOUNT]["aws"].put_object(BUCKET, f"{FOLDER}/messages/running/{number:05}.json", body)
            beats = job_messages.Folder(store, f"s3://{BUCKET}/{FOLDER}").beats(datetime.now(NOW.tzinfo), 60.0)
        assert (beats[0].still_s, beats[-1]) == (9999, job_messages.AT_WORK)

    def test_heartbeats_of_previous_day_are_removed(self, aws, store, run_checks):
        store.put_object(Bucket=BUCKET, Key=f"{FOLDER}/messages/running/old.json", Body="{}")
        aws.nodes(1)
        later = datetime.fromisoformat("2027-01-01T00:00:00+00:00") - NOW
        run_checks(int(later / LOOK), 1, STOP_AT_USD="100000")
        assert store.list_objects_v2(Bucket=BUCKET, Prefix=f"{FOLDER}/messages/").get("Contents", []) == []


class TestTimeLimit:
    def test_check_without_time_left_counts_spending_and_skips_node_messages(self, aws, module, store, guard_of):
        class Context:
            def get_remaining_time_in_millis(self):
                return 1000.0 * (module.MARGIN_S - 1)

        store.put_object(Bucket=BUCKET, Key=f"{FOLDER}/messages/1.json", Body="x")
        store.put_object(Bucket=BUCKET, Key=f"{FOLDER}/messages/running/1.json", Body="x")
        aws.nodes(2)
        guard = guard_of(**LIMIT)
        module.respond(guard, {}, Context())
        assert (aws.metric("RunningNodes"), guard.spent, aws.messages) == ([2], 10.5, [])

    def test_check_killed_during_messages_has_stored_spending(self, aws, run_checks, guard_of):
        aws.nodes(2)

        class Killed(BaseException):
            pass

        def die(_):
            raise Killed

        guard = guard_of(**LIMIT)
        guard.client = lambda name: client(name) if name != "s3" else die(name)
        with pytest.raises(Killed):
            guard.watch()
        assert json.loads(client("ssm").get_parameter(Name=STATE)["Parameter"]["Value"])["spent_usd"] == 10.5
        assert aws.metric("RunningNodes") == [2]


class TestState:
    def test_template_value_written_again_does_not_reset_spending(self, aws, run_checks):
        from infra.parts.guard_function import EMPTY_STATE

        aws.nodes(2)
        run_checks(0, 4)
        client("ssm").put_parameter(Name=STATE, Value=EMPTY_STATE, Type="String", Overwrite=True)
        assert run_checks(4, 1).spent == pytest.approx(5 * 10.5)

    @pytest.mark.parametrize(
        "value", ["x", "[]", "null", '{"spent_usd": "much"}', '{"since": "2026-11-20"}', '{"sent": []}']
    )
    def test_invalid_state_parameter_reported_and_kept(self, aws, store, guard_of, value):
        client("ssm").put_parameter(Name=STATE, Value=value, Type="String", Overwrite=True)
        with pytest.raises(Exception, match="does not contain the guard's state"):
            guard_of(now=NOW.replace(minute=2), **LIMIT).watch()
        assert client("ssm").get_parameter(Name=STATE)["Parameter"]["Value"] == value
        assert "could not read its state" in dict(aws.messages)["slipway tiny: the guard could not act"]

    def test_checks_of_an_earlier_version_are_counted_once(self, aws, store, guard_of):
        aws.nodes(1)
        minute = int(NOW.timestamp()) // 60
        client("ssm").put_parameter(Name=STATE, Value=json.dumps({"looks": [minute]}), Type="String", Overwrite=True)
        guard = guard_of(now=NOW, **LIMIT)
        guard.watch()
        assert guard.spent == 0

    def test_event_two_hours_late_is_not_counted_twice(self, module, aws, run_checks, guard_of):
        aws.nodes(1)
        run_checks(0, 40, STOP_AT_USD="100000")
        late = guard_of(now=NOW + 41 * LOOK, **{**LIMIT, "STOP_AT_USD": "100000"})
        before = run_checks(40, 1, STOP_AT_USD="100000").spent
        module.respond(late, {"time": (NOW + 3 * LOOK).isoformat()})
        assert late.spent == before

    @pytest.mark.usefixtures("store")
    @pytest.mark.parametrize("age_h, updated, messages", [(48, True, 1), (48, False, 0), (0.5, True, 0)])
    def test_cluster_older_than_state_notified_once(self, aws, guard_of, age_h, updated, messages):
        aws.nodes(1)
        created = NOW - timedelta(hours=age_h)
        for step in range(2):
            guard = guard_of(now=NOW + step * LOOK, **LIMIT)
            guard.deployed_at = lambda: NOW - timedelta(minutes=5) if updated else created
            guard.made_at = lambda: created
            guard.watch()
        found = [
            text for subject, text in aws.messages if subject == "slipway tiny: the spending limit counts from now"
        ]
        assert len(found) == messages
        assert all("slipway cost tiny" in text and f"{created:%Y-%m-%d %H:%M} UTC" in text for text in found)

    def test_largest_state_fits_ssm_parameter(self):
        with guard_module("state") as module:
            moments = dict.fromkeys(("since", "ran_until", "boots_until"), NOW)
            state = module.State(spent_usd=1 / 3 * 1e6, node_hours=1 / 3 * 1e5, **moments)
            for number in range(300):
                state.count(NOW + number * LOOK, usd=1 / 3, nodes=3, hours=1 / 12, began=NOW)
                assert state.first(f"call {number}", NOW + number * LOOK, timedelta(days=1))
            assert not state.first("call 299", NOW + 300 * LOOK, timedelta(days=1))
            written = []
            put = lambda _, **call: (written.append(call["Value"]), {"Version": 2})[1]  # noqa: E731 - of a class
            state.write(type("Ssm", (), {"put_parameter": put})(), "x")
            assert len(written[0]) < 4096
