"""Languages of the interface: every text is translated and no data is, and screens are mirrored.

`test_phone_forms.py` plays every template in every language.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from phone_screens import Recorder, node, tap, walk

from mobilerl.envs.base import Task
from mobilerl.envs.phone import fonts, languages, phone, render, words
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.apps.shop import ADDRESSES, CATEGORIES
from mobilerl.envs.phone.canvas import Written
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.generated import tasks as generated
from mobilerl.envs.phone.languages import LANGUAGES
from mobilerl.envs.phone.languages.language import Language, Plural
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.popups import CATALOGUE
from mobilerl.envs.phone.shell.core import Shell
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.suite import make_task
from mobilerl.envs.phone.ui import Bounds

GERMAN, ARABIC = LANGUAGES["de"], LANGUAGES["ar"]
SOURCES = Path(languages.__file__).parents[1]
TRANSLATED = ("de", "ar")


def shown(phone: Phone) -> list[str]:
    return [text for n in phone.tree().window.walk() for text in (n.text, n.desc, n.hint) if text]


def switched(locales: str, device: Phone | None = None) -> Phone:
    device = device or Phone(APPS)
    assert Shell(device).run(["settings", "put", "system", "system_locales", locales]).exit_code == 0
    return device


# --- translations --------------------------------------------------------------------------------------------------


FORMS = {"t": "{}", "CalculationError": "{}", "save": "{} saved", "delete": "{} deleted"}
"""Functions that mark a text, and what they make of their first or last argument."""


def marked_in_code() -> set[str]:
    """The texts that the phone's modules mark."""
    found = set()
    for path in (*SOURCES.glob("*.py"), *(SOURCES / "apps").glob("*.py"), *(SOURCES / "languages").glob("*.py")):
        for call in (part for part in ast.walk(ast.parse(path.read_text())) if isinstance(part, ast.Call)):
            called, *arguments = call.args if getattr(call.func, "id", "") == "partial" else (call.func, *call.args)
            name = getattr(called, "attr", getattr(called, "id", ""))
            if name in FORMS and arguments and (name == "t" or path.parent.name == "apps"):
                text = arguments[0 if FORMS[name] == "{}" else -1]
                choices = [text.body, text.orelse] if isinstance(text, ast.IfExp) else [text]
                found |= {FORMS[name].format(c.value) for c in choices if isinstance(c, ast.Constant)}
    return found


class Bracketed(Language):
    """Puts what the code marks as a text of the interface into brackets."""

    def text(self, english: str, values: object) -> str:
        return f"⟦{super().text(english, values)}⟧"


def data(device: Phone) -> set[str]:
    """The words of what users and their files say."""
    apps = {app.label: [app.db, app.prefs] for app in device.apps.values()}
    apps["Tasks"] = [row["title"] for row in device.app("Tasks").db["tasks"]]  # the other columns are the interface's
    settings = [list(table.values()) for table in device.settings.values()]
    fixed = ["Clipper", *words.CITIES, *words.NOTE_LINES, *ADDRESSES, *CATEGORIES]
    names = [one.name for one in LANGUAGES.values()]
    held = json.dumps([*apps.values(), settings, list(device.files), fixed, names], ensure_ascii=False)
    return set(re.findall(r"[^\W\d_]+", held))


def unmarked(text: str) -> Iterator[str]:
    """The words of a text that are in no brackets; single letters stand for something else."""
    while (rest := re.sub(r"⟦[^⟦⟧]*⟧", "", text)) != text:
        text = rest
    return (word for word in re.findall(r"[^\W\d_]+", text) if len(word) > 1)


@pytest.fixture(scope="module")
def asked() -> set[str]:
    """All texts of the interface; that a screen has others is an error."""
    recorder = Recorder(GERMAN.words)
    language = Bracketed("de", "de-DE", "Deutsch (Deutschland)", recorder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phone, "current", lambda locales: language)
        device = Phone(APPS)
        device.settings["system"]["system_locales"] = "de-DE,ar-EG"
        for _ in walk(device, recorder):
            found = {word for text in shown(device) for word in unmarked(text)}
            assert not (left := found and found - data(device)), f"{left} in {shown(device)}"
    hints = {app.list_detail.hint for app in APPS if app.list_detail is not None}
    return recorder.asked | marked_in_code() | hints


