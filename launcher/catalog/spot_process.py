"""How spot prices of a type move, fitted to dated rows (`benchmarks/fit_spot.py`).

spot_process.json has the fit. The logarithm of a zone's price as a share of on demand returns to the type's long-run
share: what is left of its distance halves in `half_life_days`, and `scale` is the spread of the logarithm over zones
and months. Two zones of one region agree by `zones_alike`, a correlation.
"""

import math
from collections.abc import Mapping
from functools import lru_cache

from launcher.agent import safe_json
from launcher.catalog.tables import SNAPSHOT
from launcher.model.record import record

SPOT_PROCESS = SNAPSHOT / "spot_process.json"


@record
class SpotProcess:
    """The fit: a half-life in days, a spread in logarithms, a correlation, and long-run shares of on demand.

    `dollars` are the mean prices of types over all regions, for a region where on demand is unknown.
    """

    half_life_days: float
    scale: float
    zones_alike: float
    share: float
    shares: Mapping[str, float]
    dollars: Mapping[str, float]
    fitted_on: str

    def share_of(self, instance_type: str) -> float:
        """The type's long-run spot price as a share of on demand; that of all types where it has no row."""
        return self.shares.get(instance_type, self.share)

    def remaining_share(self, days: float) -> float:
        """The share of a price's distance from the long run that is left after some days, in logarithms."""
        return math.exp(-math.log(2.0) * max(0.0, days) / self.half_life_days)


@lru_cache(maxsize=1)
def load_spot_process() -> SpotProcess:
    """The shipped fit."""
    fit = safe_json.load(SPOT_PROCESS)
    return SpotProcess(
        half_life_days=fit["half_life_days"],
        scale=fit["scale"],
        zones_alike=fit["zones_alike"],
        share=fit["share"],
        shares=fit["shares"],
        dollars=fit["dollars"],
        fitted_on=fit["fitted_on"],
    )
