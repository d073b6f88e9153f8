"""The words of generated apps and tasks, including made-up words."""

from __future__ import annotations

import random
from collections.abc import Callable

from mobilerl.envs.phone.generated import everyday
from mobilerl.envs.phone.words import CITIES, FIRST_NAMES, LAST_NAMES, MAIL_HOSTS, STREETS
from mobilerl.envs.phone.words import split as _split

ENTITIES = dict(
    pair.split("/")
    for pair in _split("""
        recipe/recipes, trip/trips, plant/plants, book/books, client/clients, invoice/invoices, lesson/lessons,
        repair/repairs, animal/animals, coin/coins, stamp/stamps, film/films, guest/guests, parcel/parcels,
        ticket/tickets, tool/tools, wine/wines, game/games, course/courses, habit/habits, room/rooms, visit/visits,
        order/orders, member/members, job/jobs, box/boxes, key/keys, dish/dishes, medicine/medicines, bird/birds,
        loan/loans, report/reports, device/devices, garden/gardens, route/routes, song/songs, story/stories,
        sample/samples, machine/machines, gift/gifts
    """)
)
"""Singular -> plural."""
FLAGS = _split("""
    paid, packed, starred, pinned, urgent, sold, public, insured, visited, shared, locked, ready, booked, checked,
    private, finished, borrowed, approved, sent, hidden
""")
TEXT_FIELDS = _split("""
    Owner, Place, Note, Author, City, Code, Material, Brand, Contact, Teacher, Street, Maker, Sender, Nickname
""")
NUMBER_FIELDS = _split("Price, Weight, Pages, Seats, Age, Height, Score, Stock, Level, Minutes, Distance, Count, Floor")
DATE_FIELDS = _split("Due, Start, Arrival, Birthday, Deadline, Bought, Expires")
CHOICE_FIELDS = {
    "Color": _split("Red, Blue, Green, Yellow, Black, White"),
    "Size": _split("Small, Medium, Large, Huge"),
    "Status": _split("New, Open, Waiting, Closed"),
    "Kind": _split("Simple, Special, Classic, Modern"),
    "Mood": _split("Happy, Calm, Sad, Angry, Tired"),
    "Season": _split("Spring, Summer, Autumn, Winter"),
    "Importance": _split("Low, Normal, High"),
    "Shape": _split("Round, Square, Flat, Long"),
    "Metal": _split("Gold, Silver, Copper, Iron"),
    "Area": _split("North, South, East, West"),
}
TITLE_FIELDS = _split("Name, Title, Label")
ADJECTIVES = _split("""
    old, little, bright, quiet, golden, warm, cold, wild, soft, sharp, sweet, dark, early, lucky, heavy, plain, royal,
    broken, spare, second, wooden, northern, secret, famous
""")
NOUNS = _split("""
    river, lamp, apple, tiger, window, bridge, basket, candle, mountain, kettle, forest, lemon, rocket, violin, harbor,
    feather, market, mirror, saddle, tunnel, pepper, island, carpet, engine, blanket, orange, ladder, tower, pencil,
    shell
""")
ERRANDS = _split("""
    call, fix, clean, buy, feed, return, book, water, charge, print, change, send, open, find, read, bring
""")
FILE_TYPES = _split("txt, pdf, jpg")
WEEKDAYS = _split("Mon, Tue, Wed, Thu, Fri, Sat, Sun")
MONTHS = _split("Jan, Feb, Mar, Apr, May, Jun, Jul, Aug, Sep, Oct, Nov, Dec")

NEW = _split("New, Add, Create")
SAVE = _split("Save, Done, Keep, Confirm")
DELETE = _split("Delete, Remove, Erase, Discard")
EDIT = _split("Edit, Change, Modify")
SEARCH = _split("Search, Find, Look up")
MORE = _split("More, Menu, Options")
CANCEL = _split("Cancel, Close, Not now")
PAGES = _split("Help, About, Share, Backup, Statistics, Settings, Archive, News, Account, Feedback")
"""Pages that no task needs."""
SUFFIXES = _split("List, Box, Keeper, Log, Book, Manager, Plus")

COLORS = _split("""
    #00796B, #C2185B, #512DA8, #1976D2, #388E3C, #F57C00, #5D4037, #455A64, #AFB42B, #7B1FA2, #0097A7, #D32F2F
""")
ICONS = _split("book, note, folder, bag, star, image, globe, tasks, cup, car, heart, bell")

