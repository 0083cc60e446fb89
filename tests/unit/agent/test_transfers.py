"""Transfers that are interrupted while they start."""

from concurrent.futures import Future

import pytest

from launcher.agent.errors import StoreError
from launcher.agent.store.transfers import Transfers


class Beginning(Transfers):
    """Transfers that somebody cuts off between the first look and the start."""

    def begin(self) -> Future[None]:
        future: Future[None] = Future()

        def start() -> Future[None]:
            self.cancel()
            return future

        self._start("uploading", "key", start)
        return future

    def _shut_down(self) -> None:
        self.cancel()


def test_transfer_begun_during_a_cut_off_is_cut_off() -> None:
    transfers = Beginning()
    assert transfers.begin().cancelled()
    with pytest.raises(StoreError) as caught:
        transfers.wait()
    assert caught.value.cut_off
