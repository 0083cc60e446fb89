"""The board of a job whose nodes share no folder: objects in the store, which always returns the newest version."""

from launcher.agent.errors import StoreError
from launcher.agent.store.objects import Store


class StoreBoard:
    """The objects of one attempt of a job. Objects of earlier attempts are few and small, and stay."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder

    @property
    def location(self) -> str:
        """The location of the board, for messages."""
        return f"{self._store.uri}/{self._folder}"

    def open(self, *names: str) -> None:
        """Create the named texts, empty from the start.

        Raises:
            OSError: the store does not accept them.
        """
        try:
            for name in names:
                self._store.swap_text(self._key(name), "", before=None)
        except StoreError as error:
            raise OSError(str(error)) from error

    def read(self, name: str) -> str:
        """Return a text.

        Raises:
            OSError: the text is missing, or the store does not return it.
        """
        try:
            return self._store.read_text(self._key(name))
        except StoreError as error:
            raise OSError(str(error)) from error

    def replace(self, name: str, text: str, *, by: int) -> None:
        """Replace a text."""
        del by  # an object is complete or missing
        try:
            self._store.write_text(self._key(name), text)
        except StoreError as error:
            raise OSError(str(error)) from error

    def remove_earlier(self) -> None:
        """Do nothing: no objects are removed."""

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}"
