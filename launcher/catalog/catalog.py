"""Dated prices and static facts, looked up.

A `Catalog` behaves as a value: the same look-up always gives the same answer, and nothing changes it. Its files are
read on first use and kept, which is why a plan with one pinned type costs a few milliseconds.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cached_property
from types import MappingProxyType

from launcher.catalog import facts
from launcher.catalog.bill import EVERYWHERE, price_item
from launcher.catalog.commitments import OfferingClass, Term, reserved_price, savings_plan_price
from launcher.catalog.market import InterruptionBand, SpotRange, band_of, market_of
from launcher.catalog.selection import FOREVER, newest, price_of, unverified
from launcher.catalog.store import RangeRow, Row, Store, Zoned
from launcher.model.enums import Market, Payment, PlanKind, PurchaseOption
from launcher.model.instance_type import Accelerator, InstanceType
from launcher.model.model_spec import ModelSpec
from launcher.model.money import Price, Unpriced

COMPONENTS = ("hosting", "training", "cluster", "studio")
"""What SageMaker bills an `ml.` instance for: an endpoint, a training job, HyperPod, Studio."""

UNSTATED = "unstated"
"""The region of rows whose source names none: shown, never a price."""


class Catalog:
    """What exists, and what it costs. Prices are USD; compute is per instance-hour."""

    def __init__(self, store: Store, *, prices_as_of: date | None = None) -> None:
        """A view of `store` on one day (None: with all its rows); use `launcher.catalog.load.load`."""
        self.store = store
        self.prices_as_of = prices_as_of
        self.until = prices_as_of.isoformat() if prices_as_of else FOREVER
        self._prices: dict[tuple[str, ...], Price | Unpriced] = {}

    def at(self, day: date | None) -> "Catalog":
        """The same data on another day."""
        return Catalog(self.store, prices_as_of=day)

    # ------------------------------------------------------------------------------------------------------- facts

    @cached_property
    def accelerators(self) -> Mapping[str, Accelerator]:
        """Chips by name."""
        return facts.load_accelerators(self.store)

    @cached_property
    def instance_types(self) -> Mapping[str, InstanceType]:
        """Instance types by name; types with `targets` empty are priced as alternatives and never deployed."""
        return facts.load_instance_types(self.store)

    @cached_property
    def unavailable_types(self) -> Mapping[str, facts.UnavailableType]:
        """Names people ask for that cannot be had, with the reason."""
        return facts.load_unavailable_types(self.store)

    def unavailable_type(self, name: str) -> facts.UnavailableType | None:
        """Why a name cannot be had; a family stands for its sizes, as trn3 does for trn3.48xlarge."""
        gone = self.unavailable_types
        return gone.get(name) or gone.get(name.partition(".")[0])

    @cached_property
    def regions(self) -> Mapping[str, facts.Region]:
        """Regions by name."""
        return facts.load_regions()

    @cached_property
    def models(self) -> Mapping[str, ModelSpec]:
        """Models by name."""
        return facts.load_models(self.store)

    @cached_property
    def _model_names(self) -> Mapping[str, ModelSpec]:
        names: dict[str, ModelSpec] = {}
        for spec in self.models.values():
            for name in (spec.name, *spec.aliases):
                names[_plain(name)] = spec
                names.setdefault(_plain(name.rpartition("/")[2]), spec)
        return MappingProxyType(names)

    def find_model(self, name: str) -> ModelSpec | None:
        """A model by name, alias or Hugging Face id, with or without the owner, in any case; None if unknown."""
        return self._model_names.get(_plain(name))

    @cached_property
    def _region_by_zone(self) -> Mapping[str, str]:
        zones = {zone: each.name for each in self.regions.values() for zone in (*each.az_ids, *each.local_zones)}
        return MappingProxyType(zones)

    def region_of_az(self, az_id: str) -> str | None:
        """The region of a zone id; None for an id that the catalog does not know."""
        return self._region_by_zone.get(az_id)

    def first_zone(self, instance_type: str, region: str) -> str | None:
        """The first zone of a region that is known to offer a type; None where no zone is known."""
        known = self.instance_types[instance_type].az_ids
        return next((each for each in known if self.region_of_az(each) == region), None)

    @cached_property
    def _regions_of(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, set[str]] = {}
        for each in self.instance_types.values():
            found[each.name] = {region for zone in each.az_ids if (region := self.region_of_az(zone))}
        for index in (self.store.on_demand, self.store.spot, self.store.capacity_blocks):
            for (name, region), rows in index.items():
                if region in self.regions and any(row.usd for row in rows):
                    found.setdefault(name, set()).add(region)
        return MappingProxyType({name: tuple(sorted(regions)) for name, regions in found.items()})

    def regions_of(self, instance_type: str) -> tuple[str, ...]:
        """Regions that offer a type: a zone does, or a price of it is known there."""
        return self._regions_of.get(instance_type, ())

    def offers(self, instance_type: str, region: str) -> bool:
        """Whether a region is known to offer a type."""
        return region in self.regions_of(instance_type)

    def regions_offering(self, instance_type: str, option: PurchaseOption) -> tuple[str, ...]:
        """Regions where a type can be asked for in one way of buying, priced or not; none if it is not sold that way.

        Capacity Blocks, Reserved Instances and Savings Plans are sold where they have a rate, the others wherever the
        type is offered and its usage classes allow it.
        """
        known = self.instance_types.get(instance_type)
        if known is None:
            return ()
        anywhere = self.regions_of(instance_type)
        found: tuple[str, ...] = ()
        match option:
            case PurchaseOption.ON_DEMAND | PurchaseOption.SPOT:
                found = anywhere if option.value in known.usage_classes else ()
            case PurchaseOption.CAPACITY_BLOCK:
                found = tuple(each for each in anywhere if self._has_block_rate(instance_type, each))
            case PurchaseOption.TRAINING_PLAN:
                found = anywhere if known.training_plans else ()
            case PurchaseOption.RESERVED:
                found = self._committed(instance_type, plans=False)
            case PurchaseOption.SAVINGS_PLAN:
                found = self._committed(instance_type, plans=True)
            case PurchaseOption.BEDROCK:
                pass
        return found

    def _has_block_rate(self, instance_type: str, region: str) -> bool:
        return newest(self.store.capacity_blocks.get((instance_type, region), ()), _usd, self.until) is not None

    def _committed(self, instance_type: str, *, plans: bool) -> tuple[str, ...]:
        return tuple(sorted(self._commitments.get((instance_type, plans), ())))

    @cached_property
    def _commitments(self) -> Mapping[tuple[str, bool], set[str]]:
        found: dict[tuple[str, bool], set[str]] = {}
        for name, region, _class, _years in self.store.reserved:
            found.setdefault((name, False), set()).add(region)
            found.setdefault((name, True), set()).add(region)
        for name, region, _kind, _years in self.store.savings_plans:
            found.setdefault((name, True), set()).add(region)
        return MappingProxyType(found)

    # ------------------------------------------------------------------------------------------------------ prices

    def on_demand(self, instance_type: str, region: str, *, zone: str = "") -> Price | Unpriced:
        """The on-demand price; `zone` names a local zone that is priced apart."""
        return self._zoned("on-demand", self.store.on_demand, instance_type, region, zone)

    def capacity_block(self, instance_type: str, region: str, *, zone: str = "") -> Price | Unpriced:
        """The rate of a Capacity Block, paid in advance for its whole length.

        Without `zone`, a type that is sold in a region's local zones only has their rate, and the note says so.
        """
        return self._zoned("capacity-block", self.store.capacity_blocks, instance_type, region, zone)

    def training_plan(self, instance_type: str, region: str) -> Price | Unpriced:
        """The rate of a SageMaker training plan; the snapshot has none, `prices refresh` reads offerings."""
        if (instance_type, region) not in self.store.training_plans:
            return Unpriced(reason="training plans have no published rate: prices refresh reads the offerings")
        return self._zoned("training-plan", self.store.training_plans, instance_type, region, "")

    def spot(self, instance_type: str, region: str) -> Mapping[str, Price]:
        """Spot prices by zone id, those that are no offers included: see `Price.market`."""
        zones: dict[str, list[Row]] = {}
        for row in self.store.spot.get((instance_type, region), ()):
            zones.setdefault(row.zone, []).append(row)
        against = self.store.on_demand.get((instance_type, region), ())
        prices = {}
        for zone, rows in zones.items():
            latest = newest(rows, _usd, self.until)
            if latest is not None:
                prices[zone] = price_of(latest, latest.usd, self.store, market=market_of(latest.usd, against))
        return prices

    def spot_price(self, instance_type: str, region: str) -> Price | Unpriced:
        """The cheapest spot offer of a region; rows at the floor or equal to on demand are none."""
        prices = self.spot(instance_type, region)
        offers = [price for price in prices.values() if price.market is Market.OPEN]
        if offers:
            return min(offers, key=lambda price: price.usd)
        if prices:
            seen = min(prices.values(), key=lambda price: price.usd)
            reason = "no spot market: every price is on demand's own, or the floor of a tenth of it"
            return Unpriced(reason=reason, seen=seen)
        known = self.instance_types.get(instance_type)
        if known is not None and PurchaseOption.SPOT.value not in known.usage_classes:
            return Unpriced(reason=f"EC2 sells no spot of {instance_type}")
        return Unpriced(reason=self._absence("spot", self.store.spot, instance_type, region))

    def spot_range(self, instance_type: str, region: str) -> SpotRange | None:
        """What spot has cost in a region, without zones: context, not an offer."""
        rows = self.store.spot_ranges.get((instance_type, region), ())
        row = newest(rows, _average, self.until)
        if row is None:
            return None
        low = price_of(row, row.usd_min, self.store) if row.usd_min else None
        high = price_of(row, row.usd_max, self.store) if row.usd_max else None
        return SpotRange(low=low, average=price_of(row, row.usd_avg, self.store), high=high)

    def interruption_band(self, instance_type: str, region: str) -> InterruptionBand | None:
        """The Spot Advisor's newest band; None where it has none."""
        rows = [row for row in self.store.interruptions.get((instance_type, region), ()) if row.as_of <= self.until]
        return band_of(max(rows, key=lambda row: row.as_of), self.store) if rows else None

    def reserved(
        self, instance_type: str, region: str, offering_class: OfferingClass, term_years: int, payment: Payment
    ) -> Price | Unpriced:
        """The effective hourly rate of a Reserved Instance, its upfront payment spread over the term (1 or 3 years)."""
        term = Term(instance_type=instance_type, region=region, years=term_years, payment=payment)
        return reserved_price(self.store, self.until, term, offering_class)

    def savings_plan(
        self, instance_type: str, region: str, kind: PlanKind, term_years: int, payment: Payment
    ) -> Price | Unpriced:
        """The hourly rate under a Savings Plan; derived from Reserved Instances where none was read from AWS."""
        term = Term(instance_type=instance_type, region=region, years=term_years, payment=payment)
        return savings_plan_price(self.store, self.until, term, kind)

    def sagemaker(self, instance_type: str, region: str, component: str) -> Price | Unpriced:
        """The rate of an `ml.` type for one of COMPONENTS.

        SageMaker bills all of them alike where both were seen: a newer row of another component counts as derived.
        """
        rows = self.store.sagemaker.get((instance_type, region), ())
        own = newest((row for row in rows if row.zone == component), _usd, self.until)
        other = newest((row for row in rows if row.zone != component), _usd, self.until)
        if other is not None and (own is None or other.as_of > own.as_of):
            derived = other._replace(basis="derived")
            return price_of(derived, derived.usd, self.store, note=f"the rate of {other.zone}, which is billed alike")
        if own is not None:
            return price_of(own, own.usd, self.store)
        return Unpriced(
            reason=f"no SageMaker price of {instance_type} in {region} is known{self._later(rows)}",
            seen=self._seen([row for row in rows if row.zone == component]),
        )

    def bill_item(self, item: str, region: str) -> Price | Unpriced:
        """The price of one of BillItem in a region, per unit of `bill_unit`, with its tiers over a month's quantity."""
        key = ("bill", item, region)
        if key not in self._prices:
            rows = self.store.bill_items.get((item, region)) or self.store.bill_items.get((item, EVERYWHERE), [])
            self._prices[key] = price_item(item, rows, self.store, self.until)
        return self._prices[key]

    def bill_unit(self, item: str) -> str:
        """What `bill_item` prices one of, such as "GB-month" or "1000 requests".

        Raises:
            KeyError: for an item that no row names.
        """
        return self._bill_units[item]

    @cached_property
    def _bill_units(self) -> Mapping[str, str]:
        return MappingProxyType({item: rows[0].unit for (item, _region), rows in self.store.bill_items.items()})

    def transfer(self, origin: str, destination: str) -> Price | Unpriced:
        """The price of a GB sent from one region to another; a pair with a price of its own first."""
        pair = f"transfer.to-{destination}"
        if (pair, origin) in self.store.bill_items:
            return self.bill_item(pair, origin)
        return self.bill_item("transfer.inter-region", origin)

    def history(self, option: PurchaseOption, instance_type: str, region: str, *, zone: str = "") -> list[Price]:
        """Every row known of an on-demand, spot or Capacity Block price, oldest first, unverified ones included."""
        index = {
            PurchaseOption.ON_DEMAND: self.store.on_demand,
            PurchaseOption.SPOT: self.store.spot,
            PurchaseOption.CAPACITY_BLOCK: self.store.capacity_blocks,
            PurchaseOption.TRAINING_PLAN: self.store.training_plans,
        }.get(option, {})
        rows = [row for row in index.get((instance_type, region), ()) if row.usd and row.zone == zone]
        rows = sorted((row for row in rows if row.as_of <= self.until), key=lambda row: row.as_of)
        against = self.store.on_demand.get((instance_type, region), ()) if option is PurchaseOption.SPOT else ()
        return [price_of(row, row.usd, self.store, market=market_of(row.usd, against)) for row in rows]

    # ---------------------------------------------------------------------------------------------------- internals

    def _zoned(self, what: str, index: Zoned, instance_type: str, region: str, zone: str) -> Price | Unpriced:
        key = (what, instance_type, region, zone)
        found = self._prices.get(key)
        if found is None:
            found = self._prices[key] = self._find(what, index, instance_type, region, zone)
        return found

    def _find(self, what: str, index: Zoned, instance_type: str, region: str, zone: str) -> Price | Unpriced:
        every = index.get((instance_type, region), [])
        rows = [row for row in every if row.zone == zone]
        local = not rows and bool(every) and not zone and what == "capacity-block"
        if local:
            rows = every
        row = newest(rows, _usd, self.until)
        if row is None:
            return Unpriced(reason=self._absence(what, index, instance_type, region), seen=self._seen(rows))
        notes = [f"local zone {row.zone}"] if local else []
        newer = unverified([*rows, *index.get((instance_type, UNSTATED), ())], _usd, self.until)
        if newer is not None and newer.as_of > row.as_of:
            notes.append(f"a newer unverified row says {newer.usd} ({newer.as_of})")
        return price_of(row, row.usd, self.store, note="; ".join(notes))

    def _seen(self, rows: Sequence[Row]) -> Price | None:
        row = unverified(rows, _usd, self.until)
        return price_of(row, row.usd, self.store) if row else None

    def _absence(self, what: str, index: Zoned, instance_type: str, region: str) -> str:
        """Why there is no price, as far as it is known."""
        gone = self.unavailable_type(instance_type)
        if gone is not None:
            return gone.reason
        if instance_type not in self.instance_types:
            return f"no instance type {instance_type} in the catalog"
        stated = [row for row in index.get((instance_type, EVERYWHERE), ()) if row.as_of <= self.until]
        if stated:
            return stated[-1].note
        words = what.replace("-", " ") if what == "capacity-block" else what
        if what in ("on-demand", "capacity-block") and what not in self.instance_types[instance_type].usage_classes:
            return f"EC2 sells no {words} of {instance_type}"
        later = self._later(index.get((instance_type, region), ()))
        return f"no {words} price of {instance_type} in {region} is known{later}"

    def _later(self, rows: Sequence[Row]) -> str:
        """Words on rows that are too new for `prices_as_of`."""
        newer = [row.as_of for row in rows if row.usd and row.basis != "unverified" and row.as_of > self.until]
        return f" on or before {self.until}: the first is of {min(newer)}" if newer else ""


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _usd(row: Row) -> str:
    return row.usd


def _average(row: RangeRow) -> str:
    return row.usd_avg
