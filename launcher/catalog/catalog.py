"""Lookups of dated prices and static facts.

A `Catalog` behaves as an immutable value: the same look-up always gives the same answer. Its files are read on first
use and cached, so a plan with one pinned type costs only a few milliseconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType

from launcher.catalog import facts
from launcher.catalog.bill import EVERYWHERE, newer_rows, price_item
from launcher.catalog.derived_items import ANCHOR, derive_price
from launcher.catalog.market import InterruptionBand, band_of
from launcher.catalog.selection import FOREVER, PRICING, price_of
from launcher.catalog.selector import SAGEMAKER, Key, OfferingClass, RowSelector, usd_of
from launcher.catalog.store import BandRow, Row, Store
from launcher.model.announced_end import AnnouncedEnd
from launcher.model.enums import Market, Payment, PurchaseOption, SavingsPlanKind
from launcher.model.instance_type import Accelerator, InstanceType
from launcher.model.model_spec import ModelSpec
from launcher.model.money import Price, Unpriced
from launcher.model.units import number_of

COMMERCIAL = "aws"
"""The partition of regions that every AWS account can use."""
COMPONENTS = ("hosting", "training", "cluster", "studio")
"""SageMaker's billing components of an `ml.` instance: an endpoint, a training job, HyperPod, Studio."""


