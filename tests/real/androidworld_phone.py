"""An embedded phone with the package names of two apps that AndroidWorld clears before it uses them.

Takes the arguments of `python -m envs.phone`.
"""

from __future__ import annotations

import sys

from envs.phone import packages, serve

if __name__ == "__main__":
    packages.SYSTEM = (*packages.SYSTEM, "com.android.chrome", "com.google.android.deskclock")
    sys.exit(serve.main())
