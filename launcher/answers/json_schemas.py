"""The types of the `--json` documents, and their JSON Schemas."""

from collections.abc import Mapping
from typing import Any

from launcher.answers.accuracy import AccuracyDocument
from launcher.answers.approve import ApprovalsDocument
from launcher.answers.capacity import CapacityDocument
from launcher.answers.checkpoints import CheckpointsDocument, PruneDocument, RestoreDocument, VerifyDocument
from launcher.answers.commit import CommitDocument
from launcher.answers.compare_document import CompareDocument
from launcher.answers.config import ConfigDocument
from launcher.answers.cost import CostDocument
from launcher.answers.debug import DebugDocument
from launcher.answers.deploy import DeployDocument
from launcher.answers.diff import DiffDocument
from launcher.answers.doctor import DoctorDocument
from launcher.answers.down import DownDocument
from launcher.answers.endpoint import AnswerDocument
from launcher.answers.error import ErrorDocument
from launcher.answers.estimate import EstimateDocument
from launcher.answers.init import InitDocument
from launcher.answers.ledger import LedgerDocument
from launcher.answers.models import ModelsDocument
from launcher.answers.nodes import NodeActionDocument, NodesDocument
from launcher.answers.outputs import OutputsDocument
from launcher.answers.plan_document import PlanDocument
from launcher.answers.policies import PoliciesDocument
from launcher.answers.portfolio import PortfolioDocument
from launcher.answers.prices_document import ChangesDocument, PricesDocument, RefreshDocument
from launcher.answers.render import RenderDocument
from launcher.answers.runs import RunsDocument
from launcher.answers.sandbox import NoSandboxDocument, SandboxDocument
from launcher.answers.spike import SpikeDocument
from launcher.answers.started import StartedDocument
from launcher.answers.status import StatusDocument
from launcher.answers.sweep import SweepDocument
from launcher.answers.top import TopDocument
from launcher.answers.version import VersionDocument
from launcher.records.json_schema import document_schema
from launcher.records.load_documents import LoadDocument
from launcher.records.quote_document import QuoteDocument
from launcher.records.report_document import ReportDocument

DOCUMENTS: Mapping[str, tuple[type, ...]] = {
    "accuracy": (AccuracyDocument,),
    "answer": (AnswerDocument,),
    "approvals": (ApprovalsDocument,),
    "capacity": (CapacityDocument,),
    "checkpoints": (CheckpointsDocument,),
    "checkpoints-prune": (PruneDocument,),
    "checkpoints-restore": (RestoreDocument,),
    "checkpoints-verify": (VerifyDocument,),
    "commit": (CommitDocument,),
    "compare": (CompareDocument,),
    "config": (ConfigDocument,),
    "cost": (CostDocument,),
    "debug": (DebugDocument,),
    "deploy": (DeployDocument,),
    "diff": (DiffDocument,),
    "doctor": (DoctorDocument,),
    "down": (DownDocument,),
    "error": (ErrorDocument,),
    "estimate": (EstimateDocument,),
    "init": (InitDocument,),
    "ledger": (LedgerDocument,),
    "load": (LoadDocument,),
    "outputs": (OutputsDocument,),
    "plan": (PlanDocument,),
    "policies": (PoliciesDocument,),
    "portfolio": (PortfolioDocument,),
    "prices": (PricesDocument, ChangesDocument, RefreshDocument),
    "quote": (QuoteDocument,),
    "render": (RenderDocument,),
    "report": (ReportDocument,),
    "models": (ModelsDocument,),
    "node-action": (NodeActionDocument,),
    "nodes": (NodesDocument,),
    "runs": (RunsDocument,),
    "sandbox": (NoSandboxDocument, SandboxDocument),
    "spike": (SpikeDocument,),
    "started": (StartedDocument,),
    "status": (StatusDocument,),
    "sweep": (SweepDocument,),
    "top": (TopDocument,),
    "version": (VersionDocument,),
}
"""The forms of each document that has a schema."""


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of a document, such as "plan".

    Raises:
        KeyError: no document has this name.
    """
    return document_schema(f"slipway.{name}/1", DOCUMENTS[name])
