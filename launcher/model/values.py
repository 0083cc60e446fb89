"""Single values of a plan file: plain data into text, numbers, dollars and moments, with a finding for each error."""

import json
import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from launcher.model import kinds
from launcher.model.finding import Finding, error
from launcher.model.names import nearest_name

OUT_OF_RANGE = "out-of-range"
YEARS = range(2000, 2200)
"""Allowed years of any moment in a plan."""
LARGEST = 1e18
"""Limit of any number in a plan, so that all arithmetic stays finite."""
SMALLEST_USD, LARGEST_USD = Decimal("1e-9"), Decimal(10**12)
WHOLE, _NUMBER = re.compile(r"\d{1,15}"), re.compile(r"\d{1,15}(\.\d{1,15})?")
_AMOUNT = r"\$? ?(?P<number>\d{1,3}(?:[,_]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?) ?(?P<unit>[A-Za-z%]*)"
"""A number with its unit, or with what separates thousands: $1,200 or 10 h."""
_LEADING_ZEROS = r"^0+(?=[0-9])"
"""YAML reads 010 as 8, and 09 as text."""
_OTHER_BASES = re.compile(r"[+-]?0[0-7_]+|[+-]?\d[\d_]*(?::[0-5]?\d)+(?:\.[\d_]*)?")
_ON_OFF = {**dict.fromkeys(("true", "yes", "on", "1"), "true"), **dict.fromkeys(("false", "no", "off", "0"), "false")}
_SCIENTIFIC = r"[+-]?\d+(\.\d*)?[eE][+-]?\d+"
"""A number that YAML 1.1 reads as text."""
_STORE = "store a secret in Secrets Manager and write its ARN: arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME"
_SHOWN = 60
"""Maximum characters of a value in a message, to fit a line."""
_SHOWN_OF_FILE = 20
FAILED = object()
"""The result of a reader for an invalid value; the finding gives the reason."""


def describe(value: object) -> str:
    """A value as shown in a message: short, and in the plan file's notation."""
    text = ""
    try:
        # Piece by piece: a few aliases of aliases stand for a billion values.
        for piece in json.JSONEncoder(default=str, ensure_ascii=False).iterencode(value):
            text += piece
            if len(text) > _SHOWN:
                break
    except (ValueError, RecursionError):
        return "what cannot be shown"  # a number of more than 4,300 digits, or lists in lists without end
    return cut_line(text)


def cut_line(text: str) -> str:
    """A text as far as it fits a line with the rest of its message, without lone surrogates."""
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def cut(word: object) -> Any:
    """A word of a file that may be no plan, as far as messages show it: the file may be a key file."""
    return word if len(str(word)) <= _SHOWN_OF_FILE else f"{str(word)[:_SHOWN_OF_FILE]}..."


