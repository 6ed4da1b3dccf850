"""Entry point of the command ``lab``, and of ``python -m lab``."""

import sys

from lab.base.streams import steady


def main() -> None:
    """Run a command. An interrupt while its modules are imported ends it as one that comes later does."""
    steady()
    try:
        from lab.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted; run the same command again to continue\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
