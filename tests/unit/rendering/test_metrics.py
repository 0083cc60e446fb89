"""The metrics reporter of the nodes, with stand-ins for the tools of chips, Slurm and AWS."""

import functools
import json
import runpy
import subprocess
import sys
from types import SimpleNamespace

import pytest

from launcher.rendering.node import metrics_script
from tests.emulators.loopback import QuietHandler, listening

DCGM = """#Entity   GPUTL                       FBUSD                       DBEVOL
ID                                    MB
GPU 0     90                          1000                        0
GPU 1     70                          3000                        2
"""
NEURON = {
    "neuron_runtime_data": [
        {
            "report": {
                "neuroncore_counters": {
                    "neuroncores_in_use": {"0": {"neuroncore_utilization": 40.0}, "1": {"neuroncore_utilization": 80.0}}
                },
                "memory_used": {"neuron_runtime_used_bytes": {"host": 5, "neuron_device": 1024}},
            }
        }
    ],
    "system_data": {"neuron_hw_counters": {"neuron_devices": [{"mem_ecc_uncorrected": 1, "sram_ecc_uncorrected": 2}]}},
    "neuron_hardware_info": {"neuron_device_count": 1, "neuroncore_per_device_count": 4},
}
"""A report in the form of the neuron-monitor user guide: half of the cores in use, one chip."""


class Metadata(QuietHandler):
    """Instance metadata, version 2: nothing without a token."""

    def do_PUT(self):
        self.answer(200, "token")

    def do_GET(self):
        if self.headers.get("X-aws-ec2-metadata-token") != "token":
            self.answer(401, "")
        else:
            self.answer(
                200,
                {"instance-id": "i-1", "placement/region": "us-east-2"}[self.path.removeprefix("/latest/meta-data/")],
            )

    def answer(self, code, text):
        self.reply(code, text.encode())


@pytest.fixture
def metadata_endpoint():
    with listening(Metadata) as address:
        yield address


@pytest.fixture
def report(tmp_path, metadata_endpoint):
    """Run the reporter once beside programs of given texts; its exit code and what the AWS CLI was called with."""
    (tmp_path / "metrics.py").write_text(metrics_script())

    def start(chips, **programs):
        programs["aws"] = f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/sent\n'
        for name, text in programs.items():
            path = tmp_path / name.replace("_", "-")
            path.write_text(text)
            path.chmod(0o755)
        options = ["--chips", chips] if chips else ["--jobs"]
        command = [sys.executable, "-P", "-I", tmp_path / "metrics.py", "--cluster", "tiny", *options, "--once"]
        environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata_endpoint}
        answer = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        sent = (tmp_path / "sent").read_text().splitlines() if (tmp_path / "sent").exists() else []
        return answer, sent

    return start


def script_printing(text, code=0):
    return f"#!/bin/sh\ncat <<'TEXT'\n{text}\nTEXT\nexit {code}\n"


def values(sent):
    return {load["MetricName"]: load["Value"] for load in json.loads(sent[-1])}


WANTED = {"AcceleratorUtilization": 80.0, "AcceleratorMemoryUsed": 4000.0 * 1024 * 1024, "AcceleratorErrors": 2.0}


class TestNvidia:
    def test_chip_metrics_are_reported_under_cluster_and_instance(self, report):
        answer, sent = report("nvidia", dcgmi=script_printing(DCGM))
        assert answer.returncode == 0, answer.stderr
        assert sent[:-1] == [
            *("cloudwatch", "put-metric-data", "--region", "us-east-2"),
            *("--namespace", "Slipway/Nodes/tiny", "--metric-data"),
        ]
        assert values(sent) == WANTED
        (dimensions,) = {json.dumps(load["Dimensions"]) for load in json.loads(sent[-1])}
        assert json.loads(dimensions) == [{"Name": "Cluster", "Value": "tiny"}, {"Name": "InstanceId", "Value": "i-1"}]

    @pytest.mark.parametrize("dcgmi", [script_printing("", code=1), script_printing("GPU 0  N/A  N/A  N/A")])
    def test_nvidia_smi_is_used_without_values_from_dcgm(self, report, dcgmi):
        answer, sent = report("nvidia", dcgmi=dcgmi, nvidia_smi=script_printing("90, 1000, 0\n70, 3000, 2"))
        assert answer.returncode == 0, answer.stderr
        assert values(sent) == WANTED

    def test_metric_field_without_a_value_counts_as_zero(self, report):
        _, sent = report("nvidia", dcgmi=script_printing("GPU 0  50  N/A  N/A"))
        assert values(sent) == {"AcceleratorUtilization": 50.0, "AcceleratorMemoryUsed": 0.0, "AcceleratorErrors": 0.0}


