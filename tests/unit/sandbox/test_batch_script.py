import pytest

from launcher.sandbox.slurm.local_scheduler import batch_options
from launcher.submit.jobs import SchedulerError

SCRIPT = """#!/bin/bash
#SBATCH --job-name=gpt
#SBATCH --partition=p5-48xlarge
#SBATCH --nodes=2 --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%j.out
# a comment
echo started
#SBATCH --nodes=9
"""


class TestOptions:
    def test_batch_options_of_a_rendered_script_are_read(self):
        options = batch_options(SCRIPT, "job.sbatch")
        assert (options.job_name, options.partition, options.nodes, options.tasks_per_node) == (
            "gpt",
            "p5-48xlarge",
            2,
            1,
        )
        assert options.append
        assert options.requeue is True
        assert options.time_limit_s is None

    def test_batch_options_without_directives_have_the_slurm_defaults(self):
        options = batch_options("#!/bin/sh\ntrue\n", "job.sh")
        assert (options.job_name, options.nodes, options.output, options.requeue) == ("job.sh", 1, "slurm-%j.out", None)

    @pytest.mark.parametrize(
        "text, seconds",
        [("30", 1800), ("1:30", 90), ("2:00:00", 7200), ("1-01:30:00", 91800), ("1-0", 86400), ("UNLIMITED", None)],
    )
    def test_batch_time_limits_are_read_in_every_form(self, text, seconds):
        assert batch_options(f"#!/bin/sh\n#SBATCH --time={text}\n", "x").time_limit_s == seconds

    def test_short_batch_options_are_read(self):
        options = batch_options("#!/bin/sh\n#SBATCH -N 3 -J deep -o out.%j -pgpu\n", "x")
        assert (options.nodes, options.job_name, options.output, options.partition) == (3, "deep", "out.%j", "gpu")

    @pytest.mark.parametrize("line", ["--array=1-4", "-Z", "--time=soon"])
    def test_unknown_batch_option_is_refused(self, line):
        with pytest.raises(SchedulerError):
            batch_options(f"#!/bin/sh\n#SBATCH {line}\n", "x")

    @pytest.mark.parametrize(
        "line, message",
        [
            ("--nodes=two", '"two" is not a valid node count'),
            ("--nodes=0 --ntasks=4", '"0" is not a valid node count'),
            ("--ntasks=x", 'Invalid numeric value "x" for --ntasks.'),
            ("--ntasks-per-node=0", 'Invalid numeric value "0" for --ntasks-per-node.'),
            ("--nodes", "option '--nodes' requires an argument"),
            ("-N", "option '-N' requires an argument"),
        ],
    )
    def test_invalid_batch_count_is_refused_with_the_words_of_sbatch(self, line, message):
        with pytest.raises(SchedulerError) as refused:
            batch_options(f"#!/bin/sh\n#SBATCH {line}\n", "x")
        assert message in str(refused.value)
