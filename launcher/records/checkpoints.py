"""A checkpoint in a store."""

from launcher.agent.manifest import StoredFile
from launcher.agent.manifest_tree import StoredLink
from launcher.model.record import record


@record
class Checkpoint:
    """One step of a store."""

    step: int
    folder: str
    # "agent" or "dcp", None if unknown.
    form: str | None
    # In the agent's form each with a hash, in PyTorch's only with a size (`sha256` is empty, and `bytes` the stored
    # size).
    files: tuple[StoredFile, ...]
    # Its own size, because an unchanged file is stored with an earlier step.
    bytes: int
    # Why it is incomplete, None if it is complete.
    reason: str | None
    # The files whose objects S3 got after the commit; the agent writes no such object.
    rewritten: tuple[str, ...] = ()
    # The keys that mark it as complete.
    marks: tuple[str, ...] = ()
    run: str | None = None
    attempt: int | None = None
    written_at: str | None = None
    # The framework's (`checkpoint.layout`), None if an agent did not write it.
    layout: str | None = None
    # The unit of `step`: step, epoch, save.
    unit: str = "step"
    # `step` is a count of saves: nothing tells the trainer's step.
    counted: bool = False
    # The step holds complete checkpoints of several layouts, of which this one was written last, or one that only a
    # later version of Slipway can read.
    shared: bool = False
    # It is known to expire, except files shared with newer ones.
    superseded: bool = False
    # A user withdrew all its manifests; no job resumes from it, and it does not expire.
    withdrawn: bool = False
    # Of a set: the checkpoint from which its trainer resumes, and those that it needs in addition.
    main: str = ""
    others: tuple[str, ...] = ()
    # All entries from which its trainer resumes, if there are several: `main` is the first.
    mains: tuple[str, ...] = ()
    links: tuple[StoredLink, ...] = ()
    # Its empty folders.
    folders: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the checkpoint can be restored, judged by names and sizes."""
        return self.reason is None

    @property
    def in_the_running(self) -> bool:
        """Whether a job may resume from the checkpoint."""
        return self.complete and not self.withdrawn

    @property
    def needs(self) -> frozenset[str]:
        """The keys that the checkpoint needs to be complete."""
        return frozenset({*self.marks, *(file.key for file in self.files)})
