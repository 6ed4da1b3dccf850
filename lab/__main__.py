"""``python -m lab`` is the command ``lab``."""

from lab.cli.main import main

main()
