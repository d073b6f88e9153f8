"""Numbers of the engines that no setting changes, for all who must agree on them. Loads without torch."""

from __future__ import annotations

ADAM_BETAS = (0.9, 0.98)
"""Of AdamW, in every engine."""
PIXEL_CACHE_BYTES = 256 * 2**20
"""Of the pictures cut into patches that a codec keeps."""
