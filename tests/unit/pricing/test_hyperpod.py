"""HyperPod with Slurm: candidates, prices, bill, and the savings that would justify its surcharge."""

from decimal import Decimal

import pytest

from launcher.catalog.training import load_training
from launcher.model.enums import Basis, Level, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.money import Price
from launcher.pricing.hyperpod import CPU_RATIO, instance_price
from launcher.targets.registry import billed_name

POD = {"kind": "hyperpod-slurm"}
BOTH = {"kind": ["parallelcluster", "hyperpod-slurm"]}
ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/june"


def targets(priced_plan):
    return {candidate.place.target for candidate in priced_plan.candidates}


def lines(quoted):
    return {component.name: component for component in quoted.components}


def codes(quoted):
    return {finding.code: finding for finding in quoted.findings}


class TestCandidates:
    def test_each_named_target_has_a_candidate(self, priced):
        assert targets(priced({"target": {"kind": ["parallelcluster", "hyperpod-slurm"]}})) == set(
            map(TargetKind, BOTH["kind"])
        )
        assert targets(priced({"target": POD})) == {TargetKind.HYPERPOD_SLURM}
        assert targets(priced({"target": BOTH})) == set(map(TargetKind, BOTH["kind"]))

    def test_override_of_the_hyperpod_price_adds_hyperpod_only_if_cheaper(self, priced):
        anywhere = {"target": {"kind": "any"}}
        own = {**anywhere, "purchase": {"price_overrides": {"ml.p5.48xlarge/on-demand": "30"}}}
        (candidate,) = priced(own).candidates
        assert (billed_name(candidate.place), candidate.offer.price.usd) == ("ml.p5.48xlarge", 30)
        dear = {**anywhere, "purchase": {"price_overrides": {"ml.p5.48xlarge/on-demand": "400"}}}
        assert targets(priced(dear)) <= {TargetKind.PARALLELCLUSTER, TargetKind.EKS, TargetKind.EC2}

    def test_training_plan_selects_hyperpod(self, priced):
        (only,) = priced({"target": {"kind": "any"}, "purchase": {"option": "training-plan"}}).candidates
        assert billed_name(only.place).startswith("ml.")

    def test_all_option_shows_hyperpod_where_the_plan_names_the_target(self, priced):
        job = {"train": {"hours": None, "tokens_b": 1}}
        priced_plan = priced({"workload": job, "target": {**BOTH, "nodes": {"min": 1, "max": 4}}}, everything=True)
        assert {(candidate.place.target, candidate.place.nodes) for candidate in priced_plan.candidates} >= {
            (TargetKind.HYPERPOD_SLURM, 2),
            (TargetKind.PARALLELCLUSTER, 4),
        }

    @pytest.mark.parametrize(
        "changes, code",
        [
            ({"target": {**POD, "instance_type": "trn1.2xlarge"}}, "not-on-hyperpod"),
            ({"target": {**POD, "instance_type": "inf2.48xlarge"}, "workload": {"train": None}}, "not-on-hyperpod"),
            ({"target": POD, "purchase": {"option": "capacity-block"}}, "hyperpod-ec2-capacity"),
            ({"target": POD, "purchase": {"reservation": {"id": "cr-0123456789abcdef0"}}}, "hyperpod-ec2-capacity"),
            ({"target": {**POD, "nodes": 3}, "purchase": {"training_plan": {"arn": ARN}}}, "training-plan-size"),
            ({"target": {**POD, "nodes": 3}, "purchase": {"option": "training-plan"}}, "training-plan-size"),
            (
                {"target": {**POD, "region": "us-west-2"}, "purchase": {"training_plan": {"arn": ARN}}},
                "training-plan-region",
            ),
            (
                {"target": {"kind": "parallelcluster"}, "purchase": {"training_plan": {"arn": ARN}}},
                "training-plan-target",
            ),
        ],
    )
    def test_unsupported_hyperpod_plan_is_an_error_with_a_hint(self, priced, changes, code):
        with pytest.raises(ImpossibleError) as refusal:
            priced(changes)
        (finding,) = [finding for finding in refusal.value.findings if finding.code == code]
        assert (finding.level, bool(finding.path)) == (Level.ERROR, True)
        assert finding.hint

    def test_one_of_several_types_is_left_out_with_a_warning(self, priced):
        job = {"train": {"hours": None, "tokens_b": 1}}
        priced_plan = priced({"workload": job, "target": {**POD, "instance_type": ["p5.48xlarge", "trn1.2xlarge"]}})
        assert [candidate.place.instance_type for candidate in priced_plan.candidates] == ["p5.48xlarge"]
        assert [finding.level for finding in priced_plan.findings if finding.code == "not-on-hyperpod"] == [
            Level.WARNING
        ]


