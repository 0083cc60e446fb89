"""Blanks in rendered files: placeholders for the names of a cluster and for the archive of the job's folder.

A blank is a word that contains the plan's own digest, so that no text of a plan matches it by chance. Slipway replaces
it with the quoting of the file's language: the result is the text that the templates would have rendered.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import fields, replace

from launcher.model.budget_stop import is_joined
from launcher.model.bundle import Bundle, RenderedFile
from launcher.model.plan import Plan
from launcher.rendering.batch import JobArchive
from launcher.rendering.engine import yaml_scalar
from launcher.rendering.names import ClusterNames, symbolic_names

_AFTER = r"[\w@%+=:,./-]*"
"""Characters that may follow a blank within one shell word: those that `shlex.quote` leaves unquoted."""


def blank_names(plan: Plan) -> ClusterNames:
    """Blanks for the names of a plan's cluster; on an existing cluster also for the guard's stop and message URIs."""
    shown = symbolic_names(plan)
    names = {field.name for field in fields(shown) if getattr(shown, field.name) is not None}
    names |= {"stop_uri", "message_uri"} if is_joined(plan.request) else set()
    return replace(shown, **{name: _blank(plan.digest, name) for name in names})


def blank_archive(plan: Plan) -> JobArchive:
    """Blanks for the archive of a plan's job folder."""
    return JobArchive(**{field.name: _blank(plan.digest, field.name) for field in fields(JobArchive)})


def with_names(bundle: Bundle, names: ClusterNames) -> Bundle:
    """The files with the names of the cluster in place of blanks; a missing name becomes null."""
    values = {field.name: getattr(names, field.name) for field in fields(names)}
    return _fill_in(bundle, {**values, "store_uri": names.store_uri.rstrip("/")})


def with_archive(bundle: Bundle, archive: JobArchive) -> Bundle:
    """The files with the archive of the job's folder in place of blanks."""
    return _fill_in(bundle, {field.name: getattr(archive, field.name) for field in fields(archive)})


def _blank(digest: str, name: str) -> str:
    """The blank for a value, in the strictest form that any value needs: an S3 URI."""
    return f"s3://blank-{digest[:24]}/{name.replace('_', '-')}"


def _fill_in(bundle: Bundle, values: Mapping[str, str | None]) -> Bundle:
    return replace(bundle, files=tuple(_file(file, bundle.digest, values) for file in bundle.files))


def _file(file: RenderedFile, digest: str, values: Mapping[str, str | None]) -> RenderedFile:
    text, kind = file.text, file.path.rpartition(".")[2]
    for name, value in values.items():
        blank = _blank(digest, name)
        if value is None:
            text = text.replace(f'"{blank}"', "null")
        elif kind in ("json", "yaml"):
            quoted = json.dumps(value) if kind == "json" else yaml_scalar(value)
            text = text.replace(blank, quoted[1:-1])
        else:
            for word in sorted(set(re.findall(re.escape(blank) + _AFTER, text)), key=len, reverse=True):
                text = text.replace(word, shlex.quote(word.replace(blank, value)))
    return replace(file, text=text)
