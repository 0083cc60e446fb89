import json

import pytest

from launcher.catalog.assets import asset


def test_assets_of_checkout_are_at_repository_root():
    assert json.loads(asset("cdk.json").read_text())["app"] == "python -P -m infra.app"


def test_missing_asset_is_named():
    with pytest.raises(FileNotFoundError, match=r"slipway's own templates/absent\.j2 is missing"):
        asset("templates/absent.j2")
