"""The nodes of a job share the work of tagging: the first one writes sheets of keys, others take one each.

What is superseded the first node alone decides. Of many objects it puts a part each on up to seven sheets,
`tagging/0.json` and on, and says in its own state which nodes they are for: every time others, in turn. A node tags
what is on its sheet and writes in its place that it is done. What does not come back, because a node has ended, is gone
or has trouble, the first node tags itself: to tag twice does no harm.

Eight nodes at once are 64 requests at once, some 2,000 a second, and so the most: S3 takes 3,500 writes a second below
one prefix, and checkpoints go there too. To the first node it is two requests a sheet beside the looks, to the others
two. The folder that the nodes share has no more work: all read the first node's state anyway.
"""

import json
import math
import time
from dataclasses import dataclass, replace

from launcher.agent import safe_json
from launcher.agent.manifest import step_of_key
from launcher.agent.node.peers import Peers
from launcher.agent.shape import hold, read
from launcher.agent.store.objects import Store

SCHEMA = "slipway.tagging/1"
FOLDER = "tagging"
MOST = 7
"""Sheets at once, beside what the first node does."""
LONGEST = 2000
"""Keys of a sheet."""
SHORTEST = 100
"""Fewer are not worth a sheet."""
PORTION = (MOST + 1) * LONGEST
"""What is shared out at once, with the first node's own part."""

_PATIENCE_S = 120.0
_ASK_AGAIN_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A part of the work.

    Attributes:
        number: Which time something is shared out, from 1.
        slot: Which sheet of these, from 0.
        owner: Token of the claim under which it holds.
        keys: What is to be tagged.
        done: That has been done; the keys are left out then.
    """

    number: int
    slot: int
    owner: str
    keys: tuple[str, ...] = ()
    done: bool = False

    @property
    def key(self) -> str:
        """Where it stands in the store."""
        return f"{FOLDER}/{self.slot}.json"

    def to_json(self) -> str:
        """The text of it."""
        values = {"number": self.number, "owner": self.owner, "done": self.done, "keys": list(self.keys)}
        return json.dumps({"schema": SCHEMA, **values}) + "\n"


def parse(text: str, slot: int) -> Sheet | None:
    """A sheet; None for what cannot be read, or names what is no part of a checkpoint."""
    try:
        document = safe_json.loads(text)
        hold(document, {"schema": str})
        sheet = read(Sheet, {**document, "slot": slot}, whole=True)
    except ValueError:
        return None
    names_parts = all(step_of_key(key) is not None for key in sheet.keys)
    return sheet if document["schema"] == SCHEMA and names_parts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Out:
    sheet: Sheet
    part: int
    since: float


class Sheets:
    """What the first node has shared out."""

    def __init__(self, store: Store, peers: Peers, *, owner: str) -> None:
        """Nothing yet.

        Args:
            store: Where the sheets are.
            peers: The other nodes of the job.
            owner: Token of the first node's claim.
        """
        self._store = store
        self._peers = peers
        self._owner = owner
        self._number = 0
        self._next = 0
        self._out: list[_Out] = []
        self._ask_at = 0.0

    @property
    def are_out(self) -> bool:
        """Whether any has not come back."""
        return bool(self._out)

    def share_out(self, keys: list[str]) -> list[str]:
        """Write a part of the work on sheets, and forget those that were out.

        Args:
            keys: What is to be tagged, `PORTION` at most.

        Returns:
            What is left, for the caller.

        Raises:
            StoreError: The store did not take a sheet; nobody was told of any.
        """
        self._out = []
        takers = self._takers(len(keys) // SHORTEST - 1)
        if not takers:
            return keys
        self._number += 1
        each = math.ceil(len(keys) / (len(takers) + 1))
        for slot, part in enumerate(takers):
            own = tuple(keys[each * (slot + 1) : each * (slot + 2)])
            sheet = Sheet(number=self._number, slot=slot, owner=self._owner, keys=own)
            self._store.write_text(sheet.key, sheet.to_json())
            self._out.append(_Out(sheet=sheet, part=part, since=time.monotonic()))
        self._ask_at = time.monotonic() + _ASK_AGAIN_S
        self._peers.say(tagging=[self._number, takers])
        return keys[:each]

    def returned(self) -> tuple[list[str], list[str]]:
        """What has come back since: the keys that are tagged, and those that the first node must tag itself."""
        if time.monotonic() < self._ask_at:
            return [], []
        self._ask_at = time.monotonic() + _ASK_AGAIN_S
        found = self._peers.gathered()
        tagged: list[str] = []
        back: list[str] = []
        for each in list(self._out):
            gone = bool(found.ended >> each.part & 1) or each.part in found.silent
            if self._is_done(each.sheet):
                tagged += each.sheet.keys
            elif gone or time.monotonic() - each.since >= _PATIENCE_S:
                back += each.sheet.keys
            else:
                continue
            self._out.remove(each)
        return tagged, back

    def _is_done(self, sheet: Sheet) -> bool:
        found = self._store.find_text(sheet.key)
        return found is not None and parse(found.text, sheet.slot) == replace(sheet, keys=(), done=True)

    def _takers(self, most: int) -> list[int]:
        """The nodes whose turn it is, of those that are there."""
        number = min(most, MOST)
        if number <= 0 or self._peers.alone:
            return []
        found = self._peers.gathered()
        there = [p for p in range(1, self._peers.parts) if not found.ended >> p & 1 and p not in found.silent]
        if not there:
            return []
        begin = self._next % len(there)
        self._next += number
        return (there[begin:] + there[:begin])[:number]


class Hand:
    """What another node does of it."""

    def __init__(self, store: Store, peers: Peers) -> None:
        """Nothing has been taken.

        Args:
            store: Where the sheets are.
            peers: The other nodes of the job.
        """
        self._store = store
        self._peers = peers
        self._seen = 0

    def take(self) -> Sheet | None:
        """The sheet that is for this node, once; None while there is none.

        Raises:
            StoreError: The store cannot be read; the first node takes that sheet back in time.
        """
        number, takers = _handed_out(self._peers.first().get("tagging"))
        if number <= self._seen or self._peers.part not in takers:
            return None
        self._seen = number
        slot = takers.index(self._peers.part)
        found = self._store.find_text(f"{FOLDER}/{slot}.json")
        sheet = parse(found.text, slot) if found is not None else None
        return sheet if sheet is not None and sheet.number == number and not sheet.done else None

    def give_back(self, sheet: Sheet) -> None:
        """Say that all on a sheet is tagged."""
        self._store.write_text(sheet.key, replace(sheet, keys=(), done=True).to_json())


def _handed_out(value: object) -> tuple[int, list[int]]:
    """The number and the nodes that the first node has said; 0 and none where it has not."""
    match value:
        case [int(number), list(takers)]:
            return number, takers
        case _:
            return 0, []
