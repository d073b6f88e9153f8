"""Viewer of a run: `build(run_dir)` writes `view/index.html`, a static page that opens from disk."""

from mobilerl.viewer.build import build

__all__ = ["build"]
