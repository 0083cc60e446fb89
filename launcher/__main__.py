"""`python -m launcher` is `slipway`."""

import sys

from launcher.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
