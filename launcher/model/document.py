"""A request as plain data: the plan file with every key written out; and the digest of a resolved plan."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from launcher.model import kinds
from launcher.model.enums import NatMode
from launcher.model.plan import Place, Plan, hash_of
from launcher.model.request import NetworkRequest, NodeRange, PlanRequest, PurchaseRequest, TargetRequest

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

_LATER = {
    "run": ("after", "before", "data", "outputs", "outputs_gib", "volumes"),
    "checkpoint": ("restart", "signal", "layout", "pattern", "tracker", "kms_key_arn"),
    "purchase": ("support_percent",),
    "security": ("encrypt_traffic", "roles"),
    "storage": ("login_pool",),
    "network": ("nat", "private"),
}

_LATER_OF_MODELS = {"experts": None, "top_k": None, "attention_layers": None, "window": 0}
_LATER_OF_JOBS = {
    "expert_parallel": "auto",
    "tensor_parallel": "auto",
    **dict.fromkeys(("optimizer", "examples", "tokens_per_example", "epochs", "tokens_per_parameter")),
    "throughput_samples_per_s": None,
}
OF_A_PLACE = ("target", "purchase")
"""The sections that a place decides."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def document(request: PlanRequest) -> dict[str, Any]:
    """The request as JSON-ready data that `plan_file.load` reads back to the same request."""
    data = _section(request)
    workload = request.workload
    data["workload"] = {
        key: _section(part) for key, part in (("train", workload.train), ("serve", workload.serve)) if part is not None
    }
    return data


def _section(value: Any) -> dict[str, Any]:
    return {field.name: _plain(field.metadata["kind"], getattr(value, field.name)) for field in fields(value)}


def _plain(kind: kinds.Kind, value: Any) -> Any:  # noqa: PLR0911 - one case a shape
    match kind, value:
        case (kinds.Open() | kinds.AnyOf() | kinds.NodeCount(), None):
            return "any"
        case (kinds.Auto(), None):
            return "auto"
        case (kinds.Open(), tuple()):
            listed = [_plain(kind.item, item) for item in value]
            return listed[0] if len(listed) == 1 else listed
        case (kinds.Many(), tuple()):
            return [_plain(kind.item, item) for item in value]
        case (kinds.Table(), _) if isinstance(value, Mapping):
            return {key: _plain(kind.item, item) for key, item in value.items()}
        case (kinds.Nullable() | kinds.Auto() | kinds.AnyOf(), _) if value is not None:
            return _plain(kind.item, value)
    return _scalar(value)


