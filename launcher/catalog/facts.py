"""Chips, instance types, regions and models from the shipped files."""

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from types import MappingProxyType

from launcher.catalog.store import Store
from launcher.catalog.tables import read_cells, read_rows
from launcher.model.announced_end import AnnouncedEnd
from launcher.model.enums import Basis
from launcher.model.instance_type import Accelerator, InstanceType, TrainingStack
from launcher.model.model_spec import ModelSpec
from launcher.model.record import record

Cells = Mapping[str, str]


@record
class Region:
    """An AWS region: its name in the console, its partition, and its known zone ids (empty: unknown)."""

    name: str
    description: str
    partition: str
    az_ids: tuple[str, ...]
    local_zones: tuple[str, ...]
    """Local zones with accelerators: zone ids, or names if only those are known."""


@record
class UnavailableType:
    """A name that users request but that is unavailable, with the reason."""

    name: str
    accelerator: str
    reason: str
    as_of: date
    note: str
    source: str


def load_accelerators(store: Store) -> Mapping[str, Accelerator]:
    """Chips by name, each with the software that runs on it."""
    stacks = {cells["name"]: _stack(cells, store) for cells in read_cells("training_stacks.csv")}
    software = {cells["accelerator"]: cells for cells in read_cells("chip_software.csv")}
    chips = read_cells("accelerators.csv")
    return MappingProxyType({chip["name"]: _accelerator(chip, software[chip["name"]], stacks, store) for chip in chips})


def load_instance_types(store: Store, chips: Mapping[str, Accelerator]) -> Mapping[str, InstanceType]:
    """Instance types by name; `chips` are those of `load_accelerators`."""
    zones: dict[str, list[str]] = {}
    sockets = {
        cells["instance_type"]: (int(cells["sockets"]), int(cells["cores_per_socket"]))
        for cells in read_cells("sockets.csv")
    }
    for name, _region, az_ids in read_rows("offerings.csv"):
        zones.setdefault(name, []).extend(az_ids.split("|"))
    types = {
        cells["name"]: _instance_type(
            cells,
            tuple(zones.get(cells["name"], ())),
            chips[cells["accelerator"]] if cells["accelerator"] else None,
            sockets.get(cells["name"]),
            store,
        )
        for cells in read_cells("instance_types.csv")
    }
    return MappingProxyType(types)


def load_price_cuts() -> Mapping[str, Decimal]:
    """Shares by which on-demand prices fell, by instance type."""
    return MappingProxyType({cells["instance_type"]: Decimal(cells["share"]) for cells in read_cells("price_cuts.csv")})


def load_unavailable_types(store: Store) -> Mapping[str, UnavailableType]:
    """Names that are known but unavailable."""
    return MappingProxyType(
        {
            cells["name"]: UnavailableType(
                name=cells["name"],
                accelerator=cells["accelerator"],
                reason=cells["reason"],
                as_of=date.fromisoformat(cells["as_of"]),
                note=cells["note"],
                source=store.source_title(cells["source"]),
            )
            for cells in read_cells("unavailable_types.csv")
        }
    )


def load_announced_ends(store: Store) -> Mapping[str, AnnouncedEnd]:
    """Announced ends by their key."""
    return MappingProxyType(
        {
            cells["key"]: AnnouncedEnd(
                key=cells["key"],
                what=cells["what"],
                ends=date.fromisoformat(cells["ends"]),
                then=cells["then"],
                withdrawn=cells["withdrawn"] == "true",
                path=cells["path"],
                hint=cells["hint"],
                basis=Basis(cells["basis"]),
                source=store.source_title(cells["source"]),
                as_of=date.fromisoformat(cells["as_of"]),
            )
            for cells in read_cells("announced_ends.csv")
        }
    )


def load_regions() -> Mapping[str, Region]:
    """Regions by name."""
    return MappingProxyType(
        {
            cells["name"]: Region(
                name=cells["name"],
                description=cells["description"],
                partition=cells["partition"],
                az_ids=_parts(cells["az_ids"]),
                local_zones=_parts(cells["local_zones"]),
            )
            for cells in read_cells("regions.csv")
        }
    )


