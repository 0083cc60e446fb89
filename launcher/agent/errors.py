"""Errors that stop the agent. It shares no code with the launcher, so it has its own small hierarchy."""

from collections.abc import Sequence

from launcher.agent import exits


class AgentError(Exception):
    """An error from which the agent cannot recover; `exit_code` is the exit code of the process."""

    exit_code: int = exits.INTERNAL


class JobSpecError(AgentError):
    """job.json cannot be used; `problems` holds every reason, not only the first."""

    exit_code = exits.BAD_JOB

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class ManifestError(AgentError):
    """The text is not a manifest: malformed, of another schema, or naming paths outside its checkpoint."""


class MixedVersionsError(ManifestError):
    """The nodes sent different versions of a step that is written again."""


class LaterManifestError(ManifestError):
    """A manifest that a later version of Slipway wrote; `keys` are the objects that its text names."""

    def __init__(self, message: str, keys: frozenset[str]) -> None:
        super().__init__(message)
        self.keys = keys


class UnusableCheckpointError(AgentError):
    """A folder cannot be stored: it changed or disappeared during the read, or holds entries that no store accepts."""


class OccupiedNodeError(AgentError):
    """Processes of an ended attempt cannot be ended on this node: the node cannot run the job."""


class ChangedCheckpointError(UnusableCheckpointError):
    """A checkpoint was written again after it was finished: what it is now is a new version of its step."""


class LostNodeError(AgentError):
    """Another node of the job is lost: the attempt is over, the job is not."""

    exit_code = exits.INTERRUPTED


class TakenOverError(AgentError):
    """Another agent writes these checkpoints; this agent may no longer change them."""

    exit_code = exits.STORE_FAILED


class StoreError(AgentError):
    """The checkpoint store did not perform a request."""

    exit_code = exits.STORE_FAILED

    def __init__(
        self, message: str, *, code: str = "", missing: bool = False, permanent: bool = False, cut_off: bool = False
    ) -> None:
        """`permanent`: another try will not help. `cut_off`: this process ended the transfer."""
        super().__init__(message)
        self.code = code
        self.missing = missing
        self.permanent = permanent
        self.cut_off = cut_off


def no_usable_checkpoint(uri: str, newest: str) -> AgentError:
    """Checkpoints exist and none is usable: only the user may decide to start at step 0."""
    error = AgentError(
        f"no checkpoint in {uri} is usable ({newest}), and starting at step 0 would ignore all of them; to "
        "start at step 0 anyway, set checkpoint.restart: fresh in the plan file"
    )
    error.exit_code = exits.STORE_FAILED
    return error
