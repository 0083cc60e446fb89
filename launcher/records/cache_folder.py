"""The folder of the user's own files and refreshed prices."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

PRICED_BY = ("", "_EC2", "_PRICING", "_SAVINGSPLANS", "_SAGEMAKER")
"""Suffixes of AWS_ENDPOINT_URL: for all services, and for the services with prices."""
OF_AWS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")


def own_folder(environment: Mapping[str, str]) -> Path:
    """The folder of the user's own data, independent of the AWS endpoint; it may not exist.

    >>> str(own_folder({"HOME": "/home/me", "AWS_ENDPOINT_URL": "http://127.0.0.1:5000"}))
    '/home/me/.cache/slipway'
    """
    stated = Path(environment.get("XDG_CACHE_HOME", ""))
    # A relative path is to be ignored (XDG base directory specification).
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    return (stated if stated.is_absolute() else home / ".cache") / "slipway"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The price cache folder of an environment: $XDG_CACHE_HOME or ~/.cache, then slipway/prices; it may not exist.

    Prices from an endpoint that is not AWS's (AWS_ENDPOINT_URL) are stored separately, and never count as AWS's prices.

    >>> str(cache_folder({"XDG_CACHE_HOME": "/var/cache/me"})), str(cache_folder({"HOME": "/home/me"}))
    ('/var/cache/me/slipway/prices', '/home/me/.cache/slipway/prices')
    >>> str(cache_folder({"HOME": "/home/me", "AWS_ENDPOINT_URL": "http://127.0.0.1:5000"}))
    '/home/me/.cache/slipway/endpoints/f9413619c309/prices'
    """
    folder = own_folder(environment)
    endpoints = [environment.get(f"AWS_ENDPOINT_URL{service}", "") for service in PRICED_BY]
    others = [
        endpoint for endpoint in endpoints if endpoint and not (urlsplit(endpoint).hostname or "").endswith(OF_AWS)
    ]
    if others:
        from hashlib import sha256  # noqa: PLC0415 - it loads OpenSSL

        folder = folder / "endpoints" / sha256(" ".join(others).encode()).hexdigest()[:12]
    return folder / "prices"
