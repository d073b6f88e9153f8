"""The phone: apps, system state and one screen, changed by touches, keys and text.

`Phone` is a deterministic state machine. The shell (`shell/`) calls it; nothing else should be needed to drive it.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from mobilerl.envs.phone import panels
from mobilerl.envs.phone.app import App, Host, Page
from mobilerl.envs.phone.apps.catalogue import EXTRA_APPS
from mobilerl.envs.phone.generated.app import app_class
from mobilerl.envs.phone.keyboard import DELETE, ENTER, key_at, keyboard_top
from mobilerl.envs.phone.languages import current
from mobilerl.envs.phone.layout import assemble, mirror
from mobilerl.envs.phone.panes import assemble_panes
from mobilerl.envs.phone.popups import Popup, schedule
from mobilerl.envs.phone.ui import EXPANDED, NAV_BAR, STATUS_BAR, Node, Screen, Tree, node_at
from mobilerl.envs.phone.widgets import hint

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

EDGE_SWIPE_DP = 48
"""How far a finger that comes from the edge of the screen must move to open the shade, or to leave the app."""
HOLD_MS = 800
"""A swipe up from the bottom edge that takes this long shows the recent apps; a faster one goes home."""


class Phone(Host):
    """`apps` are App classes, the launcher first. `width`, `height` and `density` are those of `System`."""

    def __init__(
        self, apps: Sequence[type[App]], width: int = 360, height: int = 720, density: int | None = None
    ) -> None:
        super().__init__(width, height, density)
        self.popup: Popup | None = None
        self.panel: Page | None = None
        """The system's window over the apps; see `panels.py`."""
        self._popup_plan: dict[int, Popup] = {}
        self._classes = tuple(apps)
        self.reset(0)

    @property
    def foreground(self) -> App:
        return self.apps[self.current]

    def set_time(self, now: datetime) -> None:
        """Sets the device's clock, as `date` does."""
        self._clock = now - timedelta(seconds=self.inputs)
        self.invalidate()

    def set_location(self, longitude: float, latitude: float) -> None:
        self.location = longitude, latitude

    def turn(self) -> None:
        """Turns the phone by a quarter, counterclockwise."""
        self.held = (self.held + 1) % 4
        self.invalidate()

    def reset(
        self,
        seed: int,
        popup_rate: float = 0.0,
        generated: Sequence[int | str] = (),
        languages: Sequence[str] = ("en",),
    ) -> None:
        """A used phone at its home screen. `popup_rate` is the chance that an episode is disturbed by a pop-up.

        With numbers of `generated` apps, or names of EXTRA_APPS, these are on the phone in the place of all others but
        the launcher. The seed chooses the one of the `languages` that is shown.
        """
        self._set_up(languages, seed)
        self.popup = self.panel = None
        classes = (
            (self._classes[0], *(EXTRA_APPS.get(str(n)) or app_class(int(n)) for n in generated))
            if generated
            else self._classes
        )
        self.apps = {cls.package: cls(self) for cls in classes}
        for app in self.apps.values():
            app.populate(random.Random(f"{seed}/{app.package}"))
        self.current = self.launcher.package
        self._recent: list[str] = []
        self.launcher.start()
        self._popup_plan = schedule(random.Random(f"{seed}/popups"), popup_rate)
        self._tree: Tree | None = None

    def boot(self) -> None:
        """After a reboot: the home screen, no app running, what was stored still there."""
        self.boot_id = str(uuid.uuid4())
        self.popup = self.panel = self.call = None
        self.notifications = {}
        self.awake = True
        for app in self.apps.values():
            app.stack, app.snack = [], ""
        self._go_home()
        self.invalidate()

    def invalidate(self) -> None:
        self._tree = None

    def tree(self) -> Tree:
        if self._tree is None:
            self._tree = self._lay_out()
        return self._tree

    def _lay_out(self) -> Tree:
        self.language, self.wide = current(self.locales), self.size_dp[0] >= EXPANDED
        if self.panel is not None:
            screen, package = panels.screen(self, self.panel), panels.component(self, self.panel)[0]
            return self._assemble(screen, package, self.panel)
        app = self.foreground
        screen = app.screen()
        if self.popup is not None:
            screen.dialog = self.popup.dialog(self)
        page, beside = app.page, app.list_page
        keyboard = _fill_fields(page, screen)
        if beside is page and app.list_detail is not None:
            screen.hint = hint(app.t(app.list_detail.hint), app.icon)
        elif beside is not None:
            screen.side = app.screen_of(beside)
            _fill_fields(beside, screen.side, active=False)
        return self._assemble(screen, app.package, page, keyboard, app.snack)

    @property
    def pages(self) -> list[Page]:
        """The pages on the screen, from the left: one, or a list and what was opened from it."""
        if self.panel is not None:
            return [self.panel]
        page, beside = self.foreground.page, self.foreground.list_page
        return [page] if beside is None or beside is page else [beside, page]

    def _assemble(self, screen: Screen, package: str, page: Page, keyboard: bool = False, snack: str = "") -> Tree:
        (width, height), pages = self.size_dp, self.pages if self.wide else [page]
        rest = (keyboard, snack, width, self.font_scale, page.dialog_scroll)
        if self.wide and (screen.side or screen.hint or screen.bottom):
            tree = assemble_panes(screen, package, height, [p.scroll for p in pages], *rest)
        else:
            tree = assemble(screen, package, height, page.scroll, *rest)
        if self.language.rtl:
            mirror(tree)
        for shown, pane in zip(pages, tree.panes or (tree,), strict=True):
            shown.scroll = min(shown.scroll, pane.scroll_max)
        page.dialog_scroll = min(page.dialog_scroll, tree.dialog_scroll_max)
        return tree

    @property
    def window_package(self) -> str:
        """Package of the window that has the focus: a pop-up may belong to another app than the one below it."""
        if self.panel is not None:
            return panels.component(self, self.panel)[0]
        return self.popup.package if self.popup is not None else self.current

    def _input(self) -> None:
        self.inputs += 1
        for app in self.apps.values():
            app.snack = ""

    def _settle(self) -> None:
        """After every input: a pop-up that is due appears (not over the home screen) and the screen is redrawn."""
        if self.popup is None and self.panel is None and self.current != self.launcher.package:
            due = [n for n in self._popup_plan if n <= self.inputs]
            if due:
                self.popup = self._popup_plan.pop(min(due))
        self._tree = None

    def tap(self, x: float, y: float) -> None:
        """A tap at pixel (x, y)."""
        self._touch(x, y, long=False)

    def long_press(self, x: float, y: float) -> None:
        self._touch(x, y, long=True)

    def _touch(self, x: float, y: float, long: bool) -> None:
        tree, app = self.tree(), self.foreground
        dx, dy = x / self.scale, y / self.scale
        if tree.keyboard and dy >= keyboard_top(self.height / self.scale):
            self._press_key(key_at(dx, dy, self.height / self.scale, self.size_dp[0]))
            return
        self._input()
        hit = node_at(tree, dx, dy, long)
        if hit is not None and len(tree.panes) > 1 and tree.dialog is None and dx < tree.panes[-1].root.bounds[0]:
            app.touch_list(partial(self._press, hit, app, long))
        elif hit is not None:
            self._press(hit, app, long)
        elif tree.dialog is not None and not _contains(tree.window, dx, dy):
            self._dismiss(tree)
        self._settle()

    def _press_key(self, name: str) -> None:
        """A key of the on-screen keyboard; shift and the symbol page are not modeled."""
        if name == DELETE:
            self._input()
            self.delete_char()
            self._settle()
        elif name == ENTER:
            self.enter()
        else:
            self.text(name if len(name) == 1 else "")

    def _press(self, node: Node, app: App, long: bool) -> None:
        if long and node.on_long is not None:
            node.on_long()
        elif node.field_key:
            app.page.focus = node.field_key
        elif node.on_tap is not None:
            node.on_tap()

    def swipe(self, x: float, y: float, x2: float, y2: float, ms: int = 300) -> None:
        """A finger from (x, y) to (x2, y2) px. In place it is a long press (from 500 ms) or a tap."""
        if abs(x2 - x) + abs(y2 - y) < 8 * self.scale:
            self._touch(x, y, long=ms >= 500)
            return
        tree = self.tree()
        self._input()
        if self._edge_swipe(y / self.scale, (y2 - y) / self.scale, ms):
            pass
        elif tree.dialog is not None:
            page = self.foreground.page
            page.dialog_scroll = max(0, page.dialog_scroll + round((y - y2) / self.scale))
        else:
            for page, pane in zip(self.pages, tree.panes or (tree,), strict=True):
                left, top, right, bottom = pane.body
                if left <= x / self.scale < right and top <= y / self.scale < bottom:
                    page.scroll = min(max(0, page.scroll + round((y - y2) / self.scale)), pane.scroll_max)
        self._settle()

    def _edge_swipe(self, y: float, down: float, ms: int) -> bool:
        """Carries out what a finger that starts at `y` dp and moves `down` asks of the system; False for nothing."""
        shade = self.panel is not None and self.panel.name in (panels.SHADE, panels.QUICK_SETTINGS)
        if y < STATUS_BAR and down >= EDGE_SWIPE_DP:
            self.panel = Page(panels.QUICK_SETTINGS if shade else panels.SHADE)
        elif y >= self.height / self.scale - NAV_BAR and -down >= EDGE_SWIPE_DP:
            if shade:
                self.panel = None
            elif ms >= HOLD_MS:
                self.panel = Page(panels.RECENTS)
            else:
                self._leave_to_home()
        else:
            return False
        return True

    def text(self, text: str) -> None:
        """Types at the end of the focused field, which holds one line; without a focus the keys go nowhere."""
        page = self.foreground.page
        text = _CONTROL.sub(" ", text)
        self._input()
        if self.typing:
            page.fields[page.focus] = page.fields.get(page.focus, "") + text
        self._settle()

    @property
    def typing(self) -> bool:
        """Whether what is typed arrives in a field."""
        return self.foreground.page.focus != "" and self.popup is None and self.panel is None

    def clear_text(self) -> None:
        page = self.foreground.page
        if self.typing:
            page.fields[page.focus] = ""
        self._tree = None

    def delete_char(self) -> None:
        page = self.foreground.page
        if self.typing:
            page.fields[page.focus] = page.fields.get(page.focus, "")[:-1]
        self._tree = None

    def enter(self) -> None:
        app = self.foreground
        page = app.page
        self._input()
        if self.typing:
            app.submit(page, page.focus)
        self._settle()

    def back(self) -> None:
        """Back closes, in this order: panel, pop-up or dialog, keyboard, page, app."""
        tree, app = self.tree(), self.foreground
        self._input()
        if self.panel is not None:
            self.panel = None
        elif tree.dialog is not None:
            self._dismiss(tree)
        elif tree.keyboard:
            app.page.focus = ""
        elif app is not self.launcher and not app.back():
            self._go_home(finish=app)
        self._settle()

    def home(self) -> None:
        self._input()
        self._leave_to_home()
        self._settle()

    def _leave_to_home(self) -> None:
        self.popup = self.panel = None
        self._go_home()

    def launch(self, package: str) -> bool:
        """Brings an app to the front; False when there is none of that package."""
        app = self.apps.get(package)
        if app is None:
            return False
        self._input()
        self.popup = None
        self.open(package)
        self._settle()
        return True

    def open(self, package: str) -> None:
        self.panel = None
        self.apps[package].start()
        self.current = package
        self._recent = [package, *(p for p in self._recent if p != package)]

    def running(self) -> list[App]:
        used = [self.apps[p] for p in self._recent]
        return [a for a in used if a.stack and a is not self.launcher]

    def show_panel(self, page: Page) -> None:
        self.panel = page
        self._tree = None

    def close_panel(self, name: str = "") -> None:
        if self.panel is not None and name in ("", self.panel.name):
            self.panel = None
        self._tree = None

    def close_popup(self) -> None:
        self.popup = None

    def force_stop(self, package: str) -> None:
        app = self.apps[package]
        app.stack = []
        if self.current == package:
            self._go_home()
        self._tree = None

    def wait(self) -> None:
        """A second passes."""
        self._input()
        self._settle()

    def _go_home(self, finish: App | None = None) -> None:
        if finish is not None:
            finish.stack = []
        self.current = self.launcher.package
        self.launcher.stack = []
        self.launcher.start()

    def _dismiss(self, tree: Tree) -> None:
        if self.popup is not None:
            self.popup = None
            return
        app = self.foreground
        if app.stack:
            app.close_dialog()


def _fill_fields(page: Page, screen: Screen, active: bool = True) -> bool:
    """Puts the page's texts into its edit fields; True when one of them has the focus, as on the `active` page."""
    keyboard = False
    tops = screen.dialog.body if screen.dialog else [*screen.body, *filter(None, [screen.footer])]
    for node in (n for top in tops for n in top.walk() if n.field_key):
        node.text = page.fields.setdefault(node.field_key, "")
        node.focused = active and page.focus == node.field_key
        keyboard |= node.focused
    return keyboard


def _contains(node: Node, x: float, y: float) -> bool:
    left, top, right, bottom = node.bounds
    return left <= x < right and top <= y < bottom
