"""`slipway quote --verify-with-aws` and `--credits`: answers in botocore's shapes, refusals, no answer."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.emulators.aws_account import DENIED, THROTTLED, Refused
from tests.emulators.price_entries import ec2_product, term
from tests.unit.workflow.history.conftest import PLAN
from tests.waiting import replace_sleep

pytestmark = pytest.mark.long

ESTIMATE = "0f1e2d3c-0000-4000-8000-123456789012"
P5, HEAD = "USE2-BoxUsage:p5.48xlarge", "USE2-BoxUsage:m6i.xlarge"
CALLS = ("CreateWorkloadEstimate", "BatchCreateWorkloadEstimateUsage", "GetWorkloadEstimate")
NAT = "USE2-NatGateway-Hours"


@pytest.fixture
def plan_file_of(tmp_path, monkeypatch):
    """A pinned plan, in the current folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(option="on-demand"):
        (tmp_path / "plan.yaml").write_text(PLAN % ("verified", option), encoding="utf-8")
        return "plan.yaml"

    return make


def products(sent):
    """The Price List: the machines by their type, a NAT gateway in its family, nothing else."""
    filters = {filter_["Field"]: filter_["Value"] for filter_ in sent["Filters"]}
    assert filters["regionCode"] == "us-east-2"
    if name := filters.get("instanceType"):
        entries = [ec2_product(name, "us-east-2", term("1"), usagetype=f"USE2-BoxUsage:{name}")]
    elif filters.get("productFamily") == "NAT Gateway":
        entries = [ec2_product("", "us-east-2", term("1"), usagetype=NAT, operation="NatGateway")]
    else:
        entries = []
    return {"PriceList": [json.dumps(entry) for entry in entries], "FormatVersion": "aws_v1"}


class Calculator:
    """A workload estimate of an account: `rates` are dollars of one unit by usage type; what has none is refused."""

    def __init__(self, account, rates, *, polls=1, status="VALID"):
        self.rates, self.left, self.status = rates, polls, status
        self.items, self.deleted = [], []
        account.canned |= {
            "pricing.GetProducts": products,
            "bcm-pricing-calculator.CreateWorkloadEstimate": {"id": ESTIMATE, "status": "VALID"},
            "bcm-pricing-calculator.BatchCreateWorkloadEstimateUsage": self.fill,
            "bcm-pricing-calculator.GetWorkloadEstimate": self.look,
            "bcm-pricing-calculator.ListWorkloadEstimateUsage": lambda sent: {"items": self.items},
            "bcm-pricing-calculator.DeleteWorkloadEstimate": self.delete,
        }

    def fill(self, sent):
        assert sent["workloadEstimateId"] == ESTIMATE
        created, errors = [], []
        for usage in sent["usage"]:
            assert usage["usageAccountId"] == "123456789012"
            if usage["usageType"] not in self.rates:
                errors.append({"key": usage["key"], "errorCode": "NOT_FOUND", "errorMessage": "no such usage"})
                continue
            whole = {name: usage[name] for name in ("serviceCode", "usageType", "operation")}
            whole |= {"id": f"{len(self.items):036}", "status": self.status, "currency": "USD"}
            self.items.append(whole | {"cost": usage["amount"] * self.rates[usage["usageType"]]})
            created.append({**whole, "key": usage["key"], "status": "STALE"})
        return {"items": created, "errors": errors}

    def look(self, sent):
        self.left -= 1
        return {"id": ESTIMATE, "status": "VALID" if self.left <= 0 else "UPDATING"}

    def delete(self, sent):
        self.deleted.append(sent["identifier"])
        return {}


def rates_of(slipway, path):
    """The quoted rates of the lines to verify."""
    rows = {
        component["name"]: component for component in json.loads(slipway("quote", path, "--json").out)["components"]
    }
    names = {P5: "2 x p5.48xlarge on-demand", HEAD: "head node m6i.xlarge", NAT: "NAT gateway"}
    return {usage: float(rows[name]["unit_price_usd"]) for usage, name in names.items()}


