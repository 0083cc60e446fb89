"""Names: the nearest known one, for messages, and the form of an image in ECR."""

import difflib
import re
from collections.abc import Iterable

ECR = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/.+")
"""An image in a private ECR registry."""
_LONGEST = 200
"""Characters: a longer word is never close to a known name, and search time grows with the square of the length."""

_COMPARED = 12
"""Names whose edits are counted."""


def nearest_name(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word; empty when none is close.

    >>> nearest_name("p5.48xlage", ["p5.48xlarge", "trn2.48xlarge"])
    'did you mean p5.48xlarge?'
    >>> nearest_name("spot-instances", ["spot", "on-demand"]), nearest_name("p3.16xlarge", ["m5.16xlarge"])
    ('did you mean spot?', '')
    >>> nearest_name("us-esat-1", ["us-west-1", "us-east-1"]), nearest_name("su-west-2", ["us-west-2", "us-west-1"])
    ('did you mean us-east-1?', 'did you mean us-west-2?')
    >>> nearest_name("us-est-1", ["us-west-1", "us-east-1"])
    'did you mean us-west-1 or us-east-1?'
    >>> nearest_name("eu-central", ["eu-central-1", "eu-central-2"]), nearest_name("p5..4xl", ["p5.4xl", "p5e.4xl"])
    ('did you mean eu-central-1 or eu-central-2?', 'did you mean p5.4xl?')
    """
    if len(word) > _LONGEST or not word:
        return ""
    # A word with another first letter means another name, unless its first two were swapped; a word with additions is
    # matched.
    lower = word.lower()
    first = {lower[0], *lower[1:2]} if len(lower) > 1 else {lower[0]}
    alike = [name for name in dict.fromkeys(known) if name[:1].lower() == lower[0] or {*name[:2].lower()} == first]
    close = difflib.get_close_matches(lower, alike, n=_COMPARED, cutoff=0.6)
    close = close or [name for name in alike if lower.startswith(name)][:1]
    if not close:
        return ""
    edits = {name: _edits(lower, name.lower()) for name in close}
    fewest = [name for name in close if edits[name] == min(edits.values())]
    doubled = [name for name in fewest if name.lower() in _without_a_double(lower)]
    fewest = doubled or fewest
    # A wrong region is money: of two that are equally near, neither is chosen.
    equal = len(fewest) == 2 and edits[fewest[0]] <= 2  # noqa: PLR2004 - more would be a list
    if not equal:
        return f"did you mean {fewest[0]}?"
    either = sorted(fewest) if edits[fewest[0]] > 1 else fewest
    return f"did you mean {' or '.join(either)}?"


def _without_a_double(word: str) -> set[str]:
    """A word without one of two equal letters beside each other, for each such pair."""
    return {word[:at] + word[at + 1 :] for at in range(1, len(word)) if word[at] == word[at - 1]}


def _edits(word: str, name: str) -> int:
    """The edits between two words: letters inserted, removed, replaced, or swapped with their neighbour.

    Source: the optimal string alignment distance (Damerau 1964, doi 10.1145/363958.363994).

    >>> _edits("us-esat-1", "us-east-1"), _edits("us-esat-1", "us-west-1")
    (1, 2)
    """
    before: list[int] = []
    last = list(range(len(name) + 1))
    for row, letter in enumerate(word, start=1):
        line = [row]
        for column, other in enumerate(name, start=1):
            cost = min(last[column] + 1, line[column - 1] + 1, last[column - 1] + (letter != other))
            swapped = row > 1 and column > 1 and letter == name[column - 2] and word[row - 2] == other
            line.append(min(cost, before[column - 2] + 1) if swapped else cost)
        before, last = last, line
    return last[-1]


def nearest_model(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known model of the same size, or nothing: 31b is not a misspelt 1b.

    >>> nearest_model("gemma-4-31b", ["gemma-3-1b"]), nearest_model("lama-3.1-8b", ["llama-3.1-8b", "llama-3.1-70b"])
    ('', 'did you mean llama-3.1-8b?')
    """
    sizes = _sizes(word)
    return nearest_name(word, [name for name in known if not sizes or _sizes(name) == sizes])


def _sizes(name: str) -> list[str]:
    """The numbers of parameters in a model's name, such as 8b or 560m."""
    return re.findall(r"\d+(?:\.\d+)?[bm](?![a-z0-9])", name.lower())
