"""Patterns of a `.slipwayignore`, compared with git's reading of a `.gitignore`."""

import os
import random
import subprocess

import pytest

from launcher.submit.shipping_rules import ShippingRules, parse_rules, rules_of

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
TOGETHER = (
    *(
        "build/\n!build/out",
        "build/*\n!build/out",
        "*\n!keep/\nkeep/not\n!/a.bin",
        "data/**\n!data/deep/",
        "d*a\n!data/**",
    ),
    *(
        "data/deep/*\n!**/",
        "**/\n!/data",
        "src/\n!/",
        "*.bin\n!data/",
        "*\n!*/\n!*.bin",
        "!\n*.txt\n\\",
        "x[b-a]\n*.bin",
    ),
    *("data\n!data/a.bin", "/*\n!/src/\n/src/*\n!/src/main.py", "!*.bin\n*.bin", "build/\n!build/\nbuild/*\n!out"),
)
"""Several lines, as they are in a file."""


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


@pytest.mark.parametrize("lines", [*PATTERNS, *TOGETHER])
def test_ignore_lines_leave_out_the_same_files_as_git(tree, lines):
    rules = ShippingRules(rules=tuple(parse_rules(lines)))
    assert {name for name in FILES if rules.explicit_verdict(name) is False} == ignored_by_git(tree, lines)


def test_random_ignore_lines_leave_out_the_same_files_as_git(tree):
    draw = random.Random(7)
    for _ in range(150):
        lines = "\n".join(draw.choice(("", "!")) + draw.choice(PATTERNS) for _ in range(draw.randint(2, 4)))
        rules = ShippingRules(rules=tuple(parse_rules(lines)))
        assert {name for name in FILES if rules.explicit_verdict(name) is False} == ignored_by_git(tree, lines), lines


def test_ignore_file_with_byte_order_mark_keeps_the_first_line(tmp_path):
    (tmp_path / ".slipwayignore").write_bytes("\ufeff*.bin\r\n!small.bin\r\n".encode())
    rules = rules_of(tmp_path)
    assert [rules.explicit_verdict(name) for name in ("a.bin", "small.bin", "a.txt")] == [False, True, None]


@pytest.mark.parametrize(
    "name",
    [
        *("credentials.json", "infra/terraform.tfstate", "terraform.tfstate.backup", "prod.tfstate", ".vault-token"),
        *(".bash_history", ".cache/huggingface/token", "huggingface/stored_tokens", ".S3CFG", "client_secret_7.json"),
    ],
)
def test_files_with_names_of_credentials_are_private(name):
    assert ShippingRules().is_private(name) == name
    assert ShippingRules(rules=tuple(parse_rules(f"!{name}\n"))).is_private(name) is None


@pytest.mark.parametrize("name", ["tokenizer/token", "huggingface/hub/model.py", "tfstate.py", "credentials.py"])
def test_files_with_similar_names_are_not_private(name):
    assert ShippingRules().is_private(name) is None


def test_ignore_line_readmits_a_file_of_a_private_folder():
    rules = ShippingRules(rules=tuple(parse_rules("!.aws/config\n")))
    assert (rules.is_private(".aws/config"), rules.is_private(".aws/credentials")) == (None, ".aws")