@pytest.mark.parametrize("code", TRANSLATED)
def test_every_text_of_the_interface_is_translated(asked, code):
    assert len(asked) > 350
    assert sorted(asked - set(LANGUAGES[code].words)) == []


def test_translations_fill_in_what_the_english_texts_do():
    assert set(GERMAN.words) == set(ARABIC.words)
    for language, english in product((GERMAN, ARABIC), GERMAN.words):
        found = language.words[english]
        forms = [found.few, found.many, found.other] if isinstance(found, Plural) else [found]
        for form in forms:
            names = [set(re.findall(r"\{(\w+)\}", text)) for text in (english, form)]
            assert names[0] == names[1] or english == "{count} " + english.split()[-1].rstrip("s"), (english, form)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 عنصر"), (2, "عنصران"), (3, "3 عناصر"), (11, "11 عنصرًا"), (100, "100 عنصر"), (104, "104 عناصر")],
)
def test_arabic_counts_in_its_own_way(count, text):
    assert ARABIC.text("{count} items", {"count": count}) == text


def test_what_users_wrote_stays_as_it_is():
    device = switched("de-DE")
    notes = device.app("Notes")
    notes.insert("notes", title="Search", body="Delete")
    device.launch(notes.package)
    assert {"Notizen", "Suchen", "Search", "Delete"} <= set(shown(device))
    tap(device, "Search")
    tap(device, "Löschen")
    assert {"Notiz löschen?", "Abbrechen"} <= set(shown(device))
    tap(device, "Löschen")
    assert "Notiz gelöscht" in shown(device) and "Search" not in shown(device)


def test_days_and_numbers_have_the_language_s_forms():
    device = switched("de-DE")
    assert "Sonntag, 15. Oktober" in shown(device)
    device.launch("com.android.maps")
    assert any(re.fullmatch(r"\d,\d km", text) for text in shown(device))
    device.launch("com.android.calendar")
    tap(device, "Monat")
    assert shown(device)[5:13] == [*"MDMDFSS", "1"]
    device.launch("com.android.calculator2")
    for key in ("1", ",", "5", "×", "3", "="):
        tap(device, key)
    assert "4,5" in shown(device) and device.foreground.db["history"][-1]["result"] == "4.5"


# --- the setting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("locales", "locale"),
    [("de-DE", "de-DE"), ("fr-FR,ar-EG,de-DE", "ar-EG"), ("de", "de-DE"), ("fr-FR", "en-US"), ("", "en-US")],
)
def test_the_first_known_locale_is_shown(locales, locale):
    device = switched(locales)
    assert Shell(device).run(["getprop", "persist.sys.locale"]).stdout == f"{locale}\n".encode()
    label = {"de-DE": "Kontakte", "ar-EG": "جهات الاتصال", "en-US": "Contacts"}[locale]
    assert label in shown(device)


def test_settings_switch_between_the_phone_s_languages():
    device = Phone(APPS)
    device.launch("com.android.settings")
    assert "System" not in shown(device), "a phone in English alone has nothing to choose"
    switched("de-DE,en-US", device)
    for name in ("System", "Sprachen", "English (United States)"):
        tap(device, name)
    assert device.settings["system"]["system_locales"] == "en-US,de-DE" and "Languages" in shown(device)


def test_the_seed_chooses_a_phone_s_language():
    env, found = PhoneEnv(screenshots=False, languages=("en", "de", "ar")), []
    for seed in (0, 1, 2, 3, 4, 5, 0):
        asyncio.run(env.reset(make_task("NotesRead", seed)))
        found.append(env.template.language.code)
    assert set(found) == {"en", "de", "ar"} and found[0] == found[-1]
    result = Shell(Phone(APPS)).run(["sim", "reset", "--languages", "en,fr"])
    assert result.exit_code == 2 and b"'fr'; choose from en, de, ar" in result.stderr


# --- from right to left --------------------------------------------------------------------------------------------


