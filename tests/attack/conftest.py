"""What attacks have in common: a seed that is printed and can be given again (`SLIPWAY_ATTACK_SEED`), and agents."""

import os
import random

import pytest

from tests.sandbox.agent.conftest import bucket, endpoint, front, node, nursery  # noqa: F401  fixtures


@pytest.fixture
def seed(request, capsys):
    """The seed of one attack, said when it begins."""
    chosen = int(os.environ.get("SLIPWAY_ATTACK_SEED") or random.randrange(1 << 32))
    with capsys.disabled():
        print(f"\n{request.node.name}: SLIPWAY_ATTACK_SEED={chosen}")  # noqa: T201
    return chosen
