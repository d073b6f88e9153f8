"""Every task template on upright and turned phones and tablets, light and dark, in every language: experts earn 1.0,
idle agents 0.

By default each template is played in two of these ways, chosen by its name; `PHONE_FORMS=all` plays all of them.
"""

from __future__ import annotations

import asyncio
import os
from itertools import product
from zlib import crc32

import pytest

from mobilerl.envs.base import Finish
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.languages import LANGUAGES
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks.catalogue import TEMPLATES
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.suite import make_task
from mobilerl.envs.phone.transport import InProcessTransport

TABLET = ("wm size 800x1280", "wm density 160")
TURNED = ("settings put system user_rotation 1",)
FORMS = {"phone": (), "turned phone": TURNED, "tablet": TABLET, "turned tablet": (*TABLET, *TURNED)}
WAYS = tuple(product(FORMS, ("light", "dark"), LANGUAGES))
SAMPLE = 2


class Shaped(InProcessTransport):
    """Gives the phone its form whenever it was reset."""

    def __init__(self, form: str, theme: str) -> None:
        super().__init__(Phone(APPS))
        self.lines = (*FORMS[form], f"settings put secure ui_night_mode {1 + (theme == 'dark')}")

    def shell(self, cmd, timeout=10.0):
        result = super().shell(cmd, timeout)
        if cmd[:2] == ("sim", "reset"):
            for line in self.lines:
                assert super().shell(line).exit_code == 0
        return result


def ways_of(name: str) -> list[tuple[str, str, str]]:
    count = len(WAYS) if os.environ.get("PHONE_FORMS") == "all" else SAMPLE
    return [WAYS[(crc32(name.encode()) + 7 * i) % len(WAYS)] for i in range(count)]


async def play(env: PhoneEnv, name: str, idle: bool) -> tuple[float, list]:
    observation, actions, done = await env.reset(make_task(name, 0)), [], False
    agent = ExpertAgent(env.template)
    while not done:
        actions.append(Finish() if idle else agent.act(observation))
        result = await env.step(actions[-1])
        observation, done = result.observation, result.done
    return await env.score(), actions


@pytest.mark.parametrize("name", TEMPLATES)
def test_experts_earn_one_and_idle_agents_nothing(name):
    for form, theme, language in ways_of(name):
        env = PhoneEnv(transport=Shaped(form, theme), screenshots=False, languages=(language,))
        score, actions = asyncio.run(play(env, name, idle=False))
        assert score == 1.0, f"{form}, {theme}, {language}: {actions}"
        assert asyncio.run(play(env, name, idle=True))[0] == 0.0, f"{form}, {theme}, {language}"
