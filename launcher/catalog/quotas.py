"""Service quotas by their use: their names and codes from the shipped file."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType

from launcher.catalog.store import Store
from launcher.catalog.tables import read_cells
from launcher.model.enums import Basis, PurchaseOption
from launcher.model.record import record

ANY_TYPE = "ml.*"
"""Placeholder in a quota's name, if each of SageMaker's instance types has its own quota."""


@record
class QuotaName:
    """One quota of Service Quotas."""

    # Patterns of the EC2 type families that it counts.
    families: tuple[str, ...]
    service: str
    # The name is authoritative, and `code` a hint: public lists of codes contradict each other. Either may be empty.
    name: str
    code: str
    # Empty if no source states it.
    unit: str
    # The value in an account that has not asked for more, None if no source gives one.
    default: int | None
    confirmed: bool
    source: str
    note: str

    def of(self, ml_type: str) -> str:
        """The quota's name for one of SageMaker's types, such as ml.p5.48xlarge."""
        return self.name.replace(ANY_TYPE, ml_type)


def quota_of(quotas: Mapping[str, QuotaName], family: str, option: PurchaseOption) -> str | None:
    """The key of the EC2 quota for a family under a purchase option; None if no source names the quota.

    Whether Capacity Blocks and reservations also use the on-demand quota is unknown: they are not counted there.

    >>> found = load_quotas()
    >>> quota_of(found, "p5en", PurchaseOption.SPOT), quota_of(found, "trn2", PurchaseOption.ON_DEMAND)
    ('spot/p5', 'on-demand/trn')
    >>> quota_of(found, "m6i", PurchaseOption.SAVINGS_PLAN), quota_of(found, "p6-b200", PurchaseOption.SPOT)
    ('on-demand/standard', None)
    """
    apart = (PurchaseOption.SPOT, PurchaseOption.CAPACITY_BLOCK)
    kind = option.value if option in apart else PurchaseOption.ON_DEMAND.value
    for key, quota in quotas.items():
        if key.startswith(f"{kind}/") and any(fnmatchcase(family, pattern) for pattern in quota.families):
            return key
    return None


@cache
def load_quotas() -> Mapping[str, QuotaName]:
    """Quotas by key: purchase option and family, such as "spot/p5", or the service and the counted resource."""
    store = Store()
    return MappingProxyType(
        {
            cells["key"]: QuotaName(
                families=tuple(cells["families"].split("|")) if cells["families"] else (),
                service=cells["service"],
                name=cells["name"],
                code=cells["code"],
                unit=cells["unit"],
                default=int(cells["default"]) if cells["default"] else None,
                confirmed=cells["basis"] not in (Basis.UNVERIFIED.value, Basis.MEMORY.value),
                source=store.source_title(cells["source"]),
                note=cells["note"],
            )
            for cells in read_cells("quotas.csv")
        }
    )
