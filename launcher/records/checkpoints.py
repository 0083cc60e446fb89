"""A checkpoint in a store."""

from launcher.agent.manifest import StoredFile
from launcher.model.record import record


@record
class Checkpoint:
    """One step of a store.

    `form` is "agent" or "dcp", None where it cannot be told. `files` is what it is made of: with a hash each in the
    agent's form, in PyTorch's by size alone (their `sha256` is empty and `bytes` what is there). `reason` says why it
    is not whole, None when it is; `marks` are the keys that say that it is. `bytes` is what it occupies by itself; an
    unchanged file lies with an earlier step. `layout` is the framework's (`checkpoint.layout`), None where an agent
    did not write it; `unit` is what `step` counts: step, epoch, save. `shared` says
    that the step holds whole checkpoints of several layouts, of which this is the one written last, or one that only a
    later version of Slipway can read. `superseded`: it is known to expire, but for what newer ones share with it.
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

    @property
    def whole(self) -> bool:
        """Whether it can be restored, judged by names and sizes."""
        return self.reason is None

    @property
    def needs(self) -> frozenset[str]:
        """The keys without which it would not be whole."""
        return frozenset({*self.marks, *(file.key for file in self.files)})
