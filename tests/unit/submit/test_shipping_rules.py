"""Patterns of a `.slipwayignore`, compared with git's reading of a `.gitignore`."""

import os
import subprocess

import pytest

from launcher.submit.work_archive import ShippingRules, parsed

FILES = (
    *(
        "a.bin",
        "b.txt",
        "data/a.bin",
        "data/deep/a.bin",
        "data/deep/er/x",
        "deep/a.bin",
        "src/data/a.bin",
        "src/main.py",
    ),
    *("x[1].txt", "x1.txt", "#not", "!not", "sp ace", "doc/a/z", "doc/z", "doc/a/b/z", "build/out", "src/build/out"),
)
PATTERNS = (
    *("*.bin", "/*.bin", "data", "data/", "/data", "data/*", "data/**", "**/data", "**/a.bin", "doc/**/z", "build/"),
    *(
        "src/",
        "src/*",
        "deep/a.bin",
        "x[1].txt",
        "x[0-9].txt",
        "x[!1].txt",
        "x?.txt",
        "x??.txt",
        "\\#not",
        "\\!not",
        "# no",
    ),
    *(
        "sp ace",
        "sp*",
        "doc/*/z",
        "a.*",
        "*",
        "[",
        "x[",
        "/",
        "**",
        "d*a",
        "data/deep/",
        "data/deep/*",
        "a.bin  ",
        "*a*n",
    ),
    *("src/**", "/src/**/out", "**/deep/**", "x[[:digit:]].txt"),
)
KNOWN_APART = {"x[[:digit:]].txt"}
"""POSIX classes are not read here."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    subprocess.run(["git", "init", "-q", str(folder)], check=True, env={"PATH": os.environ["PATH"]})
    return folder


def ignored_by_git(tree, pattern):
    rules = tree / ".git" / "info" / "exclude"
    rules.write_text(f"{pattern}\n")
    command = ["git", "-C", str(tree), "ls-files", "-z", "--others", "--ignored", "--exclude-standard"]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return {name.decode() for name in done.stdout.split(b"\0") if name}


@pytest.mark.parametrize("pattern", [pattern for pattern in PATTERNS if pattern not in KNOWN_APART])
def test_a_pattern_means_what_it_means_to_git(tree, pattern):
    rules = ShippingRules(rules=tuple(parsed(pattern)))
    assert {name for name in FILES if rules.explicit_verdict(name) is False} == ignored_by_git(tree, pattern)


def test_the_last_rule_that_speaks_decides():
    rules = ShippingRules(rules=tuple(parsed("*\n!keep/\nkeep/not\n!/a\n")))
    verdicts = {name: rules.explicit_verdict(name) for name in ("x/y", "keep/a", "keep/deep/b", "keep/not", "a", "b/a")}
    assert verdicts == {"x/y": False, "keep/a": True, "keep/deep/b": True, "keep/not": False, "a": True, "b/a": False}


@pytest.mark.parametrize(
    "name",
    [
        *("credentials.json", "infra/terraform.tfstate", "terraform.tfstate.backup", "prod.tfstate", ".vault-token"),
        *(".bash_history", ".cache/huggingface/token", "huggingface/stored_tokens", ".S3CFG", "client_secret_7.json"),
    ],
)
def test_files_that_hold_credentials_by_their_names_stay(name):
    assert ShippingRules().is_private(name) == name
    assert ShippingRules(rules=tuple(parsed(f"!{name}\n"))).is_private(name) is None


@pytest.mark.parametrize("name", ["tokenizer/token", "huggingface/hub/model.py", "tfstate.py", "credentials.py"])
def test_other_files_of_such_words_go(name):
    assert ShippingRules().is_private(name) is None


def test_a_line_readmits_below_a_private_folder():
    rules = ShippingRules(rules=tuple(parsed("!.aws/config\n")))
    assert (rules.is_private(".aws/config"), rules.is_private(".aws/credentials")) == (None, ".aws")
