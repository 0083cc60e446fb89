"""Names: the nearest known one, for messages, and the form of an image in ECR."""

import difflib
import re
from collections.abc import Iterable

ECR = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/.+")
"""An image in a private ECR registry."""
_LONGEST = 200
"""Characters: a longer word is never close to a known name, and search time grows with the square of the length."""


def nearest_name(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word; empty when none is close.

    >>> nearest_name("p5.48xlage", ["p5.48xlarge", "trn2.48xlarge"])
    'did you mean p5.48xlarge?'
    >>> nearest_name("spot-instances", ["spot", "on-demand"]), nearest_name("p3.16xlarge", ["m5.16xlarge"])
    ('did you mean spot?', '')
    """
    if len(word) > _LONGEST or not word:
        return ""
    # A word with another first letter means another name; a word with additions is matched.
    alike = [name for name in known if name[:1].lower() == word[0].lower()]
    close = difflib.get_close_matches(word.lower(), alike, n=1, cutoff=0.6)
    close = close or [name for name in alike if word.lower().startswith(name)]
    return f"did you mean {close[0]}?" if close else ""


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
