"""Failed price requests: retried, rejected as a whole, or reported with a fix."""

import pytest

from launcher.aws.calls import items
from launcher.aws.clients import Sessions
from launcher.aws.regions import enabled_regions
from launcher.aws.session import ATTEMPTS, CredentialsError, NoAccountError, Session
from launcher.model.errors import AwsError
from tests.emulators.aws_prices import BROKEN, CUT, EXPIRED, LOOP, THROTTLED, Fault
from tests.emulators.price_entries import ec2_product, term

PRODUCTS = [ec2_product("p5.48xlarge", f"eu-test-{number}", term("55")) for number in range(3)]


def products(session):
    return items(session.client("pricing").get_products, "the list", "PriceList", ServiceCode="AmazonEC2", MaxResults=1)


class TestAnswers:
    def test_throttling_and_server_errors_are_retried(self, price_services, session_of):
        price_services.products = PRODUCTS
        price_services.faults["GetProducts"].extend([THROTTLED, BROKEN, THROTTLED])
        assert len(products(session_of())) == 3
        assert price_services.operations() == ["GetProducts"] * 4

    @pytest.mark.parametrize("fault, message", [(THROTTLED, "ThrottlingException"), (BROKEN, "InternalFailure")])
    def test_retries_end_after_the_maximum_number_of_attempts(self, price_services, session_of, fault, message):
        price_services.always["GetProducts"] = fault
        with pytest.raises(AwsError, match=f"the list: .*{message}") as caught:
            products(session_of())
        assert caught.value.exit_code == 1
        assert not isinstance(caught.value, CredentialsError)
        assert len(price_services.requests) == 1 + ATTEMPTS

    def test_truncated_page_fails_the_whole_listing(self, price_services, session_of):
        price_services.products, price_services.page_size = PRODUCTS, 1
        price_services.faults["GetProducts"].extend([None, CUT])
        with pytest.raises(AwsError, match="the list: the answer is cut short") as caught:
            products(session_of())
        assert caught.value.hint == "run it again"

    def test_truncated_xml_answer_is_an_error(self, price_services, session_of):
        price_services.always["DescribeRegions"] = CUT
        with pytest.raises(AwsError, match="describe the regions: the answer is cut short"):
            enabled_regions(session_of())

    def test_repeated_page_token_is_an_error(self, price_services, session_of):
        price_services.products, price_services.page_size = PRODUCTS, 1
        price_services.always["GetProducts"] = LOOP
        with pytest.raises(AwsError, match="leads back to an earlier one"):
            products(session_of())

    def test_failed_page_fails_the_whole_listing(self, price_services, session_of):
        price_services.products, price_services.page_size = PRODUCTS, 1
        price_services.faults["GetProducts"].extend([None, Fault(code="InvalidNextTokenException", message="gone")])
        with pytest.raises(AwsError, match="InvalidNextTokenException: gone"):
            products(session_of())

    def test_unreachable_endpoint_is_an_aws_error(self, price_services, tmp_path):
        environment = {**price_services.environment(tmp_path), "AWS_ENDPOINT_URL_PRICING": "http://127.0.0.1:9"}
        session = Session(environment=environment, region="us-east-1")
        with pytest.raises(AwsError, match="the list: Could not connect"):
            products(session)


class TestCredentials:
    def test_expired_credentials_have_a_login_hint(self, price_services, session_of):
        price_services.always["GetProducts"] = EXPIRED
        with pytest.raises(CredentialsError, match="ExpiredTokenException") as caught:
            products(session_of())
        assert caught.value.exit_code == 1
        assert "aws sso login" in caught.value.hint
        assert len(price_services.requests) == 1

    @pytest.mark.parametrize("value", [None, ""])
    @pytest.mark.parametrize(
        "gone, message",
        [
            (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "no AWS credentials"),
            (("AWS_SECRET_ACCESS_KEY",), "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"),
        ],
    )
    def test_missing_or_partial_credentials_are_reported_before_any_call(
        self, price_services, tmp_path, gone, message, value
    ):
        environment = {**price_services.environment(tmp_path), **dict.fromkeys(gone, value)}
        with pytest.raises(CredentialsError, match=message) as caught:
            Sessions(environment)
        assert "AWS_PROFILE" in caught.value.hint
        assert price_services.requests == []

    def test_missing_profile_is_reported(self, price_services, tmp_path):
        environment = {"AWS_PROFILE": "nobody", "XDG_CACHE_HOME": str(tmp_path)}
        with pytest.raises(CredentialsError, match="nobody"):
            Sessions(environment)

    def test_unreachable_proxy_of_the_metadata_service_is_reported_as_no_account(self, tmp_path, monkeypatch):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(NoAccountError, match="no AWS credentials: Failed to connect to proxy") as caught:
            Sessions({})
        assert "HTTP_PROXY" in caught.value.hint


class TestSessions:
    def test_client_of_a_region_is_shared(self, price_services, tmp_path):
        sessions = Sessions(price_services.environment(tmp_path))
        first = sessions.session("us-west-2", "ec2")
        assert sessions.session("us-west-2", "ec2").client("ec2") is first.client("ec2")
        assert sessions.session("us-east-1", "ec2").client("ec2") is not first.client("ec2")
        assert sessions.home == "us-east-1"
        assert enabled_regions(first) == {"us-east-1", "us-east-2", "us-west-2"}
        assert price_services.requests[0].region == "us-west-2"
        sessions.close()