_ONSETS = _split("b, d, f, g, k, l, m, n, p, r, s, t, v, z, br, dr, tr, st, pl, gr")
_VOWELS = _split("a, e, i, o, u")
SYLLABLES = tuple(onset + vowel for onset in _ONSETS for vowel in _VOWELS)
_ENDINGS = _split("l, n, r, s, m, x")
ALL = (
    *ENTITIES, *ENTITIES.values(), *FLAGS, *TEXT_FIELDS, *NUMBER_FIELDS, *DATE_FIELDS, *CHOICE_FIELDS, *TITLE_FIELDS,
    *(option for options in CHOICE_FIELDS.values() for option in options), *ADJECTIVES, *NOUNS, *WEEKDAYS, *MONTHS,
    *NEW, *SAVE, *DELETE, *EDIT, *SEARCH, *MORE, *CANCEL, *PAGES, *SUFFIXES, *FIRST_NAMES, *LAST_NAMES, *CITIES,
    *STREETS, *ERRANDS, *FILE_TYPES, *everyday.ALL,
)  # fmt: skip
"""All texts of the lists, for building a vocabulary."""


def _invent_words(count: int) -> tuple[str, ...]:
    """Meaningless words, such as `brovatel`."""
    rng, made = random.Random(0), set[str]()
    while len(made) < count:
        word = "".join(rng.choice(SYLLABLES) for _ in range(rng.choice((2, 2, 3))))
        made.add(word + (rng.choice(_ENDINGS) if rng.random() < 0.4 else ""))
    return tuple(sorted(made))


MADE_UP = _invent_words(600)
"""Words without a meaning, which can only be read."""


def made_up(rng: random.Random) -> str:
    return rng.choice(MADE_UP)


def plural(noun: str) -> str:
    """The plural of a made-up noun."""
    return noun + ("es" if noun[-1] in "sx" else "s")


def title(rng: random.Random, style: str) -> str:
    """A random title in one of the styles `person`, `phrase`, `made-up`, `mixed` (any of these), or a style of
    `text_value`."""
    if style == "mixed":
        style = rng.choice(("person", "phrase", "made-up"))
    if style == "made-up":
        return made_up(rng).capitalize()
    if style == "phrase":
        return f"{rng.choice(ADJECTIVES)} {_noun(rng)}".capitalize()
    return text_value(rng, style)


def text_value(rng: random.Random, style: str = "") -> str:
    """Random content of a text field, in a style of `everyday.FIELDS`."""
    if style:
        return _STYLES[style](rng)
    kind = rng.random()
    if kind < 0.35:
        return made_up(rng).capitalize()
    if kind < 0.55:
        return rng.choice(CITIES)
    if kind < 0.75:
        return rng.choice(FIRST_NAMES)
    return f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"


def _noun(rng: random.Random) -> str:
    return rng.choice(NOUNS) if rng.random() < 0.8 else made_up(rng)


_STYLES: dict[str, Callable[[random.Random], str]] = {
    "person": lambda rng: f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}",
    "word": lambda rng: rng.choice((_noun(rng), rng.choice(list(ENTITIES.values())))).capitalize(),
    "two": lambda rng: f"{rng.choice(ADJECTIVES).capitalize()} {_noun(rng).capitalize()}",
    "errand": lambda rng: f"{rng.choice(ERRANDS)} {rng.choice(('the', 'the', 'a', 'my'))} {_noun(rng)}",
    "file": lambda rng: f"{_noun(rng).capitalize()}.{rng.choice(FILE_TYPES)}",
    "time": lambda rng: f"{rng.randint(0, 23)}:{5 * rng.randrange(12):02d}",
    "phone": lambda rng: " ".join(str(rng.randint(10, 99)) for _ in range(3)),
    "email": lambda rng: f"{rng.choice(FIRST_NAMES)}@{rng.choice(MAIL_HOSTS)}",
    "city": lambda rng: rng.choice(CITIES),
    "street": lambda rng: f"{rng.choice(STREETS)} {rng.randint(1, 60)}",
    "distance": lambda rng: f"{rng.randint(0, 9)}.{rng.randint(0, 9)} km",
    "size": lambda rng: f"{rng.randint(1, 99)} kB",
    "price": lambda rng: f"{rng.randint(1, 250)}.{rng.choice(('00', '50'))}",
}


def date_value(rng: random.Random) -> str:
    return f"{rng.choice(WEEKDAYS)} {rng.randint(1, 28)} {rng.choice(MONTHS)}"
