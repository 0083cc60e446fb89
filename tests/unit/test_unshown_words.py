"""A file other than a plan may hold secrets: what messages show of it is short."""

import pytest
import yaml

from launcher import plan_file
from launcher.model.errors import UnreadableInputError


def test_file_other_than_a_plan_with_keys_of_one_shows_no_value():
    text = "name: [wJalrXUtnFEMIK7MDENG]\nrun: wJalrXUtnFEMIK7MDENG\ntoken: hf_abcdefghijklmnopqrst\n"
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(text)
    assert {finding.path for finding in caught.value.findings} == {"token", "slipway"}
    assert "wJalr" not in str(caught.value.findings)


def test_file_other_than_a_plan_shows_three_keys_of_twenty_characters() -> None:
    secrets = {f"AWS_SECRET_ACCESS_KEY_OF_TEAM_{number}": f"wJalrXUtnFEMI{number}" for number in range(9)}
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(yaml.safe_dump(secrets))
    shown = " ".join(f"{finding.path} {finding.message} {finding.hint}" for finding in caught.value.findings)
    assert "wJalrXUtnFEMI" not in shown
    assert "KEY_OF_TEAM" not in shown
    assert shown.count("AWS_SECRET_ACCESS_KE") == 6
    assert "6 more unknown keys" in shown
    assert [finding.line for finding in caught.value.findings[:3]] == [1, 2, 3]


@pytest.mark.parametrize(
    "line",
    [
        "a: *KEY",
        "a: !KEY x",
        "a: !!bool KEY",
        "run: {env: {'KEY x': b}}",
        "tags: {'KEY;': b}",
        "KEY: 1\nKEY: 2",
        "KEY: 1",
    ],
)
def test_word_of_an_invalid_plan_file_is_cut_to_twenty_characters(line: str) -> None:
    key = "hunter2-is-my-password-for-all-accounts"
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line.replace('KEY', key)}\n")
    findings = " ".join(f"{finding.path} {finding.message} {finding.hint}" for finding in caught.value.findings)
    shown = f"{caught.value.message} {caught.value.hint} {findings}"
    assert key[:19] in shown
    assert key[:21] not in shown


@pytest.mark.parametrize(
    "text", ["root:x:0:0:root:/root:/bin/bash", "- hunter2-is-my-password", "hunter2-is-my-password"]
)
def test_text_other_than_a_mapping_is_not_shown(text: str) -> None:
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(text)
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
    assert "/bin/bash" not in f"{caught.value.message} {caught.value.hint}"
