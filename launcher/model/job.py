"""A job on a cluster, as its submission names it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that Slurm has taken. `key` is its name there, `folder` its folder on the head node."""

    job: str
    key: str
    folder: str
