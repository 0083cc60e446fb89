"""A kubeconfig that cannot be used: what it is, in one sentence, and no hang."""

import os

import pytest

from launcher.model.errors import ImpossibleError
from launcher.submit.kubernetes import connection
from launcher.submit.kubernetes.connection import to_context

HINT = "kubectl config get-contexts"


def refusal(config):
    with pytest.raises(ImpossibleError, match=r"target\.context: there cannot be used: ") as caught:
        to_context("there", str(config))
    assert HINT in caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("make", ["device", "pipe", "terminal", "folder", "large"])
def test_kubeconfig_other_than_a_bounded_regular_file_is_refused(tmp_path, monkeypatch, make):
    config = tmp_path / "config"
    if make in {"device", "terminal"}:
        config.symlink_to({"device": "/dev/zero", "terminal": "/dev/tty"}[make])
    elif make == "pipe":
        os.mkfifo(config)
    elif make == "folder":
        config.mkdir()
    else:
        monkeypatch.setattr(connection, "MAX_BYTES", 100)
        config.write_text("#" * 101)
    assert "it is " in refusal(config)


@pytest.mark.parametrize(
    "text",
    ["", "[1, 2]", "a: [", "contexts: 5", "clusters: [{}]\ncontexts: [{name: there}]", "\xff\x00", "contexts: [there]"],
)
def test_kubeconfig_of_another_form_is_refused_in_a_sentence(tmp_path, text):
    config = tmp_path / "config"
    config.write_text(text, encoding="latin-1")
    assert "\n" not in refusal(config)


def test_second_file_of_a_kubeconfig_list_is_checked(tmp_path):
    os.mkfifo(tmp_path / "b")
    (tmp_path / "a").write_text("apiVersion: v1\nkind: Config\n")
    assert "it is a named pipe" in refusal(os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")]))


def test_missing_kubeconfig_is_refused(tmp_path):
    refusal(tmp_path / "none")
