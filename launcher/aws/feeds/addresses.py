"""Addresses of AWS's public price files, and the settings that replace them."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.catalog.bill import EVERYWHERE

PRICE_LIST = "https://pricing.us-east-1.amazonaws.com"
"""The Price List's files, which AWS documents; the paths of the offers below it are fixed."""
SPOT_PAGE = "https://website.spot.ec2.aws.a2z.com/spot.json"
"""The file behind AWS's Spot price page: every region, one price per type. No contract guarantees it."""
SPOT_ADVISOR = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
"""The file behind the Spot Instance Advisor: bands of interruptions. No contract guarantees it."""

SETTINGS = {
    "AWS_ENDPOINT_URL_PRICING": PRICE_LIST,
    "SLIPWAY_SPOT_PAGE_URL": SPOT_PAGE,
    "SLIPWAY_SPOT_ADVISOR_URL": SPOT_ADVISOR,
}
"""Environment variables and the addresses that they replace: the Price List's host, and the two files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses that an environment uses."""

    price_list: str = PRICE_LIST
    spot_page: str = SPOT_PAGE
    spot_advisor: str = SPOT_ADVISOR

    @property
    def index(self) -> str:
        """The list of all services that have offer files."""
        return f"{self.price_list.rstrip('/')}/offers/v1.0/aws/index.json"

    def offer(self, service: str, region: str) -> str:
        """The current offer file of a service in a region, or its complete file for offers without a region.

        >>> Addresses(price_list="http://127.0.0.1:1/").offer("AmazonVPC", "us-east-1")
        'http://127.0.0.1:1/offers/v1.0/aws/AmazonVPC/current/us-east-1/index.json'
        """
        place = "" if region == EVERYWHERE else f"/{region}"
        return f"{self.price_list.rstrip('/')}/offers/v1.0/aws/{service}/current{place}/index.json"


def addresses(environment: Mapping[str, str]) -> Addresses:
    """The addresses of an environment; an empty variable counts as unset."""
    urls = {name: environment.get(name) or standard for name, standard in SETTINGS.items()}
    price_list, spot_page, advisor = urls.values()
    return Addresses(price_list=price_list, spot_page=spot_page, spot_advisor=advisor)