def test_quote_priced_alike_by_aws_calculator_holds(exported_account, plan_file_of, slipway, monkeypatch):
    waits = []
    replace_sleep(monkeypatch, "launcher.cli.quote", waits.append)
    path = plan_file_of()
    calculator = Calculator(exported_account, rates_of(slipway, path), polls=3)
    ended = slipway("quote", path, "--verify-with-aws", "--json")
    assert ended.code == 0, ended.err
    verified = json.loads(ended.out)["verified"]
    assert (verified["holds"], verified["rate_type"]) == (True, "AFTER_DISCOUNTS")
    assert verified["apart"] < 1e-4
    priced = [line["names"][0] for line in verified["lines"] if line["aws_usd"] is not None]
    assert priced == ["2 x p5.48xlarge on-demand", "NAT gateway", "head node m6i.xlarge"]
    assert calculator.deleted == [ESTIMATE]
    assert len(waits) >= 2
    reasons = {line["names"][0]: line["reason"] for line in verified["lines"]}
    assert "no such usage type" in reasons["S3 checkpoints" if "S3 checkpoints" in reasons else "NAT data"]
    assert reasons["guard and its messages"] == "its usage type is unknown"


def test_usage_type_with_several_operations_is_not_compared(exported_account, plan_file_of, slipway):
    """As the load balancers share LoadBalancerUsage, and zonal and regional gateways their hours."""
    path = plan_file_of()
    Calculator(exported_account, rates_of(slipway, path))

    def two(sent):
        answer = products(sent)
        both = [json.loads(product) for product in answer["PriceList"]]
        for product in [
            product for product in both if product["product"]["attributes"].get("operation") == "NatGateway"
        ]:
            other = json.loads(json.dumps(product))
            other["product"]["attributes"]["operation"] = "RegionalNatGateway"
            both.append(other)
        return answer | {"PriceList": [json.dumps(product) for product in both]}

    exported_account.canned["pricing.GetProducts"] = two
    verified = json.loads(slipway("quote", path, "--verify-with-aws", "--json").out)["verified"]
    gateway = next(line for line in verified["lines"] if line["names"][0] == "NAT gateway")
    assert gateway["aws_usd"] is None
    assert f"{NAT} NatGateway, {NAT} RegionalNatGateway, with different prices" in gateway["reason"]


@pytest.mark.parametrize("apart, code", [(1.009, 0), (1.02, 5), (0.98, 5)])
def test_difference_over_one_percent_ends_with_5(exported_account, plan_file_of, slipway, apart, code):
    path = plan_file_of()
    rates = rates_of(slipway, path)
    Calculator(exported_account, rates | {P5: rates[P5] * apart})
    ended = slipway("quote", path, "--verify-with-aws")
    assert ended.code == code
    assert "not compared, its usage type is unknown: guard and its messages" in " ".join(ended.out.split())
    assert ("does not hold" in " ".join(ended.out.split())) is bool(code)


def test_opposite_line_differences_do_not_cancel(exported_account, plan_file_of, slipway, quotes):
    path = plan_file_of()
    rates = rates_of(slipway, path)
    hours = {component["name"]: component["quantity"] for component in quotes()["components"]}
    change = rates[P5] * 0.02
    shift = change * sum(hours[name] for name in ("2 x p5.48xlarge on-demand", "start-up of the nodes", "idle tail"))
    Calculator(exported_account, rates | {P5: rates[P5] + change, NAT: rates[NAT] - shift / hours["NAT gateway"]})
    verified = json.loads(slipway("quote", path, "--verify-with-aws", "--json").out)["verified"]
    assert abs(Decimal(verified["aws_usd"]) - Decimal(verified["quoted_usd"])) < Decimal("0.5")
    assert verified["holds"] is False


def test_spot_line_is_not_compared_and_others_are(exported_account, plan_file_of, slipway):
    path = plan_file_of("spot")
    Calculator(exported_account, {HEAD: 0.192})
    verified = json.loads(slipway("quote", path, "--verify-with-aws", "--json").out)["verified"]
    assert "AWS's calculator uses list prices" in verified["lines"][0]["reason"]
    (head,) = [line for line in verified["lines"] if line["aws_usd"] is not None]
    assert head["names"] == ["head node m6i.xlarge"]


