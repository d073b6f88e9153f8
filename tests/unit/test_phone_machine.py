"""The embedded phone under any sequence of actions: what is shown can be read, and all of it can be had again."""

from __future__ import annotations

import copy
import io

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from PIL import Image

from mobilerl.envs.base import Action, Back, Enter, Home, Launch, LongPress, Swipe, Tap, Task, Type, Wait
from mobilerl.envs.device import Device
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, APPS
from mobilerl.envs.phone.console import State, restore_snapshot, take_snapshot
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks import suite
from mobilerl.envs.phone.tasks.base import Admin
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.policy.actions import candidates
from mobilerl.policy.screen import parse_screen

WIDTH, HEIGHT = 90, 180
TASKS = [suite.make_task(t.__name__, 1) for t in suite.templates("train")[::5]]
PLACE = st.integers(0, 999)
ANYWHERE = st.one_of(
    st.builds(Tap, PLACE, PLACE),
    st.builds(LongPress, PLACE, PLACE),
    st.builds(Swipe, PLACE, PLACE, PLACE, PLACE),
    st.builds(Swipe, PLACE, st.sampled_from([0, 999]), PLACE, PLACE),  # from the edges: shade and home
    st.builds(Type, st.text(max_size=12)),
    st.builds(Launch, st.sampled_from([*APP_NAMES, "Nothing"])),
    st.sampled_from([Back(), Home(), Enter(), Wait(1.0)]),
)


class PhoneMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 50), popups=st.sampled_from([0.0, 1.0]))
    def start(self, seed, popups):
        self.seed, self.popups = seed, popups
        self.phone, self.device = self.made()
        self.played: list[object] = []
        self.kept: tuple[State, str, object, int] | None = None

    def made(self) -> tuple[Phone, Device]:
        phone = Phone(APPS, WIDTH, HEIGHT)
        phone.reset(self.seed, self.popups)
        return phone, Device(InProcessTransport(phone), APP_NAMES)

    def play(self, action):
        self.played.append(action)
        perform(self.device, action)

    @rule(task=st.sampled_from(TASKS))
    def set_up_a_task(self, task):
        self.play(task)

    @rule(action=ANYWHERE)
    def act(self, action):
        self.play(action)

    @rule(which=st.integers(0, 40), text=st.text(max_size=8))
    def act_on_what_is_there(self, which, text):
        """Random places rarely meet anything: most of what apps can do is behind their elements."""
        actions = candidates(parse_screen(self.device.dump_xml(), WIDTH, HEIGHT))[:-1]
        if actions:
            action = actions[which % len(actions)]
            self.play(Type(text) if isinstance(action, Type) else action)

    @rule()
    def take(self):
        self.kept = take_snapshot(self.phone), self.device.dump_xml(), stored(self.phone), len(self.played)

    @rule()
    def put_back(self):
        if self.kept is not None:
            state, shown, inside, played = self.kept
            restore_snapshot(self.phone, state)
            del self.played[played:]
            assert self.device.dump_xml() == shown and stored(self.phone) == inside

    @invariant()
    def the_screen_can_be_read(self):
        xml = self.device.dump_xml()
        screen = parse_screen(xml, WIDTH, HEIGHT)
        assert not screen.error and screen.elements
        assert self.device.foreground_app() in APP_NAMES
        assert xml == self.device.dump_xml(), "looking changed something"

    def teardown(self):
        if not hasattr(self, "phone"):
            return
        png = self.device.screenshot()
        assert Image.open(io.BytesIO(png)).size == (WIDTH, HEIGHT)
        other, device = self.made()
        for action in self.played:
            perform(device, action)
        assert device.dump_xml() == self.device.dump_xml(), "equal actions gave another screen"
        assert device.screenshot() == png
        assert stored(other) == stored(self.phone)


def perform(device: Device, action: Action | Task) -> None:
    if isinstance(action, Task):
        suite.template(action.template)(action.params).setup(Admin(device.transport))
    else:
        device.act(action)


def stored(phone: Phone) -> tuple[object, ...]:
    """What the phone keeps beside what it shows."""
    return copy.deepcopy((phone.files, phone.settings, [(app.db, app.prefs) for app in phone.apps.values()]))


TestPhone = PhoneMachine.TestCase
TestPhone.settings = settings(max_examples=20, stateful_step_count=25)
