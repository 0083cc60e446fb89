"""Masks secrets, account numbers and addresses of people in text that others may read."""

import re
from collections.abc import Iterable, Mapping

MASK = "[masked]"
_NAMES = (
    r"(?:pass(?:word|wd|phrase)?|secret|token(?!s|i[sz])|api[_-]?key|access[_-]?key|private[_-]?key|credential"
    r"|authorization|cookie)"
)
"""Words of names whose values are secrets: a number of tokens, and a tokenizer, is none."""
_QUOTE = r"(?:\\*[\"'])?"
"""A quotation mark, escaped as often as it is nested in strings of JSON."""
_IN_STRING = r"\\+(?![\"'\\])"
"""Backslashes of a value itself: those before a quotation mark belong to the string around the value."""
_NAMED = re.compile(
    rf"(?i)(?P<name>{_NAMES}[\w.-]{{0,40}})"
    rf"(?P<mark>{_QUOTE}\s*[:=]\s*|\\*[\"']\s*,\s*\\*[\"']\w*value\\*[\"']\s*:\s*)"
    rf"(?P<quote>{_QUOTE})(?!\s*(?:null|none|true|false)\b)"
    rf"(?P<value>(?:bearer\s+|basic\s+)?(?:[^\s\"',;&}}\]\\]|{_IN_STRING}){{4,}})"
)
"""`NAME: value`, `NAME=value`, `"NAME": "value"` and `"NAME", "value": "value"` (the variables of a pod) where the name
says that the value is a secret."""
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{16,}",
        r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-|npm_|pypi-|dop_v1_|k8s-aws-v1\.)[A-Za-z0-9_-]{16,}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}",
        r"(?i)X-Amz-(?:Signature|Credential|Security-Token)=[^&\s\"'\\]+",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"(?i)https://(?:hooks\.slack\.com/|(?:\w+\.)?discord(?:app)?\.com/api/webhooks/|[\w.-]+\.webhook\.office\.com/)[^\s\"'\\]+",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    )
)
"""Keys of AWS and Google, tokens of Hugging Face, GitHub, GitLab, Slack, OpenAI, npm, PyPI, EKS; web tokens; signed
addresses, and those of webhooks."""
_WORD = re.compile(
    rf"(?i)(?P<word>(?:--[\w-]*{_NAMES}[\w-]*|\bwandb\s+login)(?:\s+|\\*[\"']\s*,\s*))(?P<quote>{_QUOTE})(?!-)"
    rf"(?P<value>(?:[^\s\"';|&\\]|{_IN_STRING}){{4,}})"
)
"""A command's option or word that a secret follows, in a line or in a list of words."""
_LOGIN = re.compile(r"(?P<scheme>://)[^/\s:@\"']{1,100}:[^/\s@\"']{1,200}@")
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z.])\d{12}(?![0-9A-Za-z.])")
_PERSON = re.compile(r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b")
_NUMBER = re.compile(r"[\d.,eE+-]+")
_SECRET_NAME = re.compile(rf"(?i){_NAMES}|(?:^|_)(?:key|pat|auth)(?:_|$)")
MIN_VALUE = 6
"""Shorter values are words that occur elsewhere."""


def secret_values(variables: Mapping[str, str]) -> frozenset[str]:
    """The values of variables whose names say that they are secrets.

    >>> secret_values({"WANDB_API_KEY": "0123456789", "HF_TOKEN": "x", "LANG": "C.UTF-8"})
    frozenset({'0123456789'})
    """
    return frozenset(
        value for name, value in variables.items() if len(value) >= MIN_VALUE and _SECRET_NAME.search(name)
    )


def mask_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text without secrets, account numbers and e-mail addresses; `known` are values to mask wherever they occur.

    >>> mask_secrets('"HF_TOKEN": "hf_abcdefghijklmnopqrst", "role": "arn:aws:iam::123456789012:role/a"')
    '"HF_TOKEN": "[masked]", "role": "arn:aws:iam::ACCOUNT:role/a"'
    >>> mask_secrets("git clone https://me:pass@git.example.com/a and write to me@example.com")
    'git clone https://[masked]@git.example.com/a and write to EMAIL'
    """
    for value in sorted(known, key=len, reverse=True):
        text = text.replace(value, MASK)
    for form in _FORMS:
        text = form.sub(MASK, text)
    text = _LOGIN.sub(rf"\g<scheme>{MASK}@", text)
    text = _NAMED.sub(_without_value, text)
    text = _WORD.sub(_without_word, text)
    return _PERSON.sub("EMAIL", _ACCOUNT.sub("ACCOUNT", text))


def _without_value(match: re.Match[str]) -> str:
    # The value of a name ends before a closing bracket, that of the mask too.
    if match["value"] == MASK.rstrip("]") or _NUMBER.fullmatch(match["value"]):
        return match[0]
    return f"{match['name']}{match['mark']}{match['quote']}{MASK}"


def _without_word(match: re.Match[str]) -> str:
    return match[0] if _NUMBER.fullmatch(match["value"]) else f"{match['word']}{match['quote']}{MASK}"
