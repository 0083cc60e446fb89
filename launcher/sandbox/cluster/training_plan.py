"""A SageMaker training plan in the sandbox: already purchased, under the name that a plan file gives it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

TARGET = "hyperpod-cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """Instances of one SageMaker type for a period; None for facts that the plan file does not contain.

    A training plan serves one kind of resource, `target`.
    """

    arn: str
    instance_type: str
    count: int
    zone_id: str | None
    starts_at: datetime | None
    ends_at: datetime | None
    fee_usd: str | None
    target: str = TARGET

    @property
    def name(self) -> str:
        """The name of the plan, the last part of its ARN."""
        return self.arn.rpartition("/")[2]

    @property
    def region(self) -> str:
        """The region of the plan, the fourth part of its ARN."""
        return self.arn.split(":")[3]

    def status(self, now: datetime) -> str:
        """The state of the plan at a moment, in the words of DescribeTrainingPlan."""
        if self.ends_at is not None and self.ends_at <= now:
            return "Expired"
        return "Scheduled" if self.starts_at is not None and now < self.starts_at else "Active"

    def document(self) -> dict[str, Any]:
        """The plan as JSON values."""
        times = {"starts_at": self.starts_at, "ends_at": self.ends_at}
        return {
            "arn": self.arn,
            "instance_type": self.instance_type,
            "count": self.count,
            "zone_id": self.zone_id,
            "fee_usd": self.fee_usd,
            "target": self.target,
            **{name: None if moment is None else moment.isoformat() for name, moment in times.items()},
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The plan from its JSON values."""
        times = {name: document[name] for name in ("starts_at", "ends_at")}
        moments = {name: None if text is None else datetime.fromisoformat(text) for name, text in times.items()}
        return cls(**{**document, **moments})
