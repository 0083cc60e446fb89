"""A row's standing in a plan is what the gate says of its quote, and whether a quota may stop its job."""

import pytest

from launcher.pricing.standing import Standing

TYPES = ["g5.2xlarge", "g6.12xlarge", "g6e.xlarge", "p5.48xlarge", "trn1.32xlarge"]
RUN = {"command": ["true"], "retries": 3}
TRAIN = {"train": {"hours": None, "method": "lora", "tokens_b": 0.2}}


@pytest.mark.parametrize("path", ["/data", "/scratch/data", "/fsx/data"])
@pytest.mark.parametrize("gib", [10, 500, 900, 6_000, 40_000])
@pytest.mark.parametrize("kind", ["ec2", "sagemaker-training", "eks", "parallelcluster", "pcs"])
def test_a_row_that_can_be_launched_has_a_quote_that_its_gate_allows(priced, kind, gib, path):
    data = [{"uri": "s3://team/data", "path": path, "gib": gib}]
    place = {"kind": kind, "instance_type": TYPES, "nodes": 1, "region": "us-east-1"}
    plan = priced({"workload": TRAIN, "target": place, "run": {**RUN, "data": data}})
    assert plan.candidates
    for rank, candidate in enumerate(plan.candidates, 1):
        quote = plan.quote(rank)
        allowed = quote.gate.exit_code == 0
        codes = [finding.code for finding in quote.findings]
        standing = plan.standing(rank)
        assert (standing in (Standing.ALLOWED, Standing.STOPPED)) == allowed, (candidate.place, quote.gate)
        assert (standing is Standing.STOPPED) == (allowed and "run-time-quota" in codes)
        assert codes.count("disk-too-small") <= 1


def test_data_too_large_for_the_cheapest_type_leave_a_larger_type_first(priced):
    data = [{"uri": "s3://team/data", "path": "/data", "gib": 900}]
    place = {"kind": "eks", "instance_type": ["g6e.xlarge", "p5.48xlarge"], "nodes": 1, "region": "us-east-1"}
    plan = priced({"workload": TRAIN, "target": place, "run": {**RUN, "data": data}})
    first, second = plan.candidates[:2]
    assert (first.place.instance_type, second.place.instance_type) == ("p5.48xlarge", "g6e.xlarge")
    assert second.usd < first.usd
