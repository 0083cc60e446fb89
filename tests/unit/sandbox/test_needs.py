"""The sandbox refuses to start where it cannot run: on macOS, or in an installation without its extra."""

import importlib.util
import os

import pytest

from launcher.model.errors import ImpossibleError
from launcher.sandbox import needs, processes, running_sandbox
from launcher.sandbox.sandbox import Sandbox

STARTS = [Sandbox, lambda: running_sandbox.start(os.environ)]


@pytest.mark.parametrize("start", STARTS)
def test_sandbox_without_proc_is_refused_with_the_supported_system(monkeypatch, tmp_path, start):
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    with pytest.raises(ImpossibleError, match="through /proc, which this system does not have") as refusal:
        start()
    assert "Linux" in refusal.value.hint


@pytest.mark.parametrize("start", STARTS)
def test_sandbox_without_packages_is_refused_with_the_install_command(monkeypatch, start):
    real = importlib.util.find_spec
    absent = ("moto", "flask_cors")
    monkeypatch.setattr(needs, "find_spec", lambda name: None if name in absent else real(name))
    with pytest.raises(ImpossibleError, match="are not installed: moto, flask_cors") as refusal:
        start()
    assert refusal.value.hint == "pip install 'slipway-aws[sandbox]'"


def test_required_packages_are_in_the_sandbox_extra():
    from tests.plans import ROOT

    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("\nsandbox = [")[2].partition("\n]")[0]
    for name in set(needs.PACKAGES) - {"flask_cors"}:
        assert f'"{name.replace("_", "-")}' in text
    assert '"moto[server]' in text
