"""An embedded phone that AndroidWorld's set-up takes for its own. It takes that program's arguments.

A stand-in where AndroidWorld names apps: the phone's own messages app has the package of Simple SMS Messenger, and the
text of its button; emptying the provider's database in the shell empties it; two packages that are cleared exist.
"""

from __future__ import annotations

import sys
from typing import Any

from mobilerl.envs.phone import packages, serve
from mobilerl.envs.phone.apps import messages
from mobilerl.envs.phone.shell.core import Result, Shell

CLEARED = ("com.android.chrome", "com.google.android.deskclock")
SIMPLE_SMS = "com.simplemobiletools.smsmessenger"


def make_simple_sms() -> None:
    icon_button = messages.icon_button
    messages.icon_button = lambda icon, text, *more: icon_button(icon, "SMS" if text == "Send" else text, *more)
    packages.ACTIVITIES[SIMPLE_SMS] = (".activities.MainActivity",)
    packages.PROVIDED["com.android.providers.telephony"] = SIMPLE_SMS
    messages.Messages.package = SIMPLE_SMS


class AndroidWorldShell(Shell):
    def run(self, command: Any, *more: Any) -> Result:
        if "DELETE FROM sms;" in command:
            self.phone.apps[SIMPLE_SMS].db["messages"].clear()
        return super().run(command, *more)


if __name__ == "__main__":
    from mobilerl.envs.phone.adbd import server

    packages.SYSTEM = (*packages.SYSTEM, *CLEARED)
    make_simple_sms()
    server.Shell = AndroidWorldShell
    sys.exit(serve.main())
