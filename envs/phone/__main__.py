"""`python -m mobilerl.envs.phone` serves a phone with nothing but Pillow installed: what a phone's container runs."""

import sys

from mobilerl.envs.phone.serve import main

sys.exit(main())
