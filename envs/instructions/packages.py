"""Packages that tasks from a file name, and which of them a device lacks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from mobilerl.envs.base import InfraError, Task, Transport

LIST_S = 30.0
"""Maximum duration of listing a device's packages, in seconds."""
_PACKAGE = r"(?P<package>[A-Za-z]\w*(?:\.\w+)+)"
_OPTIONS = r"(?:-{1,2}\w[\w-]*(?: +(?:\d+|current|all))? +)*"


def _forms(*forms: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(form.format(package=_PACKAGE, options=_OPTIONS)) for form in forms)


_NEEDING = _forms(
    r"\bpm +(?:clear|enable|disable|disable-user|grant|revoke|suspend|unsuspend) +{options}{package}",
    r"\bam +(?:start|start-activity|startservice|start-service) [^|;&]*?-n +{package}/",
    r"\bmonkey [^|;&]*?-p +{package}",
    r"\brun-as +{package}",
)
"""Where a command names a package without which it fails."""
_NAMING = _forms(
    r"\bam +(?:force-stop|kill) +{options}{package}",
    r"/data/(?:data|user(?:_de)?/\d+)/{package}",
    r"/Android/(?:data|media|obb)/{package}",
)
"""Where else one names a package. `pm path` and `pm list packages` also ask for those that are not there."""
_JOINED = re.compile(r"[|;&]")
"""A command whose failure may not be that of its line."""
_INSTALLS = re.compile(r"\b(?:pm|cmd +package) +install")


def list_installed(transport: Transport) -> frozenset[str]:
    """Names of the device's packages. Raises InfraError if it does not answer."""
    connect = getattr(transport, "connect", None)
    if connect is not None:  # a phone in this process needs no connection
        connect()
    lines = transport.shell(("pm", "list", "packages"), LIST_S).stdout.splitlines()
    if not (found := frozenset(line.removeprefix("package:").strip() for line in lines if line.startswith("package:"))):
        raise InfraError(f"{transport.serial}: `pm list packages` names none")
    return found


def nearest(package: str, known: Collection[str]) -> str:
    """A hint at the installed package that is most like `package`; "" if none is."""
    last = package.rpartition(".")[2]
    same = [name for name in sorted(known) if name.rpartition(".")[2] == last]
    near = difflib.get_close_matches(package, sorted(known), n=1, cutoff=0.75) or same
    return f"; did you mean {near[0]}?" if near else ""


def find_named(task: Task) -> dict[str, tuple[str, bool]]:
    """Packages that the task names: the field that does, and whether the task cannot be set up without the package.

    A task whose `reset` installs something names none, since what is missing before an episode may be there in it.
    """
    found: dict[str, tuple[str, bool]] = {task.app: ("app", True)} if task.app else {}
    if any(_INSTALLS.search(line) for line in task.params["reset"]):
        return {}
    for field in ("reset", "start", "check"):
        for line in task.params[field]:
            alone = field != "check" and not _JOINED.search(line)
            for places, needed in ((_NEEDING, alone), (_NAMING, False)):
                for package in (match["package"] for place in places for match in place.finditer(line)):
                    before = found.get(package, (field, False))
                    found[package] = before if before[1] or not needed else (field, True)
    return found
