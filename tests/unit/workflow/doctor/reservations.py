"""Plans whose capacity is reserved."""

from datetime import UTC, datetime

BLOCK = (
    "slipway: 1\nname: block\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
    "target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 2, region: us-east-2, az_id: use2-az1}\n"
    "purchase: {option: capacity-block, reservation: {id: cr-0123456789abcdef0}}\n"
)
HELD = {
    "CapacityReservationId": "cr-0123456789abcdef0",
    "AvailabilityZoneId": "use2-az1",
    "InstanceType": "p5.48xlarge",
    "TotalInstanceCount": 2,
    "AvailableInstanceCount": 2,
    "State": "active",
    "StartDate": datetime(2026, 11, 22, 11, 30, tzinfo=UTC),
    "EndDate": datetime(2026, 11, 24, 11, 30, tzinfo=UTC),
    "ReservationType": "capacity-block",
}
HYPERPOD = (
    "slipway: 1\nname: pod\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
    "target: {kind: hyperpod-slurm, instance_type: p5.48xlarge, nodes: 4, region: us-east-2}\n"
    "purchase: {option: on-demand}\n"
)
