"""References in `run.secrets`, and values of `run.env` that look like secrets, which no plan file should hold.

Slipway detects a secret by its form, as the issuing services document it, or by the name of its variable together with
a plausible value. Detection is never certain; an entry in `run.plain_env` declares that a value is no secret.
"""

import re
from collections.abc import Iterator, Mapping

from launcher.model.finding import Finding, error
from launcher.model.request import PlanRequest
from launcher.model.run_spec import RunSpec

FORMS: Mapping[str, str] = {
    "an AWS access key": r"\b(AKIA|ASIA)[A-Z0-9]{16}\b",
    "an AWS secret key": r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9/+]{40}",
    "a token of GitHub": r"\b(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "a token of GitLab": r"\bglpat-[A-Za-z0-9_-]{16,}",
    "a token of Hugging Face": r"\bhf_[A-Za-z0-9]{20,}\b",
    "an API key": r"\b(sk-[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{30,})",
    "a token of Slack": r"\bxox[abposr]-[A-Za-z0-9-]{10,}",
    "a signed token": r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+",
    "a private key": r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY",
    "a password in an address": r"\b[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@",
}
"""The patterns to search for, compiled for the first plan that has a variable."""
_NAMES = (
    r"(?i)(^|_)(SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|TOKEN|CREDENTIAL|CREDENTIALS|APIKEY|API_KEY|ACCESS_KEY"
    r"|PRIVATE_KEY|AUTH)$"
)
_POSSIBLE = r"(?![/.~$])(?!(?i:true|false|none|null|yes|no|on|off)$)(?![0-9.]+$)\S{8,}"
"""A value that could be a secret: no path, no reference to another variable, no on/off word, no number."""


def reference_findings(run: RunSpec) -> Iterator[Finding]:
    """An error for each entry of `run.secrets` that names no secret or parameter."""
    if not run.secrets:
        return
    from launcher.model.secret import secret_reference

    for name, text in run.secrets.items():
        try:
            secret_reference(text)
        except ValueError as problem:
            message = f"{problem}, got {text}"
            yield error("not-a-secret", f"run.secrets.{name}", message, "arn:aws:secretsmanager:... or arn:aws:ssm:...")


def secret_findings(request: PlanRequest) -> Iterator[Finding]:
    """One finding for each variable whose value looks like a secret, and each secret that is named wrongly.

    No finding contains the value of a variable.
    """
    yield from reference_findings(request.run)
    for name, value in request.run.env.items():
        kind = _looks_like(name, value)
        if kind is not None and name not in request.run.plain_env:
            message = f"looks like {kind}: it would be in the run folder and on the cluster for all to read"
            hint = f"store it and set run.secrets: {{{name}: arn:...}}; if it is no secret, set run.plain_env: [{name}]"
            yield error("secret-in-env", f"run.env.{name}", message, hint)


def _looks_like(name: str, value: str) -> str | None:
    """The kind of secret that a variable looks like; None if it looks like no secret.

    >>> _looks_like("HF_TOKEN", "hf_" + "a" * 34), _looks_like("DB_PASSWORD", "correct-horse")
    ('a token of Hugging Face', 'a secret by its name')
    >>> (
    ...     _looks_like("TOKENIZERS_PARALLELISM", "false"),
    ...     _looks_like("HF_TOKEN", "/fsx/token"),
    ...     _looks_like("MAX_TOKEN", "8"),
    ... )
    (None, None, None)
    """
    for kind, form in FORMS.items():
        if re.fullmatch(form, value) if kind == "an AWS secret key" else re.search(form, value):
            return kind
    if re.search(_NAMES, name) and re.fullmatch(_POSSIBLE, value):
        return "a secret by its name"
    return None