def is_plain(text: str) -> bool:
    """Whether a text can be written to a file and passed to a program: no null character, no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


class ScalarReader:
    """Reads single values by kind and collects the errors."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        # The word that a key takes beside its values, auto or any, by path; the caller reads it.
        self.words: dict[str, str] = {}

    def refuse(self, code: str, path: str, message: str, hint: str = "") -> object:
        """Add a finding and return FAILED."""
        self.findings.append(error(code, path, message, hint))
        return FAILED

    def source_text(self, path: str, value: object) -> str | None:  # noqa: ARG002 - for readers of files
        """The text of a value as its file has it; None if it is unknown, or no single value without quotes."""
        return None

    def show_value(self, value: object, path: str) -> str:
        """A value as a message shows it: a number, date or on/off word in the text of its file."""
        text = None if isinstance(value, str | list | dict) else self.source_text(path, value)
        if text == "":
            return "nothing"
        return describe(value) if text is None else cut_line(text)

    def wrong(self, path: str, value: object, expected: str, hint: str = "") -> object:
        """Add a finding on a value of the wrong type or form."""
        if path in self.words:
            expected = f"{self.words[path]}{',' if ' or ' in expected else ' or'} {expected}"
        return self.refuse("wrong-type", path, f"must be {expected}, got {self.show_value(value, path)}", hint)

    def scalar(self, kind: kinds.Kind, data: object, path: str) -> object:
        """Read a value of a kind that contains no other kind."""
        match kind:
            case kinds.Text():
                return self.text(kind, data, path)
            case kinds.Choice():
                return self.choice(kind, data, path)
            case kinds.Flag():
                return data if isinstance(data, bool) else self.wrong(path, data, "true or false", _flag_hint(data))
            case kinds.Instant():
                return self.instant(data, path)
            case kinds.Integer():
                return self.integer(kind, data, path)
            case kinds.Number() | kinds.Usd():
                return self.number(kind, data, path) if isinstance(kind, kinds.Number) else self.usd(kind, data, path)
        raise TypeError(kind)

    def text(self, kind: kinds.Text, data: object, path: str) -> object:
        """A string of the required form."""
        if kind.hidden and not (isinstance(data, str) and re.fullmatch(kind.pattern or ".*", data)):
            return self.refuse("wrong-type", path, f"must be {kind.form}; the value is not shown", _STORE)
        if not isinstance(data, str):
            text = self.source_text(path, data)
            single = isinstance(data, int | float | date) and (text is not None or isinstance(data, int | float))
            quoted = str(data if text is None else text)
            fits = single and (kind.pattern is None or re.fullmatch(kind.pattern, quoted))
            hint = f'write "{quoted}"' if fits else ""
            return self.wrong(path, data, kind.form, hint)
        if not is_plain(data):
            return self.wrong(path, data, "text without a null character or half of a pair of surrogates")
        if kind.pattern and not re.fullmatch(kind.pattern, data):
            return self.wrong(path, data, kind.form, kind.fix(data) if kind.fix is not None else "")
        return data

    def choice(self, kind: kinds.Choice, data: object, path: str) -> object:
        """A word of a closed vocabulary."""
        words = [word.value for word in kind.options]
        if isinstance(data, str) and data in words:
            return kind.options(data)
        allowed = [self.words[path], *words] if path in self.words else words
        return self.refuse(
            "not-allowed",
            path,
            f"must be one of {', '.join(allowed)}, got {self.show_value(data, path)}",
            nearest_name(data, allowed) if isinstance(data, str) else "",
        )

    def instant(self, data: object, path: str) -> object:
        """A moment; without an offset it is UTC."""
        try:
            moment = data if isinstance(data, datetime) else datetime.fromisoformat(str(data))
        except ValueError:
            return self.wrong(path, data, "an ISO 8601 time such as 2026-12-01T11:30:00Z")
        if moment.year not in YEARS:
            return self.refuse(
                OUT_OF_RANGE, path, f"must lie in {YEARS.start} to {YEARS.stop - 1}, got {self.show_value(data, path)}"
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def integer(self, kind: kinds.Integer, data: object, path: str) -> object:
        """An integer within its bounds."""
        if isinstance(data, float) and data.is_integer():
            data = int(data)
        if isinstance(data, bool) or not isinstance(data, int):
            return self.wrong(path, data, "a whole number", number_hint(data, WHOLE, path))
        if self._is_other_number(data, path):
            return FAILED
        if kind.minimum == kind.maximum != data:
            return self.refuse("not-allowed", path, f"must be {kind.minimum}, got {self.show_value(data, path)}")
        shown = self._number_shown(data, data, path)
        return self.check_bounds(data, kind.minimum, None, kind.maximum, shown, path)

    def number(self, kind: kinds.Number, data: object, path: str) -> object:
        """A finite number within its bounds."""
        number = float(data) if isinstance(data, str) and re.fullmatch(_SCIENTIFIC, data) else data
        if isinstance(number, bool) or not isinstance(number, int | float):
            return self.wrong(path, data, "a number", number_hint(data, _NUMBER, path))
        if self._is_other_number(data, path):
            return FAILED
        shown = self._number_shown(data, number, path)
        return self.check_bounds(number, kind.minimum, kind.above, kind.maximum, shown, path, unit=kind.unit)

    def _number_shown(self, data: object, number: float, path: str) -> str:
        """A number as its file has it; with its thousands separated where that is its digits."""
        text = data if isinstance(data, str) else self.source_text(path, data)
        return f"{number:,.12g}" if text is None or text == f"{number:.12g}" else text

    def _is_other_number(self, data: object, path: str) -> bool:
        """Whether YAML 1.1 read a number in base 8 or 60, such as 017 or 12:30; then that is a finding."""
        text = self.source_text(path, data)
        if text is None or not _OTHER_BASES.fullmatch(text):
            return False
        base = 60 if ":" in text else 8
        hint = f"YAML reads {text} in base {base}, as {data}: write {data}"
        if base == 8:  # noqa: PLR2004 - octal
            hint += f", or {re.sub(_LEADING_ZEROS, '', text.replace('_', '').lstrip('+-'))}"
        self.wrong(path, data, "a number in decimal digits", hint)
        return True

    def check_bounds(  # noqa: PLR0917 - a number has as many bounds
        self,
        data: float,
        low: float | None,
        above: float | None,
        high: float | None,
        shown: str,
        path: str,
        *,
        unit: str = "",
    ) -> object:
        """The number itself, or a finding if it is out of bounds, with the number as it is shown."""
        if type(data) is float and not math.isfinite(data):
            return self.refuse(OUT_OF_RANGE, path, f"must be a finite number, got {shown}")
        if high is not None and data > high:
            of = f" {unit}" if unit else ""
            return self.refuse(OUT_OF_RANGE, path, f"must be at most {high:,.12g}{of}, got {shown}")
        if abs(data) > LARGEST:
            return self.refuse(OUT_OF_RANGE, path, f"must be a number of at most {LARGEST:g}, got {shown}")
        if low is not None and data < low:
            return self.refuse(OUT_OF_RANGE, path, f"must be at least {low:,.12g}, got {shown}")
        if above is not None and data <= above:
            return self.refuse(OUT_OF_RANGE, path, f"must be above {above:,.12g}, got {shown}")
        return data

    def usd(self, kind: kinds.Usd, data: object, path: str) -> object:
        """An exact amount of dollars."""
        try:
            amount = Decimal(str(data)) if isinstance(data, str | int | float) and not isinstance(data, bool) else None
        except (InvalidOperation, ValueError):
            amount = None
        if amount is None:
            return self.wrong(path, data, 'dollars, such as 120 or "18.10"', number_hint(data, _NUMBER, path))
        if not isinstance(data, str) and self._is_other_number(data, path):
            return FAILED
        if amount.is_finite() and amount and not SMALLEST_USD <= abs(amount) <= LARGEST_USD:
            allowed = f"0, or between {SMALLEST_USD} and {LARGEST_USD:,} dollars"
            return self.refuse(OUT_OF_RANGE, path, f"must be {allowed}, got {self.show_value(data, path)}")
        if not amount.is_finite() or amount < kind.minimum:
            got = self.show_value(data, path)
            return self.refuse(OUT_OF_RANGE, path, f"must be at least {kind.minimum} dollars, got {got}")
        return amount


def _flag_hint(data: object) -> str:
    word = _ON_OFF.get(str(data).lower()) if isinstance(data, str | int) else None
    return "" if word is None else f"write {word}, without quotes"


def number_hint(data: object, form: re.Pattern[str], path: str) -> str:
    """The number in a text: in quotes, with its thousands separated, or with the unit that its key ends with."""
    if not isinstance(data, str):
        return ""
    if form.fullmatch(data) and re.match(_LEADING_ZEROS, data) is None:
        return f"write {data}, without quotes"
    match = re.fullmatch(_AMOUNT, data.strip())
    if match is None:
        return ""
    number = re.sub(_LEADING_ZEROS, "", re.sub("[,_]", "", match["number"]))
    unit = match["unit"].lower().replace("%", "percent")
    fits = form.fullmatch(number) and path.rpartition("_")[2].startswith(unit)
    return f"write {number}" if fits else ""
