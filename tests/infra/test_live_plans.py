"""The plans of the live proof: checks of their templates and files without an account."""

import pytest

from launcher import plan_file
from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.serving import load_serving
from launcher.planning.endpoint_pin import pinned_serving
from tests.infra.accepted import CLUSTERS, ENDPOINTS, HYPERPOD, INSTANCES, PCS, TRAINING_JOBS, accepted
from tests.infra.linting import complaints
from tests.live.cases import CASES, PAGE, recorded


@pytest.fixture(params=CASES, ids=lambda live_case: live_case.plan)
def case(request):
    return request.param


@pytest.fixture
def live_stacks(case, synthesised, plan_at, catalog):
    if not case.serves:
        return synthesised(plan_at(case.path))
    return synthesised(pinned_serving(plan_file.load(case.path), catalog, BedrockCatalog(), load_serving()))


def test_live_plan_stacks_satisfy_example_rules(live_stacks):
    known = (CLUSTERS, HYPERPOD, ENDPOINTS, INSTANCES, TRAINING_JOBS, PCS)
    assert [
        violation
        for violation in live_stacks.violations
        if all(accepted(findings, *violation) is None for findings in known)
    ] == []


def test_cfn_lint_reports_no_error(live_stacks):
    assert complaints(live_stacks.folder, live_stacks.plan.place.region) == []


def test_live_case_has_row_on_page(case):
    page = PAGE.read_text(encoding="utf-8")
    assert "a day: done" in recorded(page, case.thing, "a day: done")
    assert recorded(page, case.thing, "x").count("\n") == page.count("\n")
