"""The board of a job whose nodes share no folder: objects in the store, which answers with the newest at once."""

from launcher.agent.errors import StoreError
from launcher.agent.store.objects import Store


class StoreBoard:
    """The objects of one attempt of a job. Those of earlier attempts are few and small, and stay."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder

    @property
    def words(self) -> str:
        """Where it is, for messages."""
        return f"{self._store.uri}/{self._folder}"

    def open(self, *names: str) -> None:
        """Make texts that are there, empty, from the start.

        Raises:
            OSError: The store does not take them.
        """
        try:
            for name in names:
                self._store.swap_text(self._key(name), "", before=None)
        except StoreError as error:
            raise OSError(str(error)) from error

    def read(self, name: str) -> str:
        """A text.

        Raises:
            OSError: It is not there, or the store does not give it.
        """
        try:
            return self._store.read_text(self._key(name))
        except StoreError as error:
            raise OSError(str(error)) from error

    def replace(self, name: str, text: str, *, by: int) -> None:
        """Put a text in the place of what is there."""
        del by  # an object is there as a whole or not at all
        try:
            self._store.write_text(self._key(name), text)
        except StoreError as error:
            raise OSError(str(error)) from error

    def remove_earlier(self) -> None:
        """Nothing is removed."""

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}"
