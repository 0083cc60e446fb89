"""Values of `run.env` that look like secrets: a plan file and a run folder are no places for one.

A secret is told by its form, as the services that give them document it, or by the name of its variable together with a
value that could be one. Nobody can be sure; a name in `run.plain_env` says that a value is none.
"""

import re
from collections.abc import Iterator, Mapping

from launcher.model.finding import Finding, error
from launcher.model.request import PlanRequest

FORMS: Mapping[str, re.Pattern[str]] = {
    "an AWS access key": re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"),
    "an AWS secret key": re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9/+]{40}"),
    "a token of GitHub": re.compile(r"\b(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})"),
    "a token of GitLab": re.compile(r"\bglpat-[A-Za-z0-9_-]{16,}"),
    "a token of Hugging Face": re.compile(r"\bhf_[A-Za-z0-9]{20,}\b"),
    "an API key": re.compile(r"\b(sk-[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{30,})"),
    "a token of Slack": re.compile(r"\bxox[abposr]-[A-Za-z0-9-]{10,}"),
    "a signed token": re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
    "a private key": re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY"),
    "a password in an address": re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@"),
}
_NAMES = re.compile(
    r"(^|_)(SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|TOKEN|CREDENTIAL|CREDENTIALS|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY"
    r"|AUTH)$",
    re.IGNORECASE,
)
_POSSIBLE = re.compile(r"(?![/.~$])(?!(?i:true|false|none|null|yes|no|on|off)$)(?![0-9.]+$)\S{8,}")
"""A value that could be a secret: no path, no reference to another variable, no word of a switch, no number."""


def secret_findings(request: PlanRequest) -> Iterator[Finding]:
    """One finding for each variable whose value looks like a secret; the value is in none of them."""
    for name, value in request.run.env.items():
        looks = _looks_like(name, value)
        if looks is not None and name not in request.run.plain_env:
            message = f"looks like {looks}: it would be in the run folder and on the cluster for all to read"
            hint = f"store it and name its ARN: run.secrets: {{{name}: arn:...}}; it is none: run.plain_env: [{name}]"
            yield error("secret-in-env", f"run.env.{name}", message, hint)


def _looks_like(name: str, value: str) -> str | None:
    """What a variable looks like, None where it looks like no secret.

    >>> _looks_like("HF_TOKEN", "hf_" + "a" * 34), _looks_like("DB_PASSWORD", "correct-horse")
    ('a token of Hugging Face', 'a secret by its name')
    >>> (
    ...     _looks_like("TOKENIZERS_PARALLELISM", "false"),
    ...     _looks_like("HF_TOKEN", "/fsx/token"),
    ...     _looks_like("MAX_TOKEN", "8"),
    ... )
    (None, None, None)
    """
    for what, form in FORMS.items():
        if form.fullmatch(value) if what == "an AWS secret key" else form.search(value):
            return what
    if _NAMES.search(name) and _POSSIBLE.fullmatch(value):
        return "a secret by its name"
    return None
