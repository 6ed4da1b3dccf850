"""Entry point of ``python -m lab``, the same command as ``lab``."""

from lab.cli.main import main

main()