def _scalar(value: Any) -> Any:  # noqa: PLR0911 - one case a type
    if isinstance(value, NodeRange):
        return value.minimum if value.minimum == value.maximum else {"min": value.minimum, "max": value.maximum}
    if is_dataclass(value) and not isinstance(value, type):
        return _section(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _without_defaults(data: dict[str, Any], later: Mapping[str, object]) -> dict[str, Any]:
    """The keys but those that were added later and have their default."""
    return {key: value for key, value in data.items() if key not in later or value != later[key]}


def _pinned_target(target: TargetRequest, place: Place) -> TargetRequest:
    return replace(
        target,
        kind=(place.target,),
        region=(place.region,),
        az_id=place.az_id,
        instance_type=(place.instance_type,) if place.instance_type else None,
        nodes=NodeRange(minimum=place.nodes, maximum=place.nodes),
    )


def _pinned_purchase(purchase: PurchaseRequest, place: Place) -> PurchaseRequest:
    return replace(purchase, option=(place.option,), plan_kind=place.plan_kind, term_years=place.term_years)


class PlanBase:
    """One request as the base of plans at many places; parts that no place changes are serialized once.

    The digest omits `run.workdir`, because the local path of the files is not part of the plan; `run.plain_env`, which
    only declares values as non-secret; `network.subnets` and `network.shared_by`, which Slipway reads in the account
    and which change from hour to hour. The digest also omits the defaults of keys that were added later (`_LATER`), so
    that older plans keep their digest.
    """

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        data = document(request)
        left_out = [("run", "workdir"), ("run", "plain_env"), ("network", "subnets"), ("network", "shared_by")]
        for part, keys in _LATER.items():
            default = _section(type(getattr(request, part))())
            left_out += [(part, key) for key in keys if data[part][key] == default[key]]
        for name, part in data["workload"].items():
            model = part.get("model")
            if isinstance(model, dict):
                part["model"] = _without_defaults(model, _LATER_OF_MODELS)
            # A key of this name in the other section is as old as its plans.
            if name == "train":
                data["workload"][name] = _without_defaults(part, _LATER_OF_JOBS)
        for section, key in left_out:
            data[section] = {name: value for name, value in data[section].items() if name != key}
        self._open = {name: data[name] for name in (*OF_A_PLACE, "network")}
        self._parts = {name: _member(name, value) for name, value in sorted(data.items())}
        # `dataclasses.replace` looks at every section for every place.
        self._sections = {field.name: getattr(request, field.name) for field in fields(request)}
        self._machines: dict[tuple[object, ...], tuple[str, TargetRequest]] = {}
        self._purchases: dict[tuple[object, ...], tuple[str, PurchaseRequest]] = {}
        self._networks: dict[NatMode, tuple[str, NetworkRequest]] = {}
        self._before_target: dict[tuple[object, ...], tuple[Hash, str]] = {}

    def at(self, place: Place, nat: NatMode | None = None, known_digest: str = "") -> Plan:
        """The plan at a place; `nat` is the way to the internet where the place decides it too."""
        network = self.request.network if nat is None else self._network(nat)[1]
        sections = {"target": self._target(place)[1], "purchase": self._purchase(place)[1], "network": network}
        request = PlanRequest(**{**self._sections, **sections})
        return Plan(request=request, place=place, text=self._text(place, nat), known_digest=known_digest)

    def digest(self, place: Place, nat: NatMode | None = None) -> str:
        """The digest of that plan, without its request."""
        bought = (nat, place.option, place.plan_kind, place.term_years)
        if bought not in self._before_target:
            # Thousands of plans differ in their target alone, the last section that a place decides.
            before, _, after = self._text(place, nat).partition(self._target(place)[0])
            self._before_target[bought] = hash_of(before), after
        hashed, after = self._before_target[bought]
        whole = hashed.copy()
        whole.update(f"{self._target(place)[0]}{after}".encode())
        return whole.hexdigest()

    def _text(self, place: Place, nat: NatMode | None) -> str:
        """The canonical JSON of the plan."""
        parts = {**self._parts, "target": self._target(place)[0], "purchase": self._purchase(place)[0]}
        if nat is not None:
            parts["network"] = self._network(nat)[0]
        return f"{{{','.join(parts.values())}}}"

    def _target(self, place: Place) -> tuple[str, TargetRequest]:
        """The target section that a place decides, as text and as object; computed once for all purchase options."""
        key = (place.target, place.region, place.az_id, place.instance_type, place.nodes)
        if key not in self._machines:
            keys = {
                "kind": str(place.target),
                "region": place.region,
                "az_id": place.az_id,
                "instance_type": place.instance_type or "any",
                "nodes": place.nodes,
            }
            written = _member("target", {**self._open["target"], **keys})
            self._machines[key] = written, _pinned_target(self.request.target, place)
        return self._machines[key]

    def _network(self, nat: NatMode) -> tuple[str, NetworkRequest]:
        """The network section with a way to the internet, as text and as object; computed once for each way."""
        if nat not in self._networks:
            written = _member("network", {**self._open["network"], "nat": str(nat)})
            self._networks[nat] = written, replace(self.request.network, nat=nat)
        return self._networks[nat]

    def _purchase(self, place: Place) -> tuple[str, PurchaseRequest]:
        """The purchase section that a place decides, as text and as object; computed once per purchase option."""
        key = (place.option, place.plan_kind, place.term_years)
        if key not in self._purchases:
            keys = {
                "option": str(place.option),
                "plan_kind": "any" if place.plan_kind is None else str(place.plan_kind),
                "term_years": place.term_years or "any",
            }
            written = _member("purchase", {**self._open["purchase"], **keys})
            self._purchases[key] = written, _pinned_purchase(self.request.purchase, place)
        return self._purchases[key]


def plan_at(request: PlanRequest, place: Place) -> Plan:
    """The plan of a request at a place, with its digest: the SHA-256 of its canonical JSON."""
    return PlanBase(request).at(place)


def _member(name: str, value: Any) -> str:
    """A member of an object as JSON that is identical for equal data."""
    return f'"{name}":{_ENCODER.encode(value)}'
