"""The Price List's offer file of one service in one region, read piece by piece and never held whole.

A file of EC2 in a large region has hundreds of megabytes: `products` by SKU, then `terms` by kind and SKU. What is
wanted is picked on the way; a piece becomes a `Product` of the very shape that GetProducts answers with.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from launcher.agent import safe_json
from launcher.aws.price_list import Product, stated_attributes
from launcher.model.errors import AwsError

CHUNK = 1 << 20
_SPACE = " \t\r\n"
_MOST_CHARACTERS = 16 << 20
"""Of one product or its terms; AWS's have some 10,000."""

Wanted = Callable[[dict[str, str]], bool]
"""Whether a product of some attributes is wanted."""


def products(path: Path, what: str, wanted: Wanted) -> list[Product]:
    """The wanted products of an offer file with their terms.

    Raises:
        AwsError: it is not of the shape, or ends early.
    """
    attributes: dict[str, dict[str, str]] = {}
    terms: dict[str, dict[str, Any]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for kind, sku, piece in _pieces(_Reader(file)):
                if kind == "products":
                    stated = stated_attributes(piece) if "attributes" in piece else {}
                    if wanted(stated):
                        attributes[sku] = stated
                elif sku in attributes:
                    terms.setdefault(sku, {})[kind] = piece
    except (ValueError, AttributeError, EOFError) as problem:
        raise AwsError(f"{what}: not the shape of an offer file, so no price is taken from it") from problem
    return [Product(attributes=found, terms=terms.get(sku, {})) for sku, found in attributes.items()]


def _pieces(reader: "_Reader") -> Iterator[tuple[str, str, Any]]:
    """Each product as ("products", SKU, product), each SKU's terms as (kind, SKU, terms)."""
    seen = set()
    for part in reader.members():
        if part == "products":
            seen.add(part)
            for sku in reader.members():
                yield part, sku, reader.value()
        elif part == "terms":
            if "products" not in seen:
                raise ValueError("terms before products")
            seen.add(part)
            for kind in reader.members():
                for sku in reader.members():
                    yield kind, sku, reader.value()
        else:
            reader.skip()
    if seen != {"products", "terms"}:
        raise ValueError("products or terms are missing")


class _Reader:
    """A JSON text read from the front: the members of an object one by one, each value decoded or passed over."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._ended = False

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here; who iterates reads or skips each value.

        Raises:
            ValueError: there is no object.
            EOFError: the text ends within it.
        """
        self._take("{")
        if self._next() == "}":
            self._at += 1
            return
        while True:
            key = self.value()
            self._take(":")
            yield key
            if self._next() == "}":
                self._at += 1
                return
            self._take(",")

    def value(self) -> Any:
        """The value that begins here; an object or array is held whole."""
        self._next()
        while True:
            try:
                value, end = safe_json.value_at(self._text, self._at)
            except ValueError:
                if len(self._text) - self._at > _MOST_CHARACTERS or not self._fill():
                    raise
                continue
            # A number at the end of what was read may go on.
            if end < len(self._text) or not self._fill():
                self._at = end
                return value

    def skip(self) -> None:
        """Pass over the value that begins here without holding more than one of its members."""
        if self._next() == "{":
            for _ in self.members():
                self.value()
        else:
            self.value()

    def _take(self, expected: str) -> None:
        found = self._next()
        if found != expected:
            raise ValueError(f"{found!r} where {expected!r} should be")
        self._at += 1

    def _next(self) -> str:
        """The next character that is no space."""
        while True:
            while self._at < len(self._text):
                character = self._text[self._at]
                if character not in _SPACE:
                    return character
                self._at += 1
            if not self._fill():
                raise EOFError

    def _fill(self) -> bool:
        """Read on, and forget what was passed; whether anything came."""
        if self._ended:
            return False
        chunk = self._file.read(CHUNK)
        self._ended = not chunk
        if chunk:
            self._text = self._text[self._at :] + chunk
            self._at = 0
        return bool(chunk)
