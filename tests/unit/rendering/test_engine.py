"""The quoting filters are safe for every text, and templates cannot use undefined names."""

import importlib
import re
import shlex
import subprocess

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError, meta

from launcher.catalog.assets import asset
from launcher.rendering import engine
from launcher.rendering.engine import render_template, shell_word, yaml_scalar

NASTY = [
    "",
    " ",
    "no",
    "1e3",
    "0x1f",
    "null",
    "~",
    "a: b",
    "- a",
    "#",
    "'",
    '"',
    "\\",
    "\n",
    "\u2028",
    "\x85",
    "\ud800",
    "{{ x }}",
]


class TestYamlScalar:
    @given(st.text(st.characters(), max_size=80))
    def test_yaml_scalar_of_any_text_reads_back(self, text):
        assert yaml.safe_load(f"{{key: [{yaml_scalar(text)}], other: 1}}") == {"key": [text], "other": 1}

    @pytest.mark.parametrize("text", NASTY)
    def test_yaml_scalar_of_awkward_texts_reads_back(self, text):
        assert yaml.safe_load(f"- {yaml_scalar(text)}") == [text]

    @given(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False, width=32))
    def test_yaml_scalar_keeps_the_type_of_a_value(self, value):
        if not (isinstance(value, float) and "e" in repr(value)):
            assert yaml.safe_load(yaml_scalar(value)) == value
            assert type(yaml.safe_load(yaml_scalar(value))) is type(value)

    @pytest.mark.parametrize("value", [[], {}, b"x", object()])
    def test_yaml_scalar_of_another_type_is_refused(self, value):
        with pytest.raises(TypeError, match="a YAML scalar must be"):
            yaml_scalar(value)


class TestShellWord:
    @given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=80))
    def test_shell_word_of_any_text_is_one_word(self, text):
        assert shlex.split(f"echo {shell_word(text)} end") == ["echo", text, "end"]

    @pytest.mark.parametrize("text", ["$(touch x)", "`id`", "a\nb", "'; exit 1; '", '"$HOME"', "--flag", "*"])
    def test_shell_word_is_passed_on_unchanged_by_bash(self, text):
        answer = subprocess.run(
            ["bash", "-c", f"printf %s {shell_word(text)}"], capture_output=True, text=True, check=True
        )
        assert answer.stdout == text

    @pytest.mark.parametrize("value", [True, None, 1.5, ["a"]])
    def test_shell_word_of_another_type_is_refused(self, value):
        with pytest.raises(TypeError, match="a shell word must be"):
            shell_word(value)


class TestTemplates:
    TEMPLATES = sorted(asset("templates").rglob("*.j2"))

    @pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
    def test_first_line_of_a_template_declares_the_values_read(self, path):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        view = re.fullmatch(r"\{# context: (launcher\.targets\.\w+\.files)\.(\w+) #\}", first)
        values = re.fullmatch(r"\{# values: ([a-z_0-9, ]+) #\}", first)
        assert (view is None) != (values is None)
        if view is not None:
            assert hasattr(importlib.import_module(view[1]), view[2])
        if values is not None:
            assert values[1].split(", ") == sorted(self.read_by(path))

    def read_by(self, path):
        """The values that a template and what it includes read."""
        tree = engine.template_environment(asset("templates")).parse(path.read_text(encoding="utf-8"))
        others = [asset("templates") / template for template in meta.find_referenced_templates(tree)]
        return meta.find_undeclared_variables(tree).union(*(self.read_by(other) for other in others))

    @pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
    def test_template_has_only_loops_conditions_includes_and_filters(self, path):
        tags = re.findall(r"\{%-?\s*(\w+)", path.read_text(encoding="utf-8"))
        assert set(tags) <= {"if", "elif", "else", "endif", "for", "endfor", "include", "filter", "endfilter"}

    @pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
    def test_template_with_an_undefined_name_is_an_error(self, path):
        with pytest.raises(UndefinedError):
            render_template(path.relative_to(asset("templates")).as_posix())

    def test_template_environment_has_three_filters_and_no_globals(self):
        environment = engine.template_environment(asset("templates"))
        assert set(environment.filters) == {"indented", "shell", "yaml"}
        assert environment.globals == {}
