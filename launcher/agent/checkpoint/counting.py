"""The order in which a trainer saved its checkpoints."""

from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.layouts import UNCOUNTED


class Counting:
    """Gives every checkpoint a place in the order of saving, also where the trainer's counter begins anew.

    The place is the step in the name plus an offset. A second stage, or a warm restart, counts from 0: a lower step
    that was written after the newest one begins a new count, whose offset puts it behind. A lower step that was
    written before, and is only found later, keeps its place.
    """

    def __init__(self, *, offset: int = 0, newest: int = -1, saved_ns: int = 0) -> None:
        self._offset = offset
        self._saved_ns = saved_ns
        self._places: dict[tuple[str, ...], int] = {}
        self.newest = newest
        """The highest place so far; -1 before the first checkpoint."""
        self._named = UNCOUNTED
        """The place of the last checkpoint with a step."""
        self.restarted = False
        """Whether the last checkpoint began a new count."""

    @classmethod
    def after(cls, restored: FinishedFolder, named: int | None) -> "Counting":
        """The count that goes on after a restored checkpoint; `named`: the step in its name, None without one."""
        offset = 0 if named is None else max(0, restored.step - named)
        counting = cls(offset=offset, newest=restored.step, saved_ns=restored.saved_ns)
        counting._named = UNCOUNTED if named is None else restored.step
        return counting

    def covers(self, step: int) -> bool:
        """Whether a step of this count is no newer than the newest checkpoint."""
        return self._offset + step <= self.newest

    def place(self, folder: FinishedFolder) -> int:
        """The place of a checkpoint whose `step` is that of its name; without one, it is the next."""
        if folder.step == UNCOUNTED:
            self.newest, self._saved_ns, self.restarted = max(self.newest, 0) + 1, folder.saved_ns, False
            return self.newest
        place = self._offset + folder.step
        # Files that are added to an old checkpoint make it no newer; all of them written anew do.
        written_ns = folder.saved_ns
        if folder.leading in self._places:
            written_ns = min((file.modified_ns for file in folder.own_files), default=0)
        # Versions of a fixed name, which have no step, may have taken its place: that is no new count.
        behind_versions = self._named <= place <= self.newest > self._named
        later = (place < self.newest or behind_versions) and written_ns > self._saved_ns > 0
        self.restarted = later and not behind_versions
        if self.restarted:
            self._offset = self.newest + (0 if folder.step else 1)
            place = self._offset + folder.step
        elif later:
            place = self.newest + 1
            self._offset = place - folder.step
        elif place < self.newest and folder.leading in self._places:
            place = self._places[folder.leading]
        self._places[folder.leading] = place
        if place >= self.newest:
            self.newest, self._saved_ns = place, max(folder.saved_ns, self._saved_ns)
            self._named = place
        return place
