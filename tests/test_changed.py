"""`make test-changed` runs the tests that can reach a change."""

import pytest

from tests.changed import MOST_SLOW, ROOT, Graph, is_slow, select, tracked


@pytest.fixture(scope="module")
def graph():
    return Graph(ROOT, tracked())


@pytest.mark.parametrize(
    "changed,expected",
    [
        ("launcher/pricing/spot.py", "tests/unit/pricing/test_spot.py"),  # an import
        ("launcher/cli/status.py", "tests/unit/cli/test_status.py"),  # a command that a test names
        ("launcher/targets/pcs/target.py", "tests/unit/planning/test_limits.py"),  # a registry
        ("templates/guard/schedule.py", "tests/infra/test_guard_schedule.py"),  # a program that a test loads
        ("docs/clusters.md", "tests/unit/test_documentation.py"),  # a folder of documents
        ("launcher/catalog/data/offerings.csv", "tests/data/test_hardware.py"),  # a data file
        ("tests/unit/conftest.py", "tests/unit/pricing/test_spot.py"),  # fixtures
    ],
)
def test_change_selects_a_dependent_test(graph, changed, expected):
    near, far = select([changed], graph)
    assert expected in {*near, *far}


def test_unrelated_module_is_not_selected(graph):
    near, far = select(["launcher/answers/ledger.py"], graph)
    assert "tests/unit/pricing/test_spot.py" not in {*near, *far}


def test_slow_tests_are_limited_to_the_nearest(graph):
    near, far = select(["launcher/model/plan.py"], graph)
    assert sum(name.startswith("tests/") and is_slow(name) for name in near) == MOST_SLOW
    assert far


def test_lock_file_change_selects_every_test(graph):
    near, far = select(["requirements.lock"], graph)
    assert far == []
    assert {"tests/sandbox/test_launch.py", "tests/unit/pricing/test_spot.py"} <= set(near)


def test_architecture_tests_are_always_selected(graph):
    assert "tests/test_architecture.py" in select(["README.md"], graph)[0]
