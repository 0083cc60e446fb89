"""The metadata of a PyTorch distributed checkpoint: a pickle that names every shard. Agent and launcher read it.

The metadata comes from a bucket and is not trusted, so Slipway never unpickles it, and needs no torch. Slipway reads
the opcodes one by one (`pickletools`) and creates only data: numbers, texts, containers, and for every object a
placeholder that has only attributes. Slipway looks up no name, calls nothing, uses no more memory than the bytes that
describe the data, and compares, hashes or prints nothing that may be deeper, or longer, than it looks.
"""

import pickletools
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from launcher.agent.errors import ManifestError

MAX_BYTES = 256 * 1024 * 1024
"""Maximum size of the metadata; that of a model with 10,000 tensors on 512 ranks has about a tenth."""


_MAX_LENGTH = 2**62
_VALUES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
_PUTS = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"))
_GETS = frozenset(("GET", "BINGET", "LONG_BINGET"))
_IGNORED = frozenset(("PROTO", "FRAME", "STOP"))


def check_size(size: int) -> None:
    """Refuse metadata that is too large to read.

    Raises:
        ManifestError: the metadata is too large.
    """
    if size > MAX_BYTES:
        raise ManifestError(f"not the metadata of a distributed checkpoint: {size:,} bytes, more than {MAX_BYTES:,}")


def dcp_shards(data: bytes) -> dict[str, int]:
    """The shards of a PyTorch distributed checkpoint.

    Returns the minimum size in bytes of each shard, by its path below the checkpoint.

    Raises:
        ManifestError: the data is not such metadata.
    """
    check_size(len(data))
    try:
        metadata = _PickleReader().read(data)
        entries = list(metadata.attributes["storage_data"].values())
        shards: dict[str, int] = {}
        for entry in entries:
            offset, length = entry.attributes["offset"], entry.attributes["length"]
            if (
                type(offset) is not int
                or type(length) is not int
                or not (0 <= offset < _MAX_LENGTH and 0 <= length < _MAX_LENGTH)
            ):
                raise ManifestError(
                    "not the metadata of a distributed checkpoint: an offset in a shard is not a number of bytes"
                )
            path, least = entry.attributes["relative_path"], (offset + length)
            if type(path) is not str:
                raise ManifestError("not the metadata of a distributed checkpoint: a shard's path is not text")
            shards[path] = max(least, shards.get(path, 0))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ManifestError(f"not the metadata of a distributed checkpoint: {error!r}") from error
    return shards


def pickled_value(data: bytes) -> Any:
    """The value that a pickle describes; every object in it is a placeholder.

    Raises:
        ManifestError: the data is not a pickle of plain data and objects.
    """
    try:
        return _PickleReader().read(data)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ManifestError(f"not a pickle of plain data: {error!r}") from error


class _PickledObject:
    """Replaces every object, class and function that a pickle names."""

    __slots__ = ("attributes",)

    def __init__(self) -> None:
        self.attributes: dict[Any, Any] = {}


class _PickleReader:
    """Interprets the opcodes of one pickle (`pickletools` describes each); objects stay `_PickledObject`s."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # what lay on the stack at each mark
        self._memo: dict[int, Any] = {}

    def read(self, data: bytes) -> Any:
        """The value that the pickle describes.

        Raises:
            ValueError: the data is not a pickle, is incomplete, or has an opcode that no such metadata needs.
        """
        for opcode, argument, _ in pickletools.genops(data):
            name = opcode.name
            if name in _VALUES:
                self._stack.append(argument)
            elif name in _CONSTANTS:
                self._stack.append(_CONSTANTS[name]())
            elif name in _PUTS:
                self._memo[len(self._memo) if argument is None else int(argument)] = self._stack[-1]
            elif name in _GETS:
                self._stack.append(self._memo[int(argument or 0)])
            elif name in _STEPS:
                _STEPS[name](self)
            elif name not in _IGNORED:
                raise ValueError(f"opcode {name}")
        return self._stack.pop()

    def mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def group(self) -> list[Any]:
        items, self._stack = self._stack, self._below.pop()
        return items

    def push(self, make: Callable[[Iterable[Any]], Any], number: int | None = None) -> None:
        """Push a value made of the last `number` values on the stack; None: of the values since the last mark."""
        values = self.group() if number is None else [self._stack.pop() for _ in range(number)][::-1]
        self._stack.append(make(values))

    def add(self, values: list[Any]) -> None:
        """Add values to the list on top; if the top is an object (a list of another kind), nothing is added."""
        if isinstance(self._stack[-1], list):
            self._stack[-1].extend(values)

    def put(self, values: list[Any]) -> None:
        if isinstance(self._stack[-1], dict):
            self._stack[-1].update(_pairs(values))

    def build(self) -> None:
        state = self._stack.pop()
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict) and isinstance(self._stack[-1], _PickledObject):
                self._stack[-1].attributes.update(part)

    def pop(self) -> Any:
        return self._stack.pop()

    def again(self) -> None:
        self._stack.append(self._stack[-1])


def _pairs(values: Iterable[Any]) -> dict[Hashable, Any]:
    """The items of a mapping. A key that is a container is omitted: its hash may never end, or exhaust the stack."""
    items = list(values)
    return {
        key: value
        for key, value in zip(items[::2], items[1::2], strict=True)
        if not isinstance(key, tuple | list | dict)
    }


def _pickled_object(_: Iterable[Any]) -> _PickledObject:
    return _PickledObject()


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": _PickledObject,
    "GLOBAL": _PickledObject,
}
_STEPS: dict[str, Callable[[_PickleReader], object]] = {
    "MARK": _PickleReader.mark,
    "POP": _PickleReader.pop,
    "POP_MARK": _PickleReader.group,
    "DUP": _PickleReader.again,
    "LIST": lambda reader: reader.push(list),
    "TUPLE": lambda reader: reader.push(tuple),
    "TUPLE1": lambda reader: reader.push(tuple, 1),
    "TUPLE2": lambda reader: reader.push(tuple, 2),
    "TUPLE3": lambda reader: reader.push(tuple, 3),
    "DICT": lambda reader: reader.push(_pairs),
    "FROZENSET": lambda reader: reader.push(_pickled_object),
    "ADDITEMS": _PickleReader.group,
    "APPEND": lambda reader: reader.add([reader.pop()]),
    "APPENDS": lambda reader: reader.add(reader.group()),
    "SETITEM": lambda reader: reader.put([reader.pop(), reader.pop()][::-1]),
    "SETITEMS": lambda reader: reader.put(reader.group()),
    "STACK_GLOBAL": lambda reader: reader.push(_pickled_object, 2),
    "BINPERSID": lambda reader: reader.push(_pickled_object, 1),
    "REDUCE": lambda reader: reader.push(_pickled_object, 2),
    "NEWOBJ": lambda reader: reader.push(_pickled_object, 2),
    "NEWOBJ_EX": lambda reader: reader.push(_pickled_object, 3),
    "BUILD": _PickleReader.build,
}
"""The action of each opcode; a set is only a placeholder, because Slipway never reads one."""