class TestPrices:
    def test_on_demand_is_the_sagemaker_rate_with_the_basis(self, priced):
        quoted = priced({"target": POD}).quote(1)
        assert (quoted.price.usd, quoted.price.basis) == (Decimal("66.048"), Basis.LISTED)
        assert "secondary" in quoted.price.note
        west = priced({"target": {**POD, "region": "us-west-2"}}).quote(1)
        assert (west.price.usd, west.price.basis) == (Decimal("66.048"), Basis.DERIVED)
        assert "1 x ml.p5.48xlarge on-demand" in lines(quoted)
        assert quoted.gate.exit_code == 0

    def test_hyperpod_spot_is_unpriced_without_an_override(self, priced):
        quoted = priced({"target": POD, "purchase": {"option": "spot"}}).quote(1)
        assert "publishes no rate of spot" in quoted.no_price_reason
        assert '"ml.p5.48xlarge/spot/hyperpod-slurm"' in quoted.gate.hint
        purchase = {"option": "spot", "price_overrides": {"ml.p5.48xlarge/spot": "20"}}
        priced_plan = priced({"target": POD, "purchase": purchase})
        assert priced_plan.quote(1).price.usd == 20
        assert "hyperpod-spot-unconfirmed" in {finding.code for finding in priced_plan.findings}

    def test_ec2_savings_plans_do_not_cover_hyperpod(self, priced):
        quoted = priced({"target": POD, "purchase": {"option": "savings-plan", "term_years": 1}}).quote(1)
        assert quoted.plan.place.plan_kind == "sagemaker"
        assert "no sagemaker Savings Plan rate of ml.p5.48xlarge" in quoted.no_price_reason

    def test_the_fee_of_a_training_plan_is_the_price(self, priced):
        paid = {"arn": ARN, "ends_at": "2026-12-02T11:30:00Z", "starts_at": "2026-12-01T11:30:00Z", "fee_usd": "720"}
        quoted = priced({"target": POD, "purchase": {"training_plan": {**paid, "count": 1}}}).quote(1)
        assert sum(component.usd for component in quoted.components if component.group == "compute") == 720

    def test_training_plan_without_a_fee_is_unpriced_and_the_hint_names_the_fee_key(self, priced):
        west = {**POD, "region": "us-west-2"}
        quoted = priced(
            {"target": west, "purchase": {"training_plan": {"arn": ARN.replace("us-east-1", "us-west-2"), "count": 1}}}
        ).quote(1)
        assert quoted.no_price_reason is not None
        assert (quoted.gate.exit_code, "purchase.training_plan.fee_usd" in quoted.gate.hint) == (4, True)

    def test_a_machine_without_chips_costs_ec2_and_a_fifth(self, priced):
        catalog = priced().catalog
        price, plain = instance_price(catalog, "m6i.xlarge", "us-east-1"), catalog.on_demand("m6i.xlarge", "us-east-1")
        assert isinstance(price, Price)
        assert price.usd == plain.usd * CPU_RATIO
        assert (price.basis, "ml.c5" in price.source) == (Basis.DERIVED, True)


class TestBill:
    def test_hyperpod_bill_has_hyperpod_lines_and_no_parallelcluster_lines(self, priced):
        components = lines(priced({"target": POD, "storage": {"login_nodes": 2}}).quote(1))
        for name in ("FSx Lustre 1200 GiB, 250 MB/s/TiB", "controller ml.m6i.xlarge", "2 login nodes ml.m6i.large"):
            assert components[name].usd > 0
        for name in components:
            assert not any(word in name for word in ("head node", "DNS", "gp3", "load balancer", "composite"))

    def test_hyperpod_quote_names_the_uncounted_root_volumes(self, priced):
        names = {assumption.name for assumption in priced({"target": POD}).quote(1).assumptions}
        assert "root volumes of a HyperPod cluster with Slurm" in names
        assert "root volumes of HyperPod's machines" not in {
            assumption.name for assumption in priced().quote(1).assumptions
        }


class TestSurcharge:
    def test_surcharge_is_compared_with_the_value_of_shorter_failures(self, priced):
        job = {"workload": {"train": {"hours": None, "tokens_b": 100}}, "target": {**POD, "nodes": 8}}
        quoted = priced(job).quote(1)
        finding = codes(quoted)["hyperpod-surcharge"]
        more = (Decimal("66.048") - Decimal("55.04")) * 8 * Decimal(repr(quoted.hours.mid))
        # 64 chips at the rate of one; a machine that is replaced mends nothing that software broke.
        failures = 64 * load_training().constants["failures_per_accelerator_hour"].mid * quoted.hours.mid
        minutes = float(more) / (failures * 66.048 * 8) * 60
        worth = 10 / 60 * failures * 66.048 * 8
        assert f"${more:,.2f} more than ParallelCluster" in finding.message
        assert f"ends each {minutes:,.0f} minutes sooner" in finding.message
        assert f"counted with 10 minutes each, worth ${worth:,.2f} in all" in finding.message
        assert failures < quoted.work.failures_per_h * quoted.hours.mid

    def test_surcharge_finding_without_failures_states_no_expected_failure(self, priced):
        quoted = priced({"target": POD, "workload": {"train": None}}).quote(1)
        assert quoted.work.failures_per_h == 0
        assert "no failure of a node is expected" in codes(quoted)["hyperpod-surcharge"].message

    def test_parallelcluster_has_no_surcharge_finding(self, priced):
        assert "hyperpod-surcharge" not in codes(priced().quote(1))
