"""Several sessions in one driver, which takes ten seconds to import all it needs. Prints a line RESULT for each.

    python -m mobilerl_verl_cpu.sessions NAME FUNCTION [ARGUMENT ...] [-- NAME FUNCTION [ARGUMENT ...]] ...

with the variables of `launch.environment`. FUNCTION: a key of FUNCTIONS. A line has NAME, and as JSON what the function
returned.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import groupby

from mobilerl_verl_cpu.families import compared
from mobilerl_verl_cpu.session import beside_the_local_engine

FUNCTIONS = {"beside": beside_the_local_engine, "compared": compared}


def main(words: Sequence[str]) -> None:
    for between, group in groupby(words, "--".__eq__):
        if not between:
            name, function, *arguments = group
            print("RESULT", name, json.dumps(FUNCTIONS[function](*arguments)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
