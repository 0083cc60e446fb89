"""The policy of `slipway diff`: a small YAML file, which options of the command line override."""

from decimal import Decimal, InvalidOperation
from pathlib import Path

from launcher.catalog import safe_yaml
from launcher.catalog.regular_file import read_named
from launcher.model.errors import UnreadableInputError
from launcher.model.names import nearest_name
from launcher.model.plan_diff import DiffPolicy
from launcher.model.values import cut, describe

MAX_BYTES = 1 << 20
KEYS = ("max_increase_usd", "max_increase_percent")


def policy_of(path: Path | None, usd: Decimal | None, percent: float | None) -> DiffPolicy:
    """The policy of a file; values from the command line override it.

    Raises:
        UnreadableInputError: the file is unreadable, has an unknown key, or a value is not an amount.
    """
    stated = {} if path is None else _read(path)
    known = stated.get("max_increase_percent")
    return DiffPolicy(
        max_increase_usd=stated.get("max_increase_usd") if usd is None else usd,
        max_increase_percent=(None if known is None else float(known)) if percent is None else percent,
    )


def _read(path: Path) -> dict[str, Decimal]:
    try:
        data = safe_yaml.loads(read_named(path, MAX_BYTES).decode("utf-8-sig"))
    except (OSError, ValueError) as problem:
        raise UnreadableInputError(f"cannot read the policy {path}: {' '.join(str(problem).split())}") from problem
    if not isinstance(data, dict):
        raise UnreadableInputError(
            f"{path}: a policy is a mapping with {' and '.join(KEYS)}, got {type(data).__name__}"
        )
    for key in data:
        if key not in KEYS:
            hint = nearest_name(str(key), KEYS) or f"known: {', '.join(KEYS)}"
            raise UnreadableInputError(f"{path}: unknown key {describe(cut(key))}", hint=hint)
    return {key: _amount(path, key, value) for key, value in data.items() if value is not None}


def _amount(path: Path, key: str, value: object) -> Decimal:
    try:
        number = Decimal(str(value)) if not isinstance(value, bool) else Decimal("nan")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or number < 0:
        raise UnreadableInputError(f"{path}: {key} must be a number, 0 or more, got {describe(cut(value))}")
    return number