def test_screens_are_mirrored():
    device = switched("ar-EG")
    device.launch("com.android.contacts")
    arabic, english = device.tree(), switched("en-US", device).tree()
    assert [n.look for n in arabic.root.walk()] == [n.look for n in english.root.walk()]
    for here, there in zip(arabic.root.walk(), english.root.walk(), strict=True):
        assert here.bounds == over(there.bounds, 360), here
    switched("ar-EG", device)
    tap(device, "جهة اتصال جديدة")
    assert node(device, "التنقل إلى أعلى").bounds[2] > 340 > 20 > node(device, "حفظ").bounds[0]


def test_on_a_wide_screen_the_list_stands_on_the_right_and_scrolls_by_itself():
    device = switched("ar-EG", Phone(APPS, 720, 360))
    Shell(device).run("wm size 1000x500; wm density 160")
    device.launch("com.android.settings")
    assert "اختيار إعداد" in shown(device)
    side = device.tree().panes[0]
    assert side.root.bounds[2] == device.width and side.body[0] == device.width - 360
    device.swipe(device.width - 100, 400, device.width - 100, 200)
    assert device.foreground.page.scroll > 0
    tap(device, "البطارية")
    assert node(device, "مستوى البطارية").bounds[2] <= side.root.bounds[0]


def over(bounds: Bounds, width: int) -> Bounds:
    left, top, right, bottom = bounds
    return width - right, top, width - left, bottom


def test_number_pads_and_players_keep_their_order():
    device = switched("ar-EG")
    device.launch("com.android.calculator2")
    arabic = {n.text: n.bounds for n in device.tree().root.walk() if n.text.isdecimal() and n.look == "key"}
    english = {n.text: n.bounds for n in switched("en-US", device).tree().root.walk() if n.text in arabic}
    assert len(arabic) == 10 and arabic == english


# --- what is drawn -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", ["de-DE", "ar-EG"])
def test_popups_have_room_for_their_texts(locale):
    if locale == "ar-EG" and "Arabic" not in fonts.stack():
        pytest.skip(f"no font for Arabic here: apt-get install {fonts.PACKAGES}")
    device = switched(locale)
    device.launch("com.android.tasks")
    for popup in CATALOGUE:
        device.popup = popup
        device.invalidate()
        written: list[Written] = []
        render.draw_screen(device, written)
        assert len(written) > 3 and [w.text for w in written if w.shown != w.text or fonts.missing(w.text)] == []


# --- experts -------------------------------------------------------------------------------------------------------


async def expert_score(env: PhoneEnv, task: Task) -> float:
    observation, done = await env.reset(task), False
    expert = ExpertAgent(env.template)
    while not done:
        result = await env.step(expert.act(observation))
        observation, done = result.observation, result.done
    return await env.score()


@pytest.mark.parametrize("code", TRANSLATED)
def test_experts_decline_popups_in_every_language(code):
    env = PhoneEnv(screenshots=False, popup_rate=1.0, languages=(code,))
    for seed in range(2 * len(CATALOGUE)):
        assert asyncio.run(expert_score(env, make_task("NotesCreate", seed))) == 1.0, f"seed {seed}"


@pytest.mark.parametrize("kind", generated.TEMPLATES)
def test_generated_apps_are_mirrored_too_and_keep_their_words(kind):
    env = PhoneEnv(screenshots=False, popup_rate=0.5, languages=("ar",))
    assert asyncio.run(expert_score(env, generated.make_task(kind, 0, 64))) == 1.0


@pytest.mark.parametrize(
    ("name", "answers"), [("MapsDistance", ("{} km", "{} كم")), ("TodoDue", ("{}",)), ("SettingsReadChoice", ("{}",))]
)
def test_answers_may_be_in_either_language(name, answers):
    for code in TRANSLATED:
        env = PhoneEnv(screenshots=False, languages=(code,))
        asyncio.run(env.reset(make_task(name, 0)))
        template = env.template
        wanted = template.text(template.answer)
        accepted = [r for r in template.language.readings(wanted) if template.says(r, wanted)]
        assert wanted in accepted and len(accepted) > 1 and not template.says("nothing", wanted)
