"""Common kinds of things on phones, with the names of their apps, their usual fields and everyday phrasings.

A pretrained model knows that contacts have phone numbers and where alarms are set; a tiny one has to learn it. The look
of the apps, the paths between their screens and most of their fields are still drawn at random.
"""

from __future__ import annotations

from dataclasses import dataclass

from mobilerl.envs.phone.words import split


@dataclass(frozen=True, slots=True)
class Thing:
    noun: str
    plural: str
    apps: tuple[str, ...]
    """Names of apps that contain such things."""
    style: str
    """Style of titles for `lexicon.title`."""
    fields: tuple[str, ...]
    """Keys of `FIELDS`, and flags."""


def _thing(line: str) -> Thing:
    noun, plural, apps, style, fields = line.split(" / ")
    return Thing(noun, plural, split(apps), style, split(fields))


THINGS = {
    thing.noun: thing
    for thing in map(
        _thing,
        (
            "contact / contacts / Contacts, Phone / person / Phone, Email, City, Favourite",
            "note / notes / Notes / word / Text, Pinned",
            "event / event plans / Calendar / word / Date, Time, Place",
            "lesson / lessons / Calendar, School / mixed / Date, Time, Teacher",
            "visit / visits / Calendar / person / Date, Time, Place",
            "alarm / alarm settings / Clock / time / Label, On, Repeat",
            "task / tasks / Tasks / errand / Priority, Day, Done",
            "job / jobs / Tasks, Work / errand / Priority, Day, Done",
            "file / files / Files, Documents / file / Size, Folder",
            "report / reports / Files, Documents / file / Size, Author",
            "song / songs / Music / two / Artist, Favourite",
            "film / films / Films, Media / two / Time, Minutes, Favourite",
            "place / places / Maps / two / Distance, Street, Saved",
            "route / routes / Maps / two / Distance, Minutes, Saved",
            "item / items / Shop / word / Price, Stock, Favourite",
            "order / orders / Shop / word / Total, Date, Paid",
            "message / messages / Messages / person / Text, Time, Read",
            "email / email messages / Email / person / Text, Date, Pinned",
            "device / devices / Settings, Home / two / On, Volume",
            "network / networks / Settings, Network / word / Password, On",
        ),
    )
}
"""Things by noun."""
FIELDS: dict[str, tuple[str, str]] = {
    "Phone": ("text", "phone"),
    "Email": ("text", "email"),
    "City": ("text", "city"),
    "Text": ("text", "errand"),
    "Date": ("date", ""),
    "Time": ("text", "time"),
    "Place": ("text", "two"),
    "Teacher": ("text", "person"),
    "Label": ("text", "word"),
    "Priority": ("choice", "Low, Normal, High"),
    "Day": ("choice", "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
    "Size": ("text", "size"),
    "Folder": ("choice", "Documents, Downloads, Music, Pictures"),
    "Author": ("text", "person"),
    "Artist": ("text", "person"),
    "Minutes": ("number", ""),
    "Distance": ("text", "distance"),
    "Street": ("text", "street"),
    "Price": ("text", "price"),
    "Total": ("text", "price"),
    "Stock": ("number", ""),
    "Volume": ("number", ""),
    "Password": ("text", "word"),
}
"""Kind of each field, with the style of its texts (`lexicon.text_value`) or the options of a choice."""
FLAGS = ("Favourite", "Pinned", "On", "Repeat", "Done", "Saved", "Paid", "Read")
BUTTONS = {
    "Favourite": ("Favourite", "Unfavourite"),
    "Pinned": ("Pin", "Unpin"),
    "Saved": ("Save", "Remove"),
    "Done": ("Finish", "Reopen"),
}
"""Labels of the buttons that turn a flag on and off."""

SAID: dict[str, tuple[str, ...]] = {
    kind: tuple(" ".join(text.split()).split(" | "))
    for kind, text in {
        "on Favourite": """make {title} a favourite | make the {noun} {title} a favourite |
            add {title} to the favourites | put {title} on my favourites | mark the {noun} {title} as a favourite |
            add the {noun} {title} to the favourites""",
        "off Favourite": """remove {title} from the favourites | take {title} off the favourites |
            remove the {noun} {title} from the favourites | take the {noun} {title} off my favourites""",
        "on Pinned": "pin {title} | pin the {noun} {title} | pin my {noun} {title} | keep {title} pinned",
        "off Pinned": "unpin {title} | unpin the {noun} {title} | {title} need not be pinned",
        "on Saved": "save {title} | save the {noun} {title} | add {title} to the saved {plural} | keep {title}",
        "off Saved": """remove {title} from the saved {plural} | take {title} off my saved {plural} |
            do not keep {title} saved""",
        "on Done": """tick off {title} | tick the {noun} {title} off | finish {title} | mark {title} as done |
            {title} is done, tick it off | check off {title}""",
        "off Done": """reopen {title} | reopen the {noun} {title} | mark {title} as not done |
            untick the {noun} {title}""",
        "on On": """turn on {title} | turn {title} on | switch on the {noun} {title} | switch the {title} {noun} on |
            turn on the {title} {noun} | switch {title} on""",
        "off On": """turn off {title} | turn {title} off | switch off the {noun} {title} |
            switch the {title} {noun} off | turn off the {title} {noun} | switch {title} off""",
        "on Paid": "pay for {title} | the {noun} {title} is paid now, so mark it",
        "on Read": "mark {title} as read | mark the {noun} {title} as read",
        "read Phone": """what is the phone number of {title} | which phone number has {title} |
            how do I call {title} | give me the phone number of {title}""",
        "read Email": "what is the email of {title} | where do I send an email for {title}",
        "read City": "in which city is {title} | what city is {title} in",
        "read Text": """what does {title} say | what does the {noun} {title} say | what is in the {noun} {title} |
            what did {title} write | read me the {noun} {title}""",
        "read Date": """on which day is {title} | when is {title} | when is the {noun} {title} |
            which day is {title} on""",
        "read Time": """at what time is {title} | when does {title} start | when does the {noun} {title} begin |
            what time is the {noun} {title} at | at what time does the {noun} {title} start""",
        "read Day": """on which day is {title} due | when is the {noun} {title} due | which day is set for {title} |
            on which day is the {noun} {title} due | when do I have to do {title}""",
        "read Due": "when is {title} due | when is the {noun} {title} due | on which day is {title} due",
        "read Place": "where is {title} | where is the {noun} {title} | where does {title} take place",
        "read Street": "where is {title} | in which street is {title} | on which street is the {noun} {title}",
        "read Label": "what is the {title} {noun} for | how is the {noun} {title} labelled",
        "read Size": "how large is {title} | how large is the {noun} {title} | how much storage does {title} need",
        "read Folder": """in which folder is {title} | in which folder is the {noun} {title} |
            where is the {noun} {title}""",
        "read Artist": """who sings {title} | who sings the {noun} {title} | who is the artist of {title} |
            who plays {title}""",
        "read Author": "who is the author of {title} | who is {title} by",
        "read Owner": "who is the owner of {title} | whose {noun} is {title}",
        "read Distance": """how far is {title} | how far is it to {title} | what is the distance to {title} |
            how far away is the {noun} {title} | what is the distance to the {noun} {title}""",
        "read Price": """how much is {title} | how much is the {noun} {title} | what does the {noun} {title} cost |
            how much does {title} cost""",
        "read Total": """how much was {title} | how much did the {noun} {title} cost | what was the total of {title} |
            what was the total of the {noun} {title}""",
        "read Minutes": "how long is {title} | how long does {title} take | how many minutes is {title}",
        "read Stock": "how many of {title} are left | how many {title} are there",
        "read Weight": "how heavy is {title} | how heavy is the {noun} {title}",
        "read Height": "how high is {title} | how high is the {noun} {title}",
        "read Age": "how old is {title} | how old is the {noun} {title}",
    }.items()
}  # fmt: skip
"""Ways to ask for a flag or a field without naming it, in addition to `phrasing.FORMS`."""
ALL = (
    *THINGS, *(t.plural for t in THINGS.values()), *(app for t in THINGS.values() for app in t.apps), *FIELDS, *FLAGS,
    *(option for kind, options in FIELDS.values() if kind == "choice" for option in split(options)),
    *(text for pair in BUTTONS.values() for text in pair), *(form for forms in SAID.values() for form in forms),
)  # fmt: skip
"""All texts of this module, for building a vocabulary."""


def holds(app: str, noun: str) -> bool:
    """Whether one would look for such a thing in an app of this name."""
    return noun in app.casefold() or (noun in THINGS and app in THINGS[noun].apps)
