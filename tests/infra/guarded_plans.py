"""One plan of each kind with every guard on: time to live, spending limit, budget, notifications, boundary."""

import json

import yaml

from launcher import plan_file
from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.serving import load_serving
from launcher.model.request import OWN_QUALIFIER
from launcher.planning.endpoint_pin import pinned_serving
from launcher.planning.pin import pinned_plan
from tests.infra.conftest import FILES
from tests.infra.iam import ACCOUNT
from tests.plans import ROOT

BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/SlipwayBoundary"
ENDPOINTS = {
    "sagemaker-endpoint": "llama31-8b-inf2",
    "sagemaker-endpoint-to-zero": "llama33-70b-inf2",
    "sagemaker-endpoint-asynchronous": "asynchronous-inf2",
}
NAMES = {
    "parallelcluster": "p5-spot",
    "eks": "trn1-spot",
    "hyperpod-slurm": "trn2-on-demand",
    "hyperpod-eks": "p5en-spot",
    "pcs": "p5-spot",
    "sagemaker-training": "p5-spot",
    "ec2": "p5-spot",
}
KINDS = (*NAMES, *ENDPOINTS)


RATE = {"usd_per_hour": "12.5"}
"""The context of a synthesis: without a rate no guard can stop at a sum."""


def guarded_plan(kind, catalog, boundary=BOUNDARY):
    """The plan of an example with every guard on, with or without a boundary."""
    path = FILES[kind][NAMES[kind]] if kind in NAMES else ROOT / "examples/serve/pinned" / f"{ENDPOINTS[kind]}.yaml"
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    plan["guardrails"] = {**plan.get("guardrails", {}), "ttl_h": 48, "notify": ["team@example.com"]}
    plan["budget"] = {**plan.get("budget", {}), "stop_at_usd": 400}
    if kind == "sagemaker-endpoint-to-zero":
        plan["workload"]["serve"]["min_instances"] = 0
    if boundary is not None:
        plan["security"] = {**plan.get("security", {}), "permissions_boundary_arn": boundary}
        plan["security"]["qualifier"] = OWN_QUALIFIER
    request = plan_file.loads(json.dumps(plan))
    if kind in ENDPOINTS:
        return pinned_serving(request, catalog, BedrockCatalog(), load_serving())
    return pinned_plan(request, catalog)
