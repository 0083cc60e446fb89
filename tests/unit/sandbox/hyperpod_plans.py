"""Training plans of an account."""

from datetime import UTC, datetime, timedelta

from launcher.sandbox.cluster.hyperpod_request import ClusterAccount
from launcher.sandbox.cluster.specification import EmulatedSubnet, TypeFacts
from launcher.sandbox.cluster.training_plan import TrainingPlan

REGION = "us-east-2"


class Aws:
    """An AWS with a few things in it."""

    region = REGION

    def instance_type(self, name):
        return {
            "m6i.xlarge": TypeFacts(vcpus=4, memory_mib=16384, gpus=0, efa=False, network_cards=1),
            "p5.48xlarge": TypeFacts(vcpus=192, memory_mib=2097152, gpus=8, efa=True, network_cards=32),
        }.get(name)

    def subnet(self, subnet_id):
        facts = EmulatedSubnet(zone="us-east-2a", gives_public_addresses=False, zone_id="use2-az1")
        return facts if subnet_id == "subnet-1" else None

    def admits_itself(self, group_id):
        return {"sg-efa": True, "sg-plain": False}.get(group_id)

    def has_object(self, bucket, key):
        return (bucket, key) == ("assets", "scripts/on_create.sh")


def purchase(**changes):
    name, now = changes.pop("name", "p5"), datetime.now(UTC)
    known = {
        "arn": f"arn:aws:sagemaker:{REGION}:123456789012:training-plan/{name}",
        "instance_type": "ml.p5.48xlarge",
        "count": 2,
        "zone_id": "use2-az1",
        "starts_at": now - timedelta(days=1),
        "ends_at": now + timedelta(days=1),
        "fee_usd": None,
    }
    return TrainingPlan(**{**known, **changes})


PLANS = (
    purchase(),
    purchase(name="later", starts_at=datetime.now(UTC) + timedelta(hours=1)),
    purchase(name="small", count=1),
    purchase(name="other", instance_type="ml.p5en.48xlarge"),
    purchase(name="elsewhere", zone_id="use2-az3"),
    purchase(name="over", ends_at=datetime.now(UTC) - timedelta(hours=1)),
)


ACCOUNT = ClusterAccount(
    aws=Aws(),
    script="    add_setting RequeueExit 75\n",
    file_systems=frozenset({"fs-1.fsx"}),
    training_plans={plan.arn: plan for plan in PLANS},
)
