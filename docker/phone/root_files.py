"""Copies Python, Pillow, the phone's font and every shared library they need into the root of a new file system."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

APPLICATION = Path("/opt/mobilerl")
"""The image's working directory, on Python's import path."""
LEFT_OUT = "test idlelib tkinter turtledemo ensurepip lib2to3 *-packages __pycache__ config-* pydoc_data"
"""Patterns of files that are left out of the standard library."""


def copy_root(root: Path) -> None:
    """Files keep their absolute paths; `python3` is a link in /usr/local/bin."""
    import fontpkg_roboto
    import PIL

    interpreter = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib")).resolve()
    pillow = Path(PIL.__file__).resolve().parent
    _copy_file(interpreter, root)
    _copy_tree(library, root, tuple(LEFT_OUT.split()))
    _copy_tree(pillow, root, ("__pycache__",), APPLICATION / "PIL")
    _copy_tree(fontpkg_roboto.ROOT, root, ("__pycache__",), APPLICATION / "fontpkg_roboto")
    bundled = pillow.parent / "pillow.libs"
    if bundled.is_dir():
        _copy_tree(bundled, root, (), APPLICATION / "pillow.libs")
    objects = [interpreter, *library.rglob("*.so"), *pillow.rglob("*.so"), *bundled.glob("*.so*")]
    for needed in sorted(_libraries(objects)):
        _copy_file(needed, root)
    links = root / "usr/local/bin"
    links.mkdir(parents=True, exist_ok=True)
    (links / "python3").unlink(missing_ok=True)
    (links / "python3").symlink_to(interpreter)
    for folder in ("tmp", "proc", "dev", "etc"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/false\nnobody:x:65534:65534:nobody:/:/bin/false\n")


def _libraries(objects: list[Path]) -> set[Path]:
    """Shared libraries outside the packages, as the dynamic linker resolves them, including the linker itself."""
    found: set[Path] = set()
    for start in range(0, len(objects), 50):
        batch = [str(p) for p in objects[start : start + 50]]
        said = subprocess.run(["ldd", *batch], capture_output=True, text=True, check=False).stdout
        found |= {Path(path) for path in re.findall(r"(?:=> )?(/\S+) \(0x", said)}
    own = {p.name for p in objects}
    return {p for p in found if p.exists() and "site-packages" not in p.parts and p.name not in own}


def _copy_file(source: Path, root: Path) -> None:
    """Follows links, and keeps the name under which the file is requested."""
    target = root / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _copy_tree(source: Path, root: Path, left_out: tuple[str, ...], target: Path | None = None) -> None:
    shutil.copytree(
        source,
        root / (target or source).relative_to("/"),
        symlinks=True,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns(*left_out),
    )


if __name__ == "__main__":
    copy_root(Path(sys.argv[1]))
