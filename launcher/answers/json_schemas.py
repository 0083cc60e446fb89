"""The contents of each `--json` document, and its JSON Schema."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from launcher.agent.manifest import StoredFile
from launcher.agent.output_manifest import OutputManifest
from launcher.answers import capacity
from launcher.answers.endpoint import AnswerDocument
from launcher.answers.json_shapes import (
    ALL_FORMS,
    CANDIDATE,
    KEY,
    MEASURED,
    MOVE,
    NUMBER,
    OPTION,
    PORTED,
    QUOTE,
    RATIO,
    SERVED,
    SIDE,
    STORE,
    TEXT,
    TOTAL,
    VERIFIED,
    named_shape,
)
from launcher.answers.models import FIELDS as MODEL_FIELDS
from launcher.answers.status import StatusDocument
from launcher.catalog.fetched_prices import Unmatched
from launcher.catalog.listing import PriceRow
from launcher.model.accuracy import Accuracy, RunAccuracy
from launcher.model.capacity import JudgedOffer
from launcher.model.commitment_choice import CommitmentChoice
from launcher.model.diagnosis import Diagnosis
from launcher.model.endpoint_call import LoadSetting, LoadStep, LoadTest
from launcher.model.finding import Finding
from launcher.model.ledger import LedgerEntry, ReservationUse
from launcher.model.model_spec import ModelSpec
from launcher.model.money import Price, Range, UsdRange
from launcher.model.plan_diff import PlanDiff, PlansDiff
from launcher.model.removal import Removal
from launcher.model.spending import StackCost
from launcher.pricing.alternatives import Alternative
from launcher.pricing.held_commitments import HeldCommitment
from launcher.pricing.serving.verdict import ServingChoice
from launcher.pricing.verdict import Choice, Verdict
from launcher.records.checkpoints import Checkpoint
from launcher.records.json_schema import Some, document_schema, picked_shape
from launcher.records.ledger_document import KEYS
from launcher.records.load_documents import SETTING
from launcher.records.refresh_report import RefreshReport
from launcher.records.report_document import ReportDocument
from launcher.workflow.quote.portfolio import Member, OneChip

_SHAPES: Mapping[str, Any] = {
    "accuracy/1": {
        **dict.fromkeys(("tokens_per_s", "hours", "usd"), Accuracy),
        "runs": [
            {
                **picked_shape(RunAccuracy, "name run instance_type nodes simulated"),
                **dict.fromkeys(("tokens_per_s", "hours"), RATIO),
                "usd": {**RATIO, "quoted": UsdRange | None, "measured": Decimal | None},
                **{key: {"ratio": NUMBER} for key in ("usd_per_instance_hour", "instance_hours")},
            }
        ],
        "unread": named_shape("run", "reason"),
    },
    "answer/1": AnswerDocument,
    "capacity/1": {
        "name": str,
        "offers": [picked_shape(JudgedOffer, capacity.OFFER)],
        "unanswered": named_shape("asked", "reason"),
    },
    "checkpoints/1": {
        **STORE,
        "checkpoints": [
            {
                **picked_shape(Checkpoint, "step folder format=form whole=complete reason"),
                "files": int,
                **picked_shape(Checkpoint, "bytes run attempt written_at layout unit superseded"),
            }
        ],
    },
    "checkpoints-prune/1": {**STORE, "done": bool, "steps": [int], "objects": int, "bytes": int},
    "checkpoints-restore/1": {**STORE, "step": int, "folder": str, "files": int, "bytes": int},
    "checkpoints-verify/1": {
        **STORE,
        "checkpoints": [
            {"step": int, "whole": bool, "by": Literal["hashes", "sizes"], "files": int, "problems": [str]}
        ],
    },
    "commit/1": {
        "as_of": datetime,
        "demand": picked_shape(CommitmentChoice, "floor_usd_per_hour mean_usd_per_hour"),
        "options": [OPTION],
        "choice": (OPTION, None),
        "findings": [Finding],
        "left_out": named_shape("plan", "reason"),
    },
    "compare/1": {
        "name": str,
        "as_of": datetime,
        "verdict": {**picked_shape(Verdict, "text reasons flips"), "choice": (Choice, ServingChoice)},
        "pairs": [
            {
                "option": str,
                "allowed": bool,
                **dict.fromkeys(("gpu", "trainium"), TEXT),
                "chance_trainium_cheaper": NUMBER,
            }
        ],
        "options": [CANDIDATE],
        "break_even": (PORTED, SERVED, None),
        "findings": [Finding],
    },
    "cost/1": {
        "as_of": datetime,
        "usd_per_hour": Decimal,
        "stacks": [StackCost],
        "unanswered": named_shape("region", "reason"),
    },
    "deploy/1": {
        **dict.fromkeys(("name", "digest", "region"), str),
        **dict.fromkeys(("simulated", "deployed"), bool),
        "stacks": dict[str, dict[str, str]],
    },
    "diff/1": {
        **picked_shape(PlansDiff, "old new looked_at usd_change percent"),
        "refusal": TEXT,
        "plans": [PlanDiff],
    },
    "doctor/1": picked_shape(Diagnosis, "name verdict checks"),
    "down/1": {
        **picked_shape(Removal, "cluster region done"),
        **dict.fromkeys(("stacks", "jobs"), named_shape("name", "status")),
        "instances": [{"instance_type": str, "count": int}],
        **picked_shape(Removal, "kept usd_per_month incomplete"),
    },
    "error/1": {**dict.fromkeys(("message", "hint"), str), "exit_code": int, "findings": [Finding]},
    "ledger/1": Some(
        {
            "source": str,
            "runs": [picked_shape(LedgerEntry, f"{KEYS} usd usd_per_million_tokens usd_per_epoch usd_lost")],
            "total": TOTAL,
            "reservations": [{**picked_shape(ReservationUse, "name fee_usd used_usd unused_usd"), "runs": int}],
            "unread": named_shape("run", "reason"),
        },
        {"groups": [TOTAL]},
    ),
    "load/1": {
        "name": str,
        "date": str,
        **{key: (hint, None) for key, hint in picked_shape(LoadSetting, SETTING).items()},
        "simulated": bool,
        **picked_shape(LoadTest, "instances instances_after input_tokens output_tokens"),
        "steps": [
            {
                "concurrency": int,
                "seconds": float,
                **picked_shape(LoadStep, "requests failures"),
                "tokens_per_s": float,
                **dict.fromkeys(("ttft_ms", "latency_ms"), ({"p50": float, "p95": float}, None)),
            }
        ],
        **dict.fromkeys(("measured_tokens_per_s", "measured_input_tokens", "measured_output_tokens"), float),
        **dict.fromkeys(("measured_ttft_ms", "measured_tpot_ms", "quoted_tokens_per_s"), NUMBER),
        "measured_usd_per_million_output_tokens": Decimal | None,
    },
    "outputs/1": {
        **STORE,
        **picked_shape(OutputManifest, "run attempt written_at"),
        "to": TEXT,
        "files": [picked_shape(StoredFile, "path bytes sha256")],
    },
    "plan/1": {
        "name": str,
        "as_of": datetime,
        "considered": int,
        "candidates": [CANDIDATE],
        "findings": [Finding],
        "next": str,
        "alternatives": [
            {
                **picked_shape(Alternative, "service instance_type accelerator nodes region purchase_option=option"),
                **picked_shape(Alternative, "hours usd"),
                "unpriced": TEXT,
                "price": Price | None,
                "deployed": bool,
            }
        ],
    },
    "policies/1": {
        "account": str,
        "boundary_arn": TEXT,
        "policies": [
            {**dict.fromkeys(("name", "arn", "file", "for", "holds"), str), "characters": int},
        ],
        "commands": [str],
    },
    "portfolio/1": {
        "as_of": datetime,
        "plans": [{**picked_shape(Member, "file=path name kind usd_per_month"), "choice": (CANDIDATE, None)}],
        "usd_per_month": UsdRange,
        "incomplete": bool,
        "unpriced": [str],
        "commitments": [HeldCommitment],
        "one_chip": [OneChip],
        "findings": [Finding],
    },
    "prices/1": (
        {
            "as_of": datetime,
            "prices_as_of": date | None,
            "rows": [
                {
                    **KEY,
                    "unit": str,
                    **dict.fromkeys(("usd_per_hour", "usd_per_unit"), Decimal | None),
                    "unpriced": TEXT,
                    **picked_shape(PriceRow, "as_of age_days basis source note market current"),
                }
            ],
        },
        {
            "as_of": datetime,
            "before": date,
            "after": date,
            "changes": [
                {
                    "what": Literal["added", "removed", "changed"],
                    **KEY,
                    **dict.fromkeys(("before", "after"), SIDE),
                    "percent": NUMBER,
                }
            ],
        },
        {
            "as_of": datetime,
            "refresh": {
                **picked_shape(RefreshReport, "cache asked answered resumed prices"),
                **{key: [MOVE] for key in ("jumped", "vanished")},
                "refused": [{**KEY, "reason": str}],
                "unmatched": [picked_shape(Unmatched, "item region reason")],
                "failures": named_shape("what", "message", "hint"),
                **picked_shape(RefreshReport, "skipped_regions public unasked snapshot"),
            },
        },
    ),
    "quote/1": Some(QUOTE, {"verified": VERIFIED}),
    "render/1": {**dict.fromkeys(("name", "digest", "folder"), str), "files": [str]},
    "report/1": ReportDocument,
    "models/1": {"models": [picked_shape(ModelSpec, MODEL_FIELDS)]},
    "runs/1": {"runs": named_shape("name", "started", "status")},
    "sandbox/1": (
        {"running": Literal[False]},
        {
            "running": Literal[True],
            **dict.fromkeys(("name", "endpoint", "scheduler", "since"), str),
            "stacks": named_shape("name", "region", "status"),
            "clusters": [
                {"name": str, "scheduler": str, "nodes": int, "jobs": [{"id": object, "name": str, "state": str}]}
            ],
        },
    ),
    "spike/1": {
        "name": str,
        "measurements": [
            {"schema": Literal["slipway.measurement/1"], **MEASURED, "estimated_tokens_per_s": Range | None}
        ],
        "unmeasured": named_shape("instance_type", "reason"),
    },
    "status/1": StatusDocument,
    "sweep/1": {
        "name": str,
        "as_of": datetime,
        "keys": [str],
        "points": [{"values": dict[str, Any], "candidate": (CANDIDATE, None), "reason": TEXT}],
    },
}
DOCUMENTS = tuple(name.partition("/")[0] for name in _SHAPES)
"""The documents that have a schema."""


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of a document, such as "plan".

    Raises:
        KeyError: no document has this name.
    """
    full, shape = next((f"slipway.{key}", shape) for key, shape in _SHAPES.items() if key.partition("/")[0] == name)
    return document_schema(full, _headed(full, shape), ALL_FORMS)


def _headed(name: str, shape: Any) -> Any:
    if isinstance(shape, Some):
        return Some({"schema": Literal[name], **shape.shape}, shape.optional)
    if isinstance(shape, tuple):
        return tuple(_headed(name, part) for part in shape)
    return {"schema": Literal[name], **shape} if isinstance(shape, dict) else shape
