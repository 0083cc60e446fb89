"""Pagination: the tokens are botocore's, the last page ends it, and pages are requested only when needed."""

import re
from itertools import islice

import botocore.session
import pytest
from botocore.stub import Stubber

from launcher.aws.calls import _TOKENS, items, pages
from launcher.aws.session import Session
from launcher.model.errors import AwsError
from tests.plans import ROOT

AWS = ROOT / "launcher/aws"
BUCKET = {"Bucket": "slipway-test"}


def listings():
    """The operations with pages that are named in the modules of ours that turn pages."""
    session = botocore.session.get_session()
    for path in sorted(AWS.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"from launcher.aws.calls import .*\b(items|pages)\b", text):
            continue
        for service in sorted(set(re.findall(r'client\("([\w-]+)"\)', text))):
            client = session.create_client(service, region_name="us-east-2")
            for name in sorted(set(re.findall(r"\.(\w+)", text)) & set(client.meta.method_to_api_mapping)):
                if client.can_paginate(name):
                    yield service, name, client.meta.method_to_api_mapping[name]


def list_names(value):
    return value if isinstance(value, list) else [value]


def test_page_tokens_equal_the_ones_of_botocore():
    loader, calls, others = botocore.session.get_session().get_component("data_loader"), list(listings()), []
    for service, name, operation in calls:
        paged = loader.load_service_model(service, "paginators-1")["pagination"][operation]
        if [_TOKENS.get(token) for token in list_names(paged["output_token"])] != list_names(paged["input_token"]):
            others.append((service, name))
    assert len(calls) > 30
    assert others == []


@pytest.fixture
def stubbed_s3():
    session = Session(environment={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, region="us-east-2")
    with Stubber(session.client("s3")) as stubber:
        yield stubber


def versions(marker):
    return {"IsTruncated": True, "NextKeyMarker": marker, "NextVersionIdMarker": f"v{marker}"}


def test_both_markers_are_sent_and_is_truncated_false_ends_the_listing(stubbed_s3):
    stubbed_s3.add_response("list_object_versions", versions("a"), BUCKET)
    stubbed_s3.add_response(
        "list_object_versions",
        {**versions("b"), "IsTruncated": False},
        {**BUCKET, "KeyMarker": "a", "VersionIdMarker": "va"},
    )
    assert len(list(pages(stubbed_s3.client.list_object_versions, "list it", **BUCKET))) == 2
    stubbed_s3.assert_no_pending_responses()


def test_next_page_is_requested_only_when_needed(stubbed_s3):
    stubbed_s3.add_response("list_object_versions", versions("a"), BUCKET)
    assert len(list(islice(pages(stubbed_s3.client.list_object_versions, "list it", **BUCKET), 1))) == 1


def test_repeated_page_marker_is_refused(stubbed_s3):
    for marker in ("a", "b", "a"):
        stubbed_s3.add_response("list_object_versions", {**versions(marker), "Versions": []})
    with pytest.raises(AwsError, match="list it: page 3 leads back to an earlier one"):
        items(stubbed_s3.client.list_object_versions, "list it", "Versions", **BUCKET)
