"""`python -m launcher` is `slipway`."""

from launcher.cli.app import main

if __name__ == "__main__":
    main()