def test_estimate_without_priced_lines_does_not_hold(exported_account, plan_file_of, slipway):
    path = plan_file_of()
    calculator = Calculator(exported_account, {})
    ended = slipway("quote", path, "--verify-with-aws")
    assert ended.code == 5
    assert "priced no line" in ended.out
    assert "NOT_FOUND: no such usage" in slipway("quote", path, "--verify-with-aws", "--json").out
    assert calculator.deleted == [ESTIMATE] * 2


def test_invalid_or_missing_estimate_items_have_no_price(exported_account, plan_file_of, slipway):
    path = plan_file_of()
    calculator = Calculator(exported_account, rates_of(slipway, path), status="INVALID")
    ended = slipway("quote", path, "--verify-with-aws", "--json")
    assert (ended.code, "AWS calls it invalid" in ended.out) == (5, True)
    exported_account.canned["bcm-pricing-calculator.BatchCreateWorkloadEstimateUsage"] = {}
    assert "AWS gave no answer for it" in slipway("quote", path, "--verify-with-aws", "--json").out
    assert len(calculator.deleted) == 2


@pytest.mark.parametrize(
    "operation", ["CreateWorkloadEstimate", "BatchCreateWorkloadEstimateUsage", "GetWorkloadEstimate"]
)
@pytest.mark.parametrize("refused", [DENIED, THROTTLED, Refused("DataUnavailableException", "not yet")])
def test_refused_calculator_request_leaves_no_estimate(exported_account, plan_file_of, slipway, operation, refused):
    path = plan_file_of()
    calculator = Calculator(exported_account, {P5: 1.0})
    exported_account.canned[f"bcm-pricing-calculator.{operation}"] = refused
    ended = slipway("quote", path, "--verify-with-aws")
    assert (ended.code, ended.out) == (1, "")
    assert refused.code in ended.err
    assert calculator.deleted == ([] if operation == "CreateWorkloadEstimate" else [ESTIMATE])


def credit(number, usd, **more):
    money = {"currencyCode": "USD", "currencyAmount": str(usd)}
    record = {
        "creditId": str(number),
        "accountId": "123456789012",
        "creditType": "Promotion",
        "initialAmount": money,
        "remainingAmount": money,
        "description": "words",
        "startDate": datetime(2026, 1, 1, tzinfo=UTC),
        "endDate": datetime(2099, 1, 1, tzinfo=UTC),
        "creditStatus": "ENABLED",
    }
    return record | more


def test_account_credits_reduce_cash(exported_account, plan_file_of, slipway):
    path = plan_file_of()
    open_bills = {"currencyCode": "USD", "currencyAmount": "60"}
    exported_account.canned["billing.GetCredits"] = {
        "credits": [
            credit(1, 100, estimatedAmount=open_bills),
            credit(2, 40),
            credit(3, 500, creditStatus="DISABLED"),
            credit(4, 500, applicableProductNames=["Amazon Polly"]),
            credit(5, 500, endDate=datetime(2026, 2, 1, tzinfo=UTC)),
            credit(6, 500, remainingAmount={"currencyCode": "EUR", "currencyAmount": "500"}),
        ]
    }
    before = json.loads(slipway("quote", path, "--json").out)
    ended = slipway("quote", path, "--credits", "--json")
    assert ended.code == 0, ended.err
    after = json.loads(ended.out)
    assert Decimal(after["cash_after_credits_usd"]) == Decimal(before["cash_usd"]) - 100
    assert after["digest"] == before["digest"]
    assert before["cash_after_credits_usd"] is None
    left_out = [
        assumption["source"] for assumption in after["assumptions"] if assumption["name"] == "credit not counted"
    ]
    assert [source.split(": ")[0] for source in left_out] == [f"Promotion {number}" for number in (3, 4, 5, 6)]
    (_, sent) = exported_account.requests[-1]
    assert (sent["accountId"], sent["payerAccountFlag"]) == ("123456789012", True)


@pytest.mark.parametrize("refused", [DENIED, THROTTLED])
def test_refused_credits_request_is_reported(exported_account, plan_file_of, slipway, refused):
    exported_account.canned["billing.GetCredits"] = refused
    ended = slipway("quote", plan_file_of(), "--credits")
    assert (ended.code, refused.code in ended.err) == (1, True)
