"""The program: `slipway`, and `python -m launcher`."""

import os
import signal

INTERRUPTED = 130


def main() -> None:
    """Run a command. Ctrl-C while its modules load ends it at once, without a traceback."""
    first = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if first:
        # An exception inside an import could be lost in it, or shown as one that was ignored.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from launcher.cli.app import main as run  # noqa: PLC0415 - what takes the time

    if first:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
