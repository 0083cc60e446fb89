"""Copies of the examples that stay good: what they say begins on a day always begins on one to come."""

import json
import re
from datetime import UTC, date, datetime, timedelta

DAY = re.compile(r"(_at: )(\d{4}-\d\d-\d\d)T")
WORKDIR = re.compile(r"(workdir: )([^\s}]+)")
TO_COME = timedelta(days=10)


def copied(path, root, changes=()):
    """A copy of an example in another folder; `changes` has pairs of old and new text."""
    text = path.read_text()
    days = [date.fromisoformat(found[2]) for found in DAY.finditer(text)]
    first = datetime.now(UTC).date() + TO_COME
    text = DAY.sub(lambda found: f"{found[1]}{first + (date.fromisoformat(found[2]) - days[0])}T", text)
    text = WORKDIR.sub(lambda found: found[1] + json.dumps(str((path.parent / found[2]).resolve())), text)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    copy = root / path.name
    copy.write_text(text)
    return copy
