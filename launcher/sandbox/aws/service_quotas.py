"""Service Quotas, of which moto has a few of one service: AWS's defaults, and the values that the account has.

Emulated, after botocore 1.44.5 (service-quotas/2019-06-24 service-2.json): ListServiceQuotas and
ListAWSDefaultServiceQuotas with the quotas and defaults of the catalog (data/quotas.csv, each with its source); a quota
without a known default is left out. The account's vCPUs of G instances are those that `limit_instances` sets. Not
emulated: requests for increases, metrics of the use, pages.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from moto.servicequotas.responses import ServiceQuotasResponse

from launcher.agent import safe_json
from launcher.catalog.load import load
from launcher.catalog.quotas import load_quotas
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox.aws.allocation import Capacity

GRANTED = 10_000
"""The value of a quota whose limit the emulator does not enforce: no job meets it."""


def _values(capacity: Capacity, key: str, default: int | None) -> float | None:
    """The account's value of a quota; None for one that it has never raised."""
    kind, _, counted = key.partition("/")
    if kind in ("on-demand", "spot"):
        limit = capacity.spot_vcpus if kind == "spot" else capacity.vcpus
        return GRANTED if limit is None else limit
    # Quotas of instances are 0 in a new account; the emulator starts them all.
    return GRANTED if not default and counted else None


def _quotas(capacity: Capacity, region: str, service: str, *, applied: bool) -> Iterator[dict[str, Any]]:
    types = [f"ml.{name}" for name in load().instance_types]
    for key, quota in load_quotas().items():
        value = _values(capacity, key, quota.default) if applied else quota.default
        if quota.service != service or value is None or not quota.name:
            continue
        names = [quota.name] if quota.name == quota.of("") else [quota.of(name) for name in types]
        for name in names:
            digest = hashlib.sha256(f"{service} {name}".encode()).hexdigest()[:8].upper()
            code = quota.code or f"L-{digest}"
            yield {
                "ServiceCode": service,
                "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:{service}/{code}",
                "QuotaCode": code,
                "QuotaName": name,
                "Value": float(value),
                "Unit": "None",
                "Adjustable": True,
                "GlobalQuota": False,
            }


def install(capacity: Capacity) -> None:
    """Add the calls to moto's Service Quotas; `capacity` has the limits of EC2."""

    def answer(response: Any, *, applied: bool) -> str:
        service = str(safe_json.loads(response.body).get("ServiceCode"))
        return json.dumps({"Quotas": list(_quotas(capacity, response.region, service, applied=applied))})

    def list_service_quotas(response: Any) -> str:
        return answer(response, applied=True)

    def list_aws_default_service_quotas(response: Any) -> str:
        return answer(response, applied=False)

    for call in (list_service_quotas, list_aws_default_service_quotas):
        setattr(ServiceQuotasResponse, call.__name__, call)
