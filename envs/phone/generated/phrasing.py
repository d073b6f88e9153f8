"""Goals in natural language, with at least twenty phrasings for every kind of change or question."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product

from mobilerl.envs.phone.generated import everyday

Phrase = tuple[str, str]
"""A form, and the verb for its placeholder."""


def _split(text: str) -> tuple[str, ...]:
    return tuple(" ".join(text.split()).split(" | "))


VERBS: dict[str, tuple[str, ...]] = {
    "create": _split("add | create | make | enter | record | register"),
    "edit": _split("change | set | update | switch | correct"),
    "on": _split("mark | flag | tag | record | list | note"),
    "off": _split("unmark | clear | reset | cancel | undo | drop"),
    "delete": _split("delete | remove | erase | discard | get rid of | throw out"),
    "read": _split("what is | tell me | look up | find out | check | I need"),
    "find": _split("which | find the | tell me which | name the | look up which"),
    "count": _split("how many | count how many | tell me how many | find out how many"),
    "copy": _split("copy | take | carry | transfer"),
    "impossible": _split("share | print | send | assign | play | rate"),
}
FORMS: dict[str, tuple[str, ...]] = {
    "create": (
        "{v} the {noun} {title}{values}",
        "{v} a new {noun} called {title}{values}",
        "{v} a {noun} named {title}{values}",
        "{v} {title} as a new {noun}{values}",
        "{v} one more {noun}, {title}{values}",
        "{v} a {noun} for {title}{values}",
        "{v} {title} to my {plural}{values}",
        "{v} a {noun} {title}{values}",
    ),
    "edit": (
        "{v} the {field} of {title} to {value}",
        "{v} the {field} of the {noun} {title} to {value}",
        "for {title} {v} the {field} to {value}",
        "{v} {title} so that its {field} is {value}",
        "in the {noun} {title} {v} {field} to {value}",
        "{v} {field} {value} for the {noun} {title}",
        "the {field} of {title} is {value} now, so {v} it",
    ),
    "on": (
        "{v} {title} as {field}",
        "{v} the {noun} {title} as {field}",
        "turn {field} on for {title}",
        "{title} is {field}, so {v} it",
        "switch {field} on for the {noun} {title}",
        "{v} {title}, which is {field} now",
        "tick {field} for {title}",
    ),
    "off": (
        "{v} {field} for {title}",
        "{v} {field} for the {noun} {title}",
        "turn {field} off for {title}",
        "{title} is not {field} any more, so {v} it",
        "switch {field} off for the {noun} {title}",
        "{title} is no longer {field}, so {v} it",
        "untick {field} for {title}",
    ),
    "delete": (
        "{v} {title}",
        "{v} the {noun} {title}",
        "{v} {title} from my {plural}",
        "I want to {v} {title}",
        "{v} the {noun} called {title}",
        "{v} my {noun} {title}",
        "{v} the {title} {noun}",
    ),
    "read": (
        "{v} the {field} of {title}",
        "{v} the {field} of the {noun} {title}",
        "{v} the {field} that {title} has",
        "for {title} {v} the {field}",
        "about {title}: {v} the {field}",
        "which {field} has {title}",
        "what {field} does the {noun} {title} have",
    ),
    "find": (
        "{v} {noun} has the {field} {value}",
        "{v} {noun} with {field} {value}",
        "{v} {noun} whose {field} is {value}",
        "{v} {noun} that has {value} as {field}",
    ),
    "count": (
        "{v} {plural} have the {field} {value}",
        "{v} {plural} with {field} {value} there are",
        "{v} {plural} there are with {value} as {field}",
        "{v} of my {plural} have {field} {value}",
        "{v} {plural} are there whose {field} is {value}",
    ),
    "copy": (
        "{v} the {source_field} of {source} in {source_app} into the {field} of {title}",
        "{v} the {source_field} of {source} from {source_app} to {field} of {title}",
        "the {field} of {title} should be the {source_field} of {source} in {source_app}, so {v} it",
        "from {source_app} {v} the {source_field} of {source} to the {field} of the {noun} {title}",
        "{v} {source_field} of {source} ({source_app}) to {field} of the {noun} {title}",
    ),
    "impossible": (
        "{v} the {noun} {title} by email",
        "{v} {title} to {name}",
        "{v} the {noun} {title} to {name}",
        "{v} {title} by bus",
        "{v} the {noun} {title} on paper",
        "{v} {title} for {name}",
    ),
}
PURPOSES = {
    "create": "new {noun} {title}{values}",
    "edit": "change {row} {field} {value}",
    "on": "turn on {row} {field}",
    "off": "turn off {row} {field}",
    "delete": "delete {row}",
    "read": "read {row} {field}",
    "find": "find {noun} {field} {value}",
    "count": "count {plural} {field} {value}",
    "copy": "carry {source} {source_field} to {row} {field}",
    "impossible": "infeasible {row}",
}
"""What a step is for, in the words of the expert's thoughts, which are the same for every phrasing. `row` is the title,
preceded by the noun if the goal has it."""
_VALUES: tuple[Callable[[Sequence[tuple[str, str]]], str], ...] = (
    lambda pairs: " with " + " and ".join(f"{name} {value}" for name, value in pairs),
    lambda pairs: ", " + ", ".join(f"{name} {value}" for name, value in pairs),
    lambda pairs: " (" + ", ".join(f"{name}: {value}" for name, value in pairs) + ")",
    lambda pairs: " and set " + " and ".join(f"{name} to {value}" for name, value in pairs),
    lambda pairs: " with the " + " and the ".join(f"{name} {value}" for name, value in pairs),
)
"""Ways to list the values of a new row."""
APP_FORMS = (
    "{goal} in {app}",
    "in {app} {goal}",
    "open {app} and {goal}",
    "{goal}, using {app}",
    "{goal} in the {app} app",
    "go to {app} and {goal}",
)
SMALL_APP_FORMS = (
    "{goal} in the {app}",
    "{goal} in my {app}",
    "in the {app} {goal}",
    "in my {app} {goal}",
    "open the {app} and {goal}",
    "go to the {app} and {goal}",
)
"""Forms for the app's name in lower case, as in "in the calendar"."""
SMALL_APP = 0.4
"""Probability that the app's name is in lower case."""
FROM_FORMS = ("{goal} from {app}", "{goal} from the {app} app")
"""Additional forms for `delete`."""
PHONE_FORMS = ("{goal} on this phone", "{goal} on my phone", "on this phone {goal}")
"""Forms without an app's name that mention the phone."""
ON_PHONE, ARTICLE, LOCATED = 0.1, 0.2, 0.3
"""Probability of these forms if no app is named, of "the" before a title, and of a row's place behind its title."""
ARTICLE_STYLES = ("two", "word", "phrase", "file")
"""Styles of titles that may have an article, as in "the Warm Saddle"."""
PLACES = ("Folder", "Area", "Place", "City")
"""Fields that tell where a row is, as in "Budget.pdf in Downloads"."""
_BEFORE_TITLE = re.compile(r"\b(of|for|off|is|has|does) \{title\}")
QUESTIONS = ("what", "which", "how", "who", "whose", "when", "where", "on which", "at what", "in which")
JOINTS = (" and then ", ", then ", " and ", ". Then ", "; after that ")


