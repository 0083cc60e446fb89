"""Which sandbox a folder uses."""

import pytest

from launcher.model.errors import UnreadableInputError
from launcher.sandbox import running_sandbox


def test_folder_uses_the_default_sandbox_until_another_is_selected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    assert running_sandbox.folder_of(environment) == tmp_path / "slipway" / "sandbox.json"
    running_sandbox.select(tmp_path, "team-2")
    assert running_sandbox.selected_in(tmp_path) == "team-2"
    assert running_sandbox.folder_of(environment) == tmp_path / "slipway" / "sandbox-team-2.json"
    assert running_sandbox.folder_of(environment, running_sandbox.DEFAULT) == tmp_path / "slipway" / "sandbox.json"
    running_sandbox.select(tmp_path, running_sandbox.DEFAULT)
    assert running_sandbox.selected_in(tmp_path) == running_sandbox.DEFAULT


@pytest.mark.parametrize("text", ["", "../x", "Team", "a" * 41, "a b"])
def test_invalid_sandbox_name_is_refused_with_the_file(tmp_path, text):
    (tmp_path / ".slipway").mkdir()
    (tmp_path / ".slipway" / "sandbox").write_text(text)
    with pytest.raises(UnreadableInputError, match="1 to 40 of a to z") as refused:
        running_sandbox.selected_in(tmp_path)
    assert str(tmp_path) in refused.value.message
    with pytest.raises(UnreadableInputError):
        running_sandbox.checked_name(text)