class TestNeuron:
    def test_idle_neuron_cores_are_included_in_the_average(self, report):
        answer, sent = report("neuron", neuron_monitor=script_printing(json.dumps(NEURON)))
        assert answer.returncode == 0, answer.stderr
        assert values(sent) == {"AcceleratorUtilization": 30.0, "AcceleratorMemoryUsed": 1024, "AcceleratorErrors": 3}

    def test_neuron_monitor_configuration_names_counters_and_period(self, report, tmp_path):
        copy = f"#!/bin/sh\ncat \"$2\" >{tmp_path}/asked\ncat <<'TEXT'\n{json.dumps(NEURON)}\nTEXT\n"
        report("neuron", neuron_monitor=copy)
        query = json.loads((tmp_path / "asked").read_text())
        assert query["period"] == "60s"
        assert [metric["type"] for metric in query["system_metrics"]] == ["neuron_hw_counters"]

    def test_ended_neuron_monitor_is_a_failure(self, report):
        answer, sent = report("neuron", neuron_monitor="#!/bin/sh\nexit 0\n")
        assert (answer.returncode, sent) == (1, [])
        assert "neuron-monitor has ended" in answer.stderr


class TestJobs:
    def test_slurm_job_metric_is_reported_under_the_cluster(self, report):
        answer, sent = report(None, squeue=script_printing("17\n18"))
        assert answer.returncode == 0, answer.stderr
        assert values(sent) == {"JobStillMinutes": 0.0}
        assert json.loads(sent[-1])[0]["Dimensions"] == [{"Name": "Cluster", "Value": "tiny"}]

    @pytest.mark.parametrize(
        "squeue, message", [(script_printing(""), ""), (script_printing("", code=1), "Slurm does not report")]
    )
    def test_no_slurm_job_sends_no_metric(self, report, squeue, message):
        answer, sent = report(None, squeue=squeue)
        assert (answer.returncode, sent) == (0, [])
        assert message in answer.stderr

    def test_still_minutes_count_from_the_last_work_and_restart_with_a_new_job(self, tmp_path, monkeypatch):
        """A machine that is still for an hour before a job comes has not stood still for an hour on that job."""
        script, busy = tmp_path / "metrics.py", iter([*[0] * 80, 10**6, *[10**6] * 80])
        script.write_text(metrics_script())
        (tmp_path / "net").mkdir()
        (tmp_path / "net" / "dev").write_text("")
        for name, text in (("squeue", ""), ("aws", f'echo "$@" >>{tmp_path}/sent')):
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        clock = 0.0
        # A job comes after an hour and computes once, 20 minutes later; Slurm is silent from then on.
        jobs = {60: "echo 17", 90: "exit 1"}

        def pass_on(seconds):
            nonlocal clock
            clock += seconds
            minute = round(clock / 60)
            if minute == 120:
                raise KeyboardInterrupt
            (tmp_path / "stat").write_text(f"cpu {next(busy)} 0 0 0 0 0 0 0 0 0\n")
            if minute in jobs:
                (tmp_path / "squeue").write_text(f"#!/bin/sh\n{jobs[minute]}\n")

        (tmp_path / "stat").write_text("cpu 0 0 0 0 0 0 0 0 0 0\n")
        names = runpy.run_path(str(script))["report_jobs"].__globals__
        names["time"] = SimpleNamespace(monotonic=lambda: clock, sleep=pass_on)
        names["Stillness"] = functools.partial(names["Stillness"], proc=tmp_path, adapters=tmp_path / "efa")
        with pytest.raises(KeyboardInterrupt):
            names["report_jobs"]("tiny", "us-east-2", once=False)
        sent = [
            json.loads(line[line.index("[") :])[0]["Value"] for line in (tmp_path / "sent").read_text().splitlines()
        ]
        assert sent == [0, 5, 10, 15, 20, *[4, 9, 14, 19, 24, 29, 34]]