@lru_cache
def phrases(kind: str) -> tuple[Phrase, ...]:
    """All phrasings of a kind. Forms without a verb count once."""
    return tuple(
        dict.fromkeys((form, verb if "{v}" in form else "") for form, verb in product(FORMS[kind], VERBS[kind]))
    )


@lru_cache
def find_phrases(kind: str, field: str) -> tuple[Phrase, ...]:
    """Phrasings that fit only this field and do not name it."""
    return tuple((form, "") for form in everyday.SAID.get(f"{kind} {field}", ()))


def clause(
    phrase: Phrase,
    names: Mapping[str, str],
    values: Sequence[tuple[str, str]],
    rng: random.Random,
    article: bool = False,
) -> str:
    """One change or question in words, starting in lower case. With `article`, there is a "the" before a title
    that follows a preposition or an auxiliary."""
    form, verb = phrase
    if article:
        form = _BEFORE_TITLE.sub(r"\1 the {title}", form)
    listed = rng.choice(_VALUES)(values) if values else ""
    return form.format(v=verb, values=listed, **names)


def sentence(clauses: Sequence[str], app: str, rng: random.Random, from_app: bool = False) -> str:
    """The whole goal. `app` is named once, unless it is "". `from_app` allows forms such as "from the {app} app"."""
    goal = rng.choice(JOINTS).join(clauses)
    asks = clauses[0].startswith(QUESTIONS)
    forms: Sequence[str] = ("{goal}",)
    if app and rng.random() < SMALL_APP:
        app, forms = app.lower(), SMALL_APP_FORMS
    elif app:
        forms = (*APP_FORMS, *FROM_FORMS) if from_app else APP_FORMS
    elif rng.random() < ON_PHONE:
        forms = PHONE_FORMS
    if len(clauses) > 1:  # what is named last could refer to the last change only
        forms = [form for form in forms if form.endswith("{goal}")]
    goal = rng.choice(forms).format(goal=goal, app=app)
    return _capital(goal) + ("?" if asks and rng.random() < 0.7 else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
