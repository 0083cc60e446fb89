"""The metadata of a PyTorch distributed checkpoint: a pickle that names every shard. Both sides read it, without torch.

It comes from a bucket. Nothing that a pickle can hold is run, and its opcodes are looked at before anything is made of
them (`pickletools`): Python's unpickler sets aside memory for what an opcode announces, and nine bytes that put
something into the memo under a large number cost gigabytes.
"""

import io
import pickle
import pickletools
from typing import Any

from launcher.agent.errors import ManifestError

MOST_BYTES = 256 * 1024 * 1024
"""Of the metadata of a distributed checkpoint; that of a model with 10,000 tensors on 512 ranks has about a tenth."""

_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


def _excess(data: bytes) -> str:
    """What in a pickle goes beyond its own size, in words; empty if nothing does.

    Raises:
        ValueError: It is no pickle, or is cut off.
    """
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _PUTS and isinstance(argument, int) and not 0 <= argument <= len(data):
            return f"it numbers something {argument:,} in {len(data):,} bytes"
    return ""


def check_size(size: int) -> None:
    """Refuse metadata that is too large to be read.

    Args:
        size: Of the object, in bytes.

    Raises:
        ManifestError: It is.
    """
    if size > MOST_BYTES:
        raise ManifestError(f"not the metadata of a distributed checkpoint: {size:,} bytes, more than {MOST_BYTES:,}")


def dcp_shards(data: bytes) -> dict[str, int]:
    """The shards that a PyTorch distributed checkpoint is made of.

    Args:
        data: Content of its `.metadata`.

    Returns:
        For each shard, by its path below the checkpoint, how many bytes it must have at least.

    Raises:
        ManifestError: It is not such metadata.
    """
    check_size(len(data))
    try:
        if beyond := _excess(data):
            raise ManifestError(f"not the metadata of a distributed checkpoint: {beyond}")
        metadata = _InertUnpickler(io.BytesIO(data)).load()
        entries = list(metadata.__dict__["storage_data"].values())
        shards: dict[str, int] = {}
        for entry in entries:
            path, end = entry.__dict__["relative_path"], entry.__dict__["offset"] + entry.__dict__["length"]
            shards[str(path)] = max(int(end), shards.get(str(path), 0))
    except (
        pickle.UnpicklingError,
        ArithmeticError,
        AttributeError,
        EOFError,
        ImportError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise ManifestError(f"not the metadata of a distributed checkpoint: {error!r}") from error
    return shards


class _Inert:
    """Stands for every class and function in a pickle: takes whatever it is given, does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take anything."""

    def __new__(cls, *_: Any, **__: Any) -> "_Inert":  # noqa: PYI034  typing.Self came with Python 3.11
        """Make one of anything."""
        return super().__new__(cls)

    def __setstate__(self, state: Any) -> None:
        """Keep the attributes, which are all that is asked of it."""
        if isinstance(state, dict):
            self.__dict__.update(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        """As a mapping of another kind: forget the item."""

    def append(self, item: Any) -> None:
        """As a list of another kind: forget the item."""


class _InertUnpickler(pickle.Unpickler):
    """Builds nothing but containers, numbers, strings and `_Inert`."""

    def find_class(self, module: str, name: str) -> Any:
        """An inert class, whatever is named."""
        return type(name.rpartition(".")[2] or "Nameless", (_Inert,), {"__module__": module})
