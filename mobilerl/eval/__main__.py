"""`python -m mobilerl.eval sim ...` is the same as `mobilerl eval sim ...`."""

import sys

from mobilerl.cli import main

sys.exit(main(["eval", *sys.argv[1:]]))