class Models(Mapping[str, ModelSpec]):
    """Models by name, each created from its row on first use, because a plan needs only one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows = {cells["name"]: cells for cells in read_cells("models.csv")}
        self._made: dict[str, ModelSpec] = {}

    def __getitem__(self, name: str) -> ModelSpec:
        """The model of a name."""
        if name not in self._made:
            self._made[name] = _model(self._rows[name], self._store)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._rows)

    def __len__(self) -> int:
        """The number of models."""
        return len(self._rows)

    def names_of(self, name: str) -> tuple[str, ...]:
        """The names of a model: its name and its aliases."""
        return (name, *_parts(self._rows[name]["aliases"]))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split("|")) if text else ()


def _count(text: str) -> int:
    return int(text) if text else 0


def _stack(cells: Cells, store: Store) -> TrainingStack:
    return TrainingStack(
        name=cells["name"],
        title=cells["title"],
        release=cells["release"],
        compiles_in_process=cells["compiles_in_process"] == "true",
        template=cells["template"],
        node_packages=_parts(cells["node_packages"]),
        python_packages=_parts(cells["python_packages"]),
        caveat=cells["caveat"],
        remedy=cells["remedy"],
        source=store.source_title(cells["source"]),
    )


def _accelerator(cells: Cells, software: Cells, stacks: Mapping[str, TrainingStack], store: Store) -> Accelerator:
    return Accelerator(
        name=cells["name"],
        family=cells["family"],
        peak_bf16_tflops=float(cells["peak_bf16_tflops"]),
        peak_fp8_tflops=float(cells["peak_fp8_tflops"]) if cells["peak_fp8_tflops"] else None,
        memory_gib=float(cells["memory_gib"]),
        memory_gb_per_s=float(cells["memory_gb_per_s"]),
        source="; ".join(part for part in (store.source_title(cells["source"]), cells["note"]) if part),
        confirmed=cells["basis"] != Basis.UNVERIFIED.value,
        cores=int(software["cores"]),
        trains=software["trains"] == "true",
        workers=_count(software["workers"]),
        training_stack=stacks[software["training_stack"]] if software["training_stack"] else None,
        serving_groups=tuple(int(part) for part in _parts(software["serving_groups"])),
        pcie_only=software["pcie_only"] == "true",
        serves=software["serves"] == "true",
        compiler_target=software["compiler_target"],
    )


def _instance_type(
    cells: Cells, az_ids: tuple[str, ...], chip: Accelerator | None, sockets: tuple[int, int] | None, store: Store
) -> InstanceType:
    cards = [part.split("x") for part in _parts(cells["enis_per_card"])]
    return InstanceType(
        name=cells["name"],
        family=cells["family"],
        vcpus=_count(cells["vcpus"]),
        memory_gib=float(cells["memory_gib"] or 0),
        accelerator=cells["accelerator"] or None,
        accelerators=_count(cells["accelerators"]),
        network_cards=_count(cells["network_cards"]),
        efa_interfaces=_count(cells["efa_interfaces"]),
        network_gbps=float(cells["network_gbps"] or 0),
        network_baseline_gbps=float(cells["network_baseline_gbps"] or 0),
        enis_per_card=tuple(int(enis) for count, enis in cards for _ in range(int(count))),
        nvme_gb=_count(cells["nvme_gb"]),
        usage_classes=_parts(cells["usage_classes"]),
        targets=_parts(cells["targets"]),
        ml=cells["ml"] == "true",
        training_plans=cells["training_plans"] == "true",
        az_ids=az_ids,
        block_counts=tuple(int(part) for part in _parts(cells["block_counts"])),
        note=cells["note"],
        source=store.source_title(cells["source"]),
        confirmed=cells["confirmed"] == "true",
        unknown=_parts(cells["unknown"]),
        chip=chip,
        sockets=sockets,
    )


def _model(cells: Cells, store: Store) -> ModelSpec:
    exact = int(cells["published_exact"]) if cells["published_exact"] else None
    published = exact / 1e9 if exact else float(cells["published_b"])
    sparse = bool(cells["experts"])
    return ModelSpec(
        name=cells["name"],
        params_b=published,
        active_params_b=float(cells["active_b"]) if sparse else published,
        layers=int(cells["layers"]),
        hidden=int(cells["hidden"]),
        heads=int(cells["heads"]),
        kv_heads=int(cells["kv_heads"]),
        head_dim=int(cells["head_dim"]),
        vocab=int(cells["vocab"]),
        intermediate=int(cells["intermediate"]),
        aliases=_parts(cells["aliases"]),
        family=cells["family"],
        architecture=cells["architecture"],
        input=cells["input"],
        published_params=exact,
        cross_attention_layers=_count(cells["cross_attention_layers"]),
        tied_embeddings=cells["tied_embeddings"] == "true",
        output_head=cells["output_head"] == "true",
        gated_mlp=cells["gated_mlp"] == "true",
        attention=cells["attention"],
        attention_layers=int(cells["attention_layers"]) if cells["attention_layers"] else None,
        window=_count(cells["window"]),
        positions=cells["positions"],
        max_positions=int(cells["max_positions"]),
        experts=_count(cells["experts"]),
        experts_per_token=_count(cells["experts_per_token"]),
        moe_layers=_count(cells["moe_layers"]),
        moe_intermediate=_count(cells["moe_intermediate"]),
        shared_intermediate=_count(cells["shared_intermediate"]),
        q_lora_rank=_count(cells["q_lora_rank"]),
        kv_lora_rank=_count(cells["kv_lora_rank"]),
        rope_head_dim=_count(cells["rope_head_dim"]),
        value_head_dim=_count(cells["value_head_dim"]),
        kv_values_per_token=int(cells["kv_values_per_token"]) if cells["kv_values_per_token"] else None,
        license=cells["license"],
        license_basis=cells["license_basis"],
        basis=cells["basis"],
        source=store.source_title(cells["source"]),
        count_source=cells["count_source"],
        note=cells["note"],
    )