class Catalog:
    """The available offerings and their prices. Prices are USD; compute is per instance-hour."""

    def __init__(self, store: Store, *, prices_as_of: date | None = None) -> None:
        """A view of `store` on one day (None: with all its rows); use `launcher.catalog.load.load`."""
        self.store = store
        self.prices_as_of = prices_as_of
        self.until = prices_as_of.isoformat() if prices_as_of else FOREVER
        self.selector = RowSelector(store, self.until)
        self._prices: dict[Key, Price | Unpriced] = {}
        self._bill: dict[tuple[str, str], Price | Unpriced] = {}
        self._known_items: dict[str, Mapping[str, Price]] = {}
        self._zones: dict[str, Mapping[str, str]] = {}
        self._regions_of: dict[str, tuple[str, ...]] = {}
        self._bands: dict[tuple[str, str], InterruptionBand | None] = {}
        self._of_rows: dict[BandRow, InterruptionBand] = {}
        self._machines: dict[tuple[str, str], Price | Unpriced] = {}

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
        return facts.load_instance_types(self.store, self.accelerators)

    @cached_property
    def price_cuts(self) -> Mapping[str, Decimal]:
        """Shares by which on-demand prices fell in the last large cut, by instance type."""
        return facts.load_price_cuts()

    def price_cut(self, name: str) -> Decimal:
        """The assumed price cut for a type's commitment: its own last cut, or the largest if it had none."""
        cuts = self.price_cuts
        return cuts[name] if name in cuts else max(cuts.values())

    @cached_property
    def unavailable_types(self) -> Mapping[str, facts.UnavailableType]:
        """Names that users request but that are unavailable, with the reason."""
        return facts.load_unavailable_types(self.store)

    def unavailable_type(self, name: str) -> facts.UnavailableType | None:
        """Why a name is unavailable; a family includes its sizes, as trn3 does for trn3.48xlarge."""
        unavailable = self.unavailable_types
        return unavailable.get(name) or unavailable.get(name.partition(".")[0])

    @cached_property
    def announced_ends(self) -> Mapping[str, AnnouncedEnd]:
        """Announced ends by key, as "kubernetes/1.35"; only those known on the day of the prices."""
        ends, day = facts.load_announced_ends(self.store), self.prices_as_of
        return {key: end for key, end in ends.items() if day is None or end.as_of <= day}

    @cached_property
    def regions(self) -> Mapping[str, facts.Region]:
        """Regions by name."""
        return facts.load_regions()

    @cached_property
    def models(self) -> Mapping[str, ModelSpec]:
        """Models by name."""
        return self._models

    @cached_property
    def _models(self) -> facts.Models:
        return facts.Models(self.store)

    @cached_property
    def _model_names(self) -> Mapping[str, str]:
        names: dict[str, str] = {}
        for model in self._models:
            for name in self._models.names_of(model):
                names[_plain(name)] = model
                names.setdefault(_plain(name.rpartition("/")[2]), model)
        return MappingProxyType(names)

    def find_model(self, name: str) -> ModelSpec | None:
        """A model by name, alias or Hugging Face id, with or without the owner, in any case; None if unknown."""
        known = self._model_names.get(_plain(name))
        return None if known is None else self._models[known]

    @cached_property
    def _region_by_zone(self) -> Mapping[str, str]:
        zones = {
            zone: region.name for region in self.regions.values() for zone in (*region.az_ids, *region.local_zones)
        }
        return MappingProxyType(zones)

    def region_of_az(self, az_id: str) -> str | None:
        """The region of a zone id; None for an id that the catalog does not know."""
        return self._region_by_zone.get(az_id)

    def first_zone(self, instance_type: str, region: str) -> str | None:
        """The first zone of a region that is known to offer a type; None if no zone is known."""
        return self._first_zones(instance_type).get(region)

    def _first_zones(self, instance_type: str) -> Mapping[str, str]:
        if instance_type not in self._zones:
            by_region: dict[str, str] = {}
            for az_id in self.instance_types[instance_type].az_ids:
                if (region := self.region_of_az(az_id)) is not None:
                    by_region.setdefault(region, az_id)
            self._zones[instance_type] = by_region
        return self._zones[instance_type]

    def regions_of(self, instance_type: str) -> tuple[str, ...]:
        """Regions that offer a type: one of their zones does, or a price is known there."""
        if instance_type not in self._regions_of:
            known = self.instance_types.get(instance_type)
            zones, of_zone = known.az_ids if known is not None else (), self._region_by_zone
            regions = {of_zone[zone] for zone in zones if zone in of_zone}
            for index in (self.store.on_demand, self.store.spot, self.store.capacity_blocks):
                for (_, region), rows in index.of(instance_type).items():
                    if region not in regions and region in self.regions and any(row.usd for row in rows):
                        regions.add(region)
            self._regions_of[instance_type] = tuple(sorted(regions))
        return self._regions_of[instance_type]

    def commercial(self, regions: Iterable[str]) -> tuple[str, ...]:
        """The regions of `target.region: any`: GovCloud needs a separate account, so a plan must name its region."""
        return tuple(region for region in regions if self.regions[region].partition == COMMERCIAL)

    def offers(self, instance_type: str, region: str) -> bool:
        """Whether a region is known to offer a type."""
        return region in self.regions_of(instance_type)

    def regions_offering(self, instance_type: str, option: PurchaseOption) -> tuple[str, ...]:
        """Regions where a type is sold under a purchase option, priced or not; empty if it is not sold this way.

        Capacity Blocks, Reserved Instances and Savings Plans are sold where they have a rate, the others wherever the
        type is offered and its usage classes allow it.
        """
        known = self.instance_types.get(instance_type)
        if known is None:
            return ()
        anywhere = self.regions_of(instance_type)
        offering: tuple[str, ...] = ()
        match option:
            case PurchaseOption.ON_DEMAND | PurchaseOption.SPOT:
                offering = anywhere if option.value in known.usage_classes else ()
            case PurchaseOption.CAPACITY_BLOCK:
                offering = tuple(
                    region
                    for region in anywhere
                    if self.selector.row(Key(PurchaseOption.CAPACITY_BLOCK.value, instance_type, region)) is not None
                )
            case PurchaseOption.TRAINING_PLAN:
                offering = anywhere if known.training_plans else ()
            case PurchaseOption.RESERVED:
                offering = self._commitment_keys(instance_type, plans=False)
            case PurchaseOption.SAVINGS_PLAN:
                offering = self._commitment_keys(instance_type, plans=True)
            case PurchaseOption.BEDROCK:
                pass
        return offering

    def _commitment_keys(self, instance_type: str, *, plans: bool) -> tuple[str, ...]:
        """The regions with a commitment of a type; a Reserved Instance prices Savings Plans too."""
        indexes = (
            (self.store.reserved_instances, self.store.savings_plans) if plans else (self.store.reserved_instances,)
        )
        return tuple(sorted({region for index in indexes for _, region, *_ in index.of(instance_type)}))

    # ------------------------------------------------------------------------------------------------------ prices

    def price(self, key: Key) -> Price | Unpriced:
        """The price of a key, or the reason why it has none."""
        if key not in self._prices:
            self._prices[key] = self._price(key)
        return self._prices[key]

    def on_demand(self, instance_type: str, region: str, *, zone: str = "") -> Price | Unpriced:
        """The on-demand price; `zone` names a local zone with a separate price."""
        return self.price(Key(PurchaseOption.ON_DEMAND.value, instance_type, region, zone))

    def capacity_block(self, instance_type: str, region: str, *, zone: str = "") -> Price | Unpriced:
        """The rate of a Capacity Block, paid in advance for its full length.

        Without `zone`, a type that is sold only in a region's local zones has their rate, and the note states this.
        """
        return self.price(Key(PurchaseOption.CAPACITY_BLOCK.value, instance_type, region, zone))

    def training_plan(self, instance_type: str, region: str) -> Price | Unpriced:
        """The rate of a SageMaker training plan; the snapshot has few, `prices refresh` reads offerings."""
        return self.price(Key(PurchaseOption.TRAINING_PLAN.value, instance_type, region))

    def spot(self, instance_type: str, region: str) -> Mapping[str, Price]:
        """Spot prices by zone id, including those that are no offers: see `Price.market`."""
        key = Key(PurchaseOption.SPOT.value, instance_type, region)
        zone_prices = ((zone, self.price(key._replace(zone=zone))) for zone in self.selector.zones(key))
        return {zone: price for zone, price in zone_prices if isinstance(price, Price)}

    def interruption_band(self, instance_type: str, region: str) -> InterruptionBand | None:
        """The Spot Advisor's newest band; of several on one day the last row; None without a band."""
        place = (instance_type, region)
        if place not in self._bands:
            rows = [row for row in self.store.bands.get(place, ()) if row.as_of <= self.until]
            newest = max(reversed(rows), key=lambda row: row.as_of, default=None)
            # Most places share their row's words with others.
            if newest is not None and newest not in self._of_rows:
                self._of_rows[newest] = band_of(newest, self.store)
            self._bands[place] = None if newest is None else self._of_rows[newest]
        return self._bands[place]

    def reserved_rate(
        self, instance_type: str, region: str, offering_class: OfferingClass, term_years: int, payment: Payment
    ) -> Price | Unpriced:
        """The effective hourly rate of a Reserved Instance, its upfront payment spread over the term (1 or 3 years)."""
        kind = PurchaseOption.RESERVED.value
        return self.price(Key(kind, instance_type, region, "", offering_class, term_years, payment.value))

    def savings_plan(
        self, instance_type: str, region: str, kind: SavingsPlanKind, term_years: int, payment: Payment
    ) -> Price | Unpriced:
        """The hourly rate under a Savings Plan, read from AWS or derived from the equivalent Reserved Instance."""
        option = PurchaseOption.SAVINGS_PLAN.value
        return self.price(Key(option, instance_type, region, "", kind.value, term_years, payment.value))

    def sagemaker(self, instance_type: str, region: str, component: str) -> Price | Unpriced:
        """The rate of an `ml.` type for one of COMPONENTS, read for this component or derived from another's."""
        return self.price(Key(SAGEMAKER, instance_type, region, detail=component))

    def bill_item(self, item: str, region: str) -> Price | Unpriced:
        """The price of an item of bill_items.csv per unit of its row, with its tiers over a month's quantity.

        Derived from the prices of other regions if the region has none.
        """
        key = (item, region)
        if key not in self._bill:
            regional, everywhere = (self.store.bill_items.get((item, place), []) for place in (region, EVERYWHERE))
            rows = newer_rows(regional, everywhere, self.until)
            listed = price_item(item, rows, self.store, self.until)
            self._bill[key] = listed if isinstance(listed, Price) else self._derived_item(item, region) or listed
        return self._bill[key]

    def _derived_item(self, item: str, region: str) -> Price | None:
        service = f"{item.partition('.')[0]}."
        others = [name for name in self._items if name != item and name.startswith(service)]
        return derive_price(self._known_item(item), map(self._known_item, others), region)

    @cached_property
    def _items(self) -> Mapping[str, tuple[str, ...]]:
        """The regions of each item of the bill."""
        regions: dict[str, list[str]] = {}
        for item, region in self.store.bill_items:
            regions.setdefault(item, []).append(region)
        return {item: tuple(places) for item, places in regions.items()}

    def _known_item(self, item: str) -> Mapping[str, Price]:
        """The prices of an item by region."""
        if item not in self._known_items:
            prices = {
                region: price_item(item, self.store.bill_items[item, region], self.store, self.until)
                for region in self._items.get(item, ())
            }
            self._known_items[item] = {region: price for region, price in prices.items() if isinstance(price, Price)}
        return self._known_items[item]

    def instance_price(self, instance_type: str, region: str) -> Price | Unpriced:
        """The on-demand price of an instance without accelerators, derived from other regions if the region has none.

        The ratio between two regions is that of another size of the family.
        """
        place = (instance_type, region)
        if place not in self._machines:
            on_demand = self.on_demand(instance_type, region)
            if isinstance(on_demand, Unpriced):
                on_demand = self._derived_instance(instance_type, region) or on_demand
            self._machines[place] = on_demand
        return self._machines[place]

    def _derived_instance(self, instance_type: str, region: str) -> Price | None:
        family = f"{instance_type.partition('.')[0]}."
        sizes: dict[str, dict[str, Price]] = {}
        for name in self.store.on_demand.names:
            for _, place in self.store.on_demand.of(name) if name.startswith(family) else ():
                price = self.on_demand(name, place) if name == instance_type or place in (region, ANCHOR) else None
                if isinstance(price, Price):
                    sizes.setdefault(name, {})[place] = price
        return derive_price(sizes.pop(instance_type, {}), sizes.values(), region)

    def transfer(self, origin: str, destination: str) -> Price | Unpriced:
        """The price of a GB sent from one region to another; a price for the pair takes precedence."""
        pair = f"transfer.to-{destination}"
        if (pair, origin) in self.store.bill_items:
            return self.bill_item(pair, origin)
        return self.bill_item("transfer.inter-region", origin)

    # ---------------------------------------------------------------------------------------------------- internals

    def _price(self, key: Key) -> Price | Unpriced:
        row = self.selector.row(key)
        if row is None:
            unverified = self.selector.unverified_row(key)
            return Unpriced(
                reason=self._absence(key),
                unverified=price_of(unverified, unverified.usd, self.store) if unverified else None,
            )
        local = key.kind == PurchaseOption.CAPACITY_BLOCK.value and row.zone != key.zone
        notes = [f"local zone {row.zone}"] if local else []
        newer = self.selector.contradiction(key)
        if newer is not None:
            notes.append(f"a newer unverified row says {newer.usd} ({newer.as_of})")
        spot = key.kind == PurchaseOption.SPOT.value
        market = self.selector.market(row, key.name, key.region) if spot else Market.OPEN
        return price_of(row, row.usd, self.store, market=market, note="; ".join(notes))

    def _absence(self, key: Key) -> str:
        name, region = key.name, key.region
        later = self._later(self.selector.rows(key))
        if key.kind == SAGEMAKER:
            return f"no SageMaker price of {name} in {region} is known{later}"
        if key.term_years:
            label = "reserved price" if key.kind == PurchaseOption.RESERVED.value else "Savings Plan rate"
            years = number_of(key.term_years, "year")
            return f"no {key.detail} {label} of {name} in {region} for {years} is known{later}"
        if key.kind == PurchaseOption.TRAINING_PLAN.value:
            return f"training plans have no published rate: prices refresh reads the offerings{later}"
        return (
            self._not_sold(key) or f"no {_kind_name(key.kind)} price of {name} in {key.zone or region} is known{later}"
        )

    def _not_sold(self, key: Key) -> str:
        """Why EC2 does not sell a type this way in any region; "" if it may."""
        unavailable = self.unavailable_type(key.name)
        if unavailable is not None:
            return unavailable.reason
        known = self.instance_types.get(key.name)
        if known is None:
            return f"no instance type {key.name} in the catalog"
        stated = [row for row in self.selector.rows(key._replace(region=EVERYWHERE)) if row.as_of <= self.until]
        if stated:
            return stated[-1].note
        return f"EC2 sells no {_kind_name(key.kind)} of {key.name}" if key.kind not in known.usage_classes else ""

    def _later(self, rows: Sequence[Row]) -> str:
        newer = [row.as_of for row in rows if usd_of(row) and row.basis in PRICING and row.as_of > self.until]
        return f" on or before {self.until}: the first is of {min(newer)}" if newer else ""


def _kind_name(kind: str) -> str:
    return "capacity block" if kind == PurchaseOption.CAPACITY_BLOCK.value else kind


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")
