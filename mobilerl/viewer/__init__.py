"""A run directory as static pages that open from disk: `build(run_dir)` writes `view/index.html`."""

from mobilerl.viewer.build import build

__all__ = ["build"]
