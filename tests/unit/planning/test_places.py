"""Zones that the catalog excludes for a type, and windows of purchased capacity that end before they start."""

import pytest

from launcher.model.enums import Level
from launcher.planning.checks import check
from tests.plans import request_of


def findings(catalog, code, *, target, purchase=None):
    """The findings of a cluster's plan with a code."""
    data = {"slipway": 1, "name": "n", "target": target, "purchase": purchase or {"option": "on-demand"}}
    return [finding for finding in check(request_of(data), catalog) if finding.code == code]


class TestZone:
    @pytest.mark.parametrize(
        "name, az_id, offered",
        [
            ("p5en.48xlarge", "use1-az4", "use1-az2, use1-az6"),
            ("trn1.32xlarge", "usw2-az2", "usw2-az1, usw2-az4"),
            ("trn1.2xlarge", "use2-az1", "use2-az3"),
        ],
    )
    def test_zone_without_type_warns_with_offering_zones(self, catalog, name, az_id, offered):
        region = catalog.region_of_az(az_id)
        target = {"instance_type": name, "region": region, "az_id": az_id, "nodes": 1}
        (finding,) = findings(catalog, "zone-not-offered", target=target)
        assert finding.level is Level.WARNING
        assert f"{name} in {offered}, not in {az_id}" in finding.message
        assert offered.split(", ")[0] in finding.hint

    def test_zone_without_fallback_type_warns_with_offering_zones(self, catalog):
        target = {"instance_type": "g5.xlarge", "fallback_types": ["trn1.2xlarge"], "region": "us-east-2", "nodes": 1}
        (finding,) = findings(catalog, "zone-not-offered", target={**target, "az_id": "use2-az1"})
        assert "trn1.2xlarge in use2-az3, not in use2-az1" in finding.message

    def test_zone_with_type_gives_no_warning(self, catalog):
        target = {"instance_type": "p5en.48xlarge", "region": "us-east-1", "az_id": "use1-az2", "nodes": 1}
        assert not findings(catalog, "zone-not-offered", target=target)


class TestWindow:
    @pytest.mark.parametrize(
        "starts_at, ends_at, refused",
        [
            ("2026-12-08T11:30:00Z", "2026-12-01T11:30:00Z", True),
            ("2026-12-08T11:30:00Z", "2026-12-08T11:30:00Z", True),
            ("2026-12-01T11:30:00Z", "2026-12-08T11:30:00Z", False),
        ],
    )
    def test_reservation_ending_before_start_refused(self, catalog, starts_at, ends_at, refused):
        reservation = {"id": "cr-0a1b2c3d4e5f60718", "count": 2, "starts_at": starts_at, "ends_at": ends_at}
        target = {"instance_type": "p5.48xlarge", "region": "us-east-2", "nodes": 2}
        purchase = {"option": "capacity-block", "reservation": reservation}
        found = findings(catalog, "window-backwards", target=target, purchase=purchase)
        assert [finding.path for finding in found] == (["purchase.reservation.ends_at"] if refused else [])

    def test_training_plan_ending_before_start_refused(self, catalog):
        arn = "arn:aws:sagemaker:us-east-2:123456789012:training-plan/team"
        bought = {"arn": arn, "starts_at": "2026-12-08T11:30:00Z", "ends_at": "2026-12-01T11:30:00Z"}
        target = {"kind": "hyperpod-slurm", "instance_type": "p5.48xlarge", "region": "us-east-2", "nodes": 2}
        purchase = {"option": "training-plan", "training_plan": bought}
        (finding,) = findings(catalog, "window-backwards", target=target, purchase=purchase)
        assert "must be after starts_at (2026-12-08T11:30:00+00:00)" in finding.message
