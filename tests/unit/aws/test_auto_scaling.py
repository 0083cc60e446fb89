"""Why EC2 starts no instance, in short."""

import pytest

from launcher.aws.auto_scaling import short_refusal

LACKING = "We currently do not have sufficient g5.xlarge capacity in the Availability Zone you requested (us-east-2a)"
FAILED = "Launching EC2 instance failed."
PROVISIONING = "Our system will be working on provisioning additional capacity"
ELSEWHERE = (
    "You can currently get g5.xlarge capacity by not specifying an Availability Zone in your request or choosing "
    "us-east-2b"
)
QUOTA = "You have requested more vCPU capacity than your current vCPU limit of 0 allows"


@pytest.mark.parametrize(
    "message,reason",
    [
        (
            f"{LACKING}. {PROVISIONING}. {ELSEWHERE}. {FAILED}",
            LACKING,
        ),
        (
            f"Could not launch On-Demand Instances. VcpuLimitExceeded - {QUOTA}. {FAILED}",
            f"VcpuLimitExceeded - {QUOTA}",
        ),
        (FAILED, FAILED),
        ("", ""),
    ],
    ids=["capacity", "quota of a mixed group", "no reason", "empty"],
)
def test_refusal_keeps_only_sentences_with_the_reason(message, reason):
    assert short_refusal(message) == reason
