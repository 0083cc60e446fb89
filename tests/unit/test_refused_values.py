"""Refused values of a plan file: the words beside the values, items of lists, and empty names."""

import pytest

from launcher import plan_file
from launcher.model.errors import UnreadableInputError


@pytest.mark.parametrize(
    "line, allowed",
    [
        ("workload: {train: {model: a, port_weeks: x, hours: 1}}", "auto or a number"),
        ("target: {placement_group: x}", "auto, true or false"),
        ("purchase: {term_years: x}", "any or a whole number"),
        ("guardrails: {idle_minutes: x}", "auto or a number"),
        ("run: {retries: x}", "auto or a whole number"),
        ("run: {container: x}", "auto, enroot, docker or none"),
    ],
)
def test_refused_value_names_the_word_that_is_allowed_beside_the_values(line: str, allowed: str) -> None:
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    assert f"must be {allowed}, got " in caught.value.findings[0].message


@pytest.mark.parametrize(
    "line, reason",
    [
        ("guardrails: {notify: someone}", "must be an email address, an ARN or an https URL"),
        ("workload: {train: {model: a, traits: fast, hours: 1}}", "must be one of changing-architecture"),
        ("purchase: {credits: {pool: a}}", "the key usd is required"),
    ],
)
def test_single_value_that_no_list_may_hold_gets_the_reason_and_no_list_to_write(line: str, reason: str) -> None:
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    assert caught.value.findings[0].hint.startswith(f"each item: {reason}")


@pytest.mark.parametrize(
    "line, path",
    [
        ("target: {region: ''}", "target.region"),
        ("target: {region: [' ']}", "target.region[0]"),
        ("target: {instance_type: ''}", "target.instance_type"),
        ("target: {az_id: ''}", "target.az_id"),
        ("storage: {head_node: ''}", "storage.head_node"),
        ("run: {workdir: ''}", "run.workdir"),
        ("run: {image: ''}", "run.image"),
        ("run: {image: my image}", "run.image"),
        ("run: {command: ['', -v]}", "run.command"),
        ("purchase: {credits: [{pool: '', usd: 5}]}", "purchase.credits[0].pool"),
        ("workload: {serve: {model: a, image: ''}}", "workload.serve.image"),
    ],
)
def test_empty_name_is_refused(line: str, path: str) -> None:
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    assert path in [finding.path for finding in caught.value.findings]


def test_empty_argument_variable_and_tag_are_kept() -> None:
    request = plan_file.loads("slipway: 1\nname: x\nrun: {command: [a, ''], env: {V: ''}}\ntags: {a: ''}\n")
    assert (request.run.command, request.run.env["V"], request.tags["a"]) == (("a", ""), "", "")
