"""What a sandbox says of a job that succeeded and proved nothing."""

from dataclasses import replace

import pytest

from launcher.model.errors import DeploymentFailedError
from launcher.model.report import StoredCheckpoints
from launcher.records.run_folder import RunFolder
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.unproven import refuse_unproven_run
from tests.plans import EXAMPLES, NOW
from tests.unit.records.reports import FINISHED, REPORT


@pytest.mark.parametrize("resumed,fix", [(100, "--fresh"), (0, "checkpoint.layout")], ids=["resumed", "from step 0"])
def test_fix_of_uninterrupted_job_names_fresh_only_after_a_resume(tmp_path, resumed, fix):
    quoted = price(EXAMPLES / "tiny-gpt.yaml", NOW, PriceOptions()).quote(1)
    log = LaunchLog(folder=RunFolder(path=tmp_path), quoted=quoted, simulated=True, not_played="the job ended earlier")
    attempt = replace(FINISHED, resumed_from_step=resumed, last_step=None)
    report = replace(REPORT, simulated=True, attempts=(attempt,), stored=StoredCheckpoints(count=0))
    options = LaunchOptions(root=tmp_path, sandbox=True, dry_run=False, notify=lambda _: None, progress=lambda _: None)
    with pytest.raises(DeploymentFailedError, match="the job ended earlier") as raised:
        refuse_unproven_run(log, report, options)
    assert fix in raised.value.hint
