"""A checkpoint in a store."""

from launcher.agent.manifest import StoredFile
from launcher.model.record import record


@record
class Checkpoint:
    """One step of a store.

    `form` is "agent" or "dcp", None if unknown. `files` are its files: in the agent's form each with a hash, in
    PyTorch's only with a size (`sha256` is empty, and `bytes` the stored size). `reason` is why it is incomplete, None
    if it is complete; `marks` are the keys that mark it as complete. `bytes` is its own size, because an unchanged file
    is stored with an earlier step. `layout` is the framework's (`checkpoint.layout`), None if an agent did not write
    it; `unit` is the unit of `step`: step, epoch, save. `shared` means that the step
    holds complete checkpoints of several layouts, of which this one was written last, or one that only a
    later version of Slipway can read. `superseded`: it is known to expire, except files shared with newer ones.
    `main` and `others`: of a set, the checkpoint from which its trainer resumes, and those that it needs beside it.
    `withdrawn`: a user took all its manifests out of the running; no job resumes from it, and it does not expire.
    """

    step: int
    folder: str
    form: str | None
    files: tuple[StoredFile, ...]
    bytes: int
    reason: str | None
    marks: tuple[str, ...] = ()
    run: str | None = None
    attempt: int | None = None
    written_at: str | None = None
    layout: str | None = None
    unit: str = "step"
    shared: bool = False
    superseded: bool = False
    withdrawn: bool = False
    main: str = ""
    others: tuple[str, ...] = ()

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
