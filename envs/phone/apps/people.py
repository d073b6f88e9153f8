"""Helpers of the apps that deal with people."""

from __future__ import annotations

import random

from mobilerl.envs.phone.app import Row


def full_name(person: Row) -> str:
    return f"{person['first']} {person['last']}".strip()


def phone_number(rng: random.Random) -> str:
    """Three groups of two digits, such as `20 31 47`."""
    return " ".join(str(rng.randint(10, 99)) for _ in range(3))
