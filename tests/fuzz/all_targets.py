"""The fuzz targets of all modules."""

from __future__ import annotations

import agent_targets
import data_targets
import file_targets
import phone_targets
import server_targets

MODULES = (agent_targets, file_targets, phone_targets, data_targets, server_targets)
TARGETS = [target for module in MODULES for target in module.TARGETS]
