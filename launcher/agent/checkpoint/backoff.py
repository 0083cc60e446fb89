"""The pauses between tries: longer each time, and not in step with other nodes."""

import random
import time

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Backoff:
    """How long to wait before the next try. Its caller sees to it that no two threads use it at once."""

    def __init__(self) -> None:
        """Nothing has failed."""
        self.failures = 0
        self._again_at = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the next try; not above 0 where it is due."""
        return self._again_at - time.monotonic()

    def failed(self, *, pressing: bool) -> float:
        """A try has failed.

        Args:
            pressing: There is no time for long pauses.

        Returns:
            Seconds until the next one.
        """
        longest = FIRST_PAUSE_S if pressing else LONGEST_PAUSE_S
        jitter = random.uniform(0.5, 1.0)  # noqa: S311  not a secret
        pause = jitter * min(longest, FIRST_PAUSE_S * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self._again_at = time.monotonic() + pause
        return pause

    def succeeded(self) -> None:
        """The next failure is the first one again."""
        self.failures = 0

    def hasten(self) -> None:
        """The next try is due now."""
        self._again_at = 0.0
