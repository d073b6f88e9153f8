"""A run as a static page that opens from disk: `build(run_dir)` writes `view/index.html`."""

from mobilerl.viewer.build import build

__all__ = ["build"]
