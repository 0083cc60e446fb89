"""File templates with placeholders, filled in: the same text as the CDK templates produce."""

import json
from dataclasses import fields, replace

import pytest

from launcher.rendering.batch import PENDING, JobArchive
from launcher.rendering.blanks import blank_archive, blank_names, with_archive, with_names
from launcher.rendering.bundle import render
from launcher.rendering.names import symbolic_names
from tests.unit.rendering.conftest import JOB

ODD = "s3://bucket/it's(ours)!*"
"""A place that a plan may name, and that a shell reads as something else."""
SHIPPED = JobArchive(uri=f"{ODD}/.work/a.tar.gz", sha256="ab" * 32, size="12345")


@pytest.fixture
def open_of(catalog):
    """The files of a plan with nothing filled in."""

    def make(plan):
        job = replace(JOB, archive=blank_archive(plan))
        return render(plan, instances=catalog.instance_types, names=blank_names(plan), job=job)

    return make


def of(bundle):
    return {file.path: (file.text, file.executable) for file in bundle.files}


def deploy(plan):
    """Names as a deployment gives them, none of which is what is shown before it."""
    known = symbolic_names(plan)
    names = {
        field.name: f"arn:aws:x:us-east-1:1:{field.name}/A" for field in fields(known) if getattr(known, field.name)
    }
    uris = {name: f"s3://made-{name.replace('_', '-')}/k" for name in names if name.endswith("uri")}
    return replace(known, **{**names, **uris})


def test_blanks_filled_with_deployment_names_equal_files_rendered_with_deployment_names(
    plan, open_of, bundle_of, catalog
):
    open_bundle = open_of(plan)
    assert of(with_archive(with_names(open_bundle, symbolic_names(plan)), PENDING)) == of(bundle_of(plan))
    names, job = deploy(plan), replace(JOB, archive=SHIPPED)
    expected = render(plan, instances=catalog.instance_types, names=names, job=job)
    assert of(with_archive(with_names(open_bundle, names), SHIPPED)) == of(expected)
    assert not any("blank-" in text for text, _ in of(expected).values())


def test_blanks_filled_with_odd_names_are_quoted_as_each_format_requires(plan, open_of, catalog):
    """In the shell of a batch script, in YAML, in JSON."""
    names = replace(symbolic_names(plan), store_uri=ODD, role_arn='"odd" \\n', lifecycle_uri='s3://b/"odd"')
    expected = of(render(plan, instances=catalog.instance_types, names=names, job=replace(JOB, archive=SHIPPED)))
    assert of(with_archive(with_names(open_of(plan), names), SHIPPED)) == expected


def test_existing_cluster_takes_the_stop_uri_of_the_guard_when_filled(open_of, plan_of):
    open_bundle = open_of(plan_of(target={"cluster": "shared"}))
    names = replace(symbolic_names(plan_of()), stop_uri="s3://shared/stop.json")
    assert json.loads(with_names(open_bundle, names).file("job.json").text)["stop_uri"] == "s3://shared/stop.json"
    assert json.loads(with_names(open_bundle, replace(names, stop_uri=None)).file("job.json").text)["stop_uri"] is None


def test_cluster_of_another_team_takes_a_message_uri_only_when_given(open_of, plan_of):
    plan = plan_of(target={"cluster": "theirs"}, checkpoint={"uri": "s3://theirs/runs"})
    open_bundle, names = open_of(plan), symbolic_names(plan)
    assert json.loads(with_names(open_bundle, names).file("job.json").text)["message_uri"] is None
    with_word = replace(names, message_uri="s3://ours/jobs/.guard/1/messages")
    assert json.loads(with_names(open_bundle, with_word).file("job.json").text)["message_uri"] == with_word.message_uri
