"""A SageMaker training plan as the sandbox has it: bought already, under the name that a plan file gives it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

TARGET = "hyperpod-cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """Instances of one SageMaker type for a period; None for values that the plan file does not give.

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
        """Its name, which ends its ARN."""
        return self.arn.rpartition("/")[2]

    @property
    def region(self) -> str:
        """Its region, the fourth part of its ARN."""
        return self.arn.split(":")[3]

    def status(self, now: datetime) -> str:
        """Its state at a moment, in the words of DescribeTrainingPlan."""
        if self.ends_at is not None and self.ends_at <= now:
            return "Expired"
        return "Scheduled" if self.starts_at is not None and now < self.starts_at else "Active"

    def document(self) -> dict[str, Any]:
        """It as JSON values."""
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
        """The one that a document holds."""
        times = {name: document[name] for name in ("starts_at", "ends_at")}
        moments = {name: None if text is None else datetime.fromisoformat(text) for name, text in times.items()}
        return cls(**{**document, **moments})
