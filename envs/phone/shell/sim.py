"""`sim`: what only an embedded phone can do. `sim reset --seed N --popups RATE` makes it a fresh phone at once."""

from __future__ import annotations

from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler, number, option


def run(phone: Phone, words: list[str]) -> str:
    if words[:1] != ["reset"]:
        raise Failure("usage: sim reset [--seed N] [--popups RATE]", 2)
    rate = number(option(words, "--popups", "0"), "sim reset")
    if not 0 <= rate <= 1:
        raise Failure(f"sim reset: --popups is {rate}; give a chance between 0 and 1", 2)
    phone.reset(int(number(option(words, "--seed", "0"), "sim reset")), rate)
    return ""


COMMANDS: dict[str, Handler] = {"sim": run}
