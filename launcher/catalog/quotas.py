"""Service quotas by what uses them: their names and codes from the shipped file."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from launcher.catalog.store import Store
from launcher.catalog.tables import read_cells
from launcher.model.enums import Basis

ANY_TYPE = "ml.*"
"""In a quota's name, where there is one for each of SageMaker's instance types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaName:
    """One quota of Service Quotas.

    `name` decides, and `code` is a hint: public lists of codes contradict each other. Either may be empty. `unit` is
    what it counts, empty where no source says it.
    """

    service: str
    name: str
    code: str
    unit: str
    confirmed: bool
    source: str
    note: str

    def of(self, ml_type: str) -> str:
        """Its name for one of SageMaker's types, such as ml.p5.48xlarge."""
        return self.name.replace(ANY_TYPE, ml_type)


def load_quotas() -> Mapping[str, QuotaName]:
    """Quotas by their key: the way of buying and the family, such as "spot/p5", or the service and what it counts."""
    store = Store()
    return MappingProxyType(
        {
            cells["key"]: QuotaName(
                service=cells["service"],
                name=cells["name"],
                code=cells["code"],
                unit=cells["unit"],
                confirmed=cells["basis"] not in (Basis.UNVERIFIED.value, Basis.MEMORY.value),
                source=store.source_title(cells["source"]),
                note=cells["note"],
            )
            for cells in read_cells("quotas.csv")
        }
    )
