"""A generated app: list, detail, form, search, tab, menu, dialog and confirmation screens, described by its `Spec`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import ClassVar

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.generated import everyday, lexicon
from mobilerl.envs.phone.generated.spec import Column, Spec, Table, make_spec
from mobilerl.envs.phone.languages import ENGLISH
from mobilerl.envs.phone.ui import Dialog, Node, Screen
from mobilerl.envs.phone.widgets import (
    fab,
    field,
    flip,
    icon_button,
    item,
    label,
    mark,
    section,
    switch_item,
    tabs,
    text_button,
    wide_button,
)


class GeneratedApp(App):
    """Base class of the classes that `app_class` makes. `args["table"]` of a page is the index of its table."""

    spec: ClassVar[Spec]

    def t(self, english: str, /, **values: object) -> str:
        """The words of these apps are drawn from a lexicon, which is English on every phone."""
        return ENGLISH.text(english, values)

    def populate(self, rng: random.Random) -> None:
        for table in self.spec.tables:
            titles: dict[str, None] = {}
            count = rng.randint(*table.rows)
            while len(titles) < count:
                titles[lexicon.title(rng, table.style)] = None
            for title in titles:
                self.insert(table.name, title=title, **{c.key: c.draw(rng) for c in table.columns})

    def table(self, page: Page) -> Table:
        return self.spec.tables[page.args.get("table", 0)]

    # --- pages -----------------------------------------------------------------------------------------------

    def page_main(self, page: Page) -> Screen:
        design = self.spec.design
        if design.main == "menu":
            rows = [
                item(t.plural.capitalize(), on_tap=partial(self.go, "list", table=i))
                for i, t in enumerate(self.spec.tables)
            ]
            rows += [item(name, on_tap=partial(self.go, "info", about=name)) for name in design.pages]
            random.Random(self.spec.number).shuffle(rows)
            return Screen(self.label, rows)
        screen = self.page_list(page)
        screen.title, screen.on_up = self.label, None
        if design.main == "tabs":
            screen.bottom = self._tabs(page)
        return screen

    def _tabs(self, page: Page) -> Node:
        names = [t.plural.capitalize() for t in self.spec.tables]
        handlers = {name: partial(self.replace, "main", table=i) for i, name in enumerate(names)}
        for name in self.spec.design.pages[: 3 - len(names)]:
            handlers[name] = partial(self.go, "info", about=name)
        return tabs(list(handlers), page.args.get("table", 0), list(handlers.values()))

    def page_info(self, page: Page) -> Screen:
        return Screen(page.args["about"], [label(f"Nothing to see in {page.args['about']}")], on_up=self.up)

    def page_list(self, page: Page) -> Screen:
        design, table = self.spec.design, self.table(page)
        rows = self.sort_rows(table)
        body = [self._row(table, row) for row in rows] or [label(f"No {table.plural}")]
        actions = []
        if design.search:
            find = partial(self.go, "search", focus="query", table=page.args.get("table", 0))
            actions.append(icon_button("search", design.words["search"], find))
        begin, name = partial(self.begin, page), f"{design.words['new']} {table.noun}"
        if design.add == "row":
            body.insert(0, item(name, on_tap=begin, icon="plus"))
        elif design.add == "bar":
            actions.append(icon_button("plus", name, begin))
        elif design.add == "more":
            actions.append(icon_button("more", design.words["more"], partial(self.open_dialog, "list_more")))
        add = fab("plus", name, begin) if design.add == "fab" else None
        return Screen(table.plural.capitalize(), body, actions, on_up=self.up, fab=add)

    def sort_rows(self, table: Table) -> list[Row]:
        rows = self.db[table.name]
        if self.spec.design.order == "title":
            return sorted(rows, key=lambda r: r["title"])
        return rows if self.spec.design.order == "oldest" else rows[::-1]

    def _row(self, table: Table, row: Row) -> Node:
        details = ", ".join(str(row[key]) for key in table.listed)
        node = item(row["title"], details, on_tap=partial(self.open_row, table, row["_id"]))
        if self.spec.design.flags == "list":
            for column in table.of_kind("flag")[:1]:
                box = mark("CheckBox", bool(row[column.key]), (32, 32), f"{column.name} {row['title']}")
                box.on_tap = flip(row, column.key)
                node.children.insert(0, box)
        return node

    def page_search(self, page: Page) -> Screen:
        table, hint = self.table(page), self.spec.design.words["search"]
        return self.search_screen(
            page, f"{hint} {table.plural}", self.sort_rows(table), lambda row: row["title"], partial(self._row, table)
        )

    def page_view(self, page: Page) -> Screen:
        design, table = self.spec.design, self.table(page)
        row = self.get(table.name, page.args["id"])
        if row is None:
            return self.missing(table.noun.capitalize(), "Nothing here any more")
        in_bar = table.of_kind("flag")[:1] if design.flags == "bar" else []
        body = [self._value(row, column) for column in table.columns if column not in in_bar]
        if design.edit == "inline":
            rename = partial(self.ask, "value", "value", row["title"], column="title")
            body.insert(0, item(table.title, row["title"], on_tap=rename))
        actions: list[Node] = []
        commands = [(design.words["delete"], "trash", partial(self._delete, page))]
        if design.edit == "form":
            commands.insert(0, (design.words["edit"], "edit", partial(self.edit, table, row["_id"])))
        if design.actions == "icons":
            actions = [icon_button(icon, name, handler) for name, icon, handler in commands]
        elif design.actions == "buttons":
            body += [wide_button(name, handler) for name, _, handler in commands]
        else:
            actions = [icon_button("more", design.words["more"], partial(self.open_dialog, "view_more"))]
        for column in in_bar:
            name = everyday.BUTTONS.get(column.name, design.buttons)[row[column.key]].format(flag=column.name.lower())
            actions.insert(0, icon_button("star", name.capitalize(), flip(row, column.key)))
        return Screen(row["title"], body, actions, on_up=self.up)

    def _value(self, row: Row, column: Column) -> Node:
        """One value on the page of a row."""
        if column.kind == "flag":
            return switch_item(column.name, bool(row[column.key]), flip(row, column.key))
        shown = column.format_value(row[column.key])
        if self.spec.design.edit == "form":
            return item(column.name, shown)
        if column.options:
            return item(column.name, shown, on_tap=partial(self.open_dialog, "pick", column=column.key))
        return item(column.name, shown, on_tap=partial(self.ask, "value", "value", shown, column=column.key))

    def page_edit(self, page: Page) -> Screen:
        design, table = self.spec.design, self.table(page)
        body = [section(table.title), field("title", table.title)]
        for column in table.columns:
            if column.kind == "flag":
                body.append(switch_item(column.name, bool(page.args[column.key]), flip(page.args, column.key)))
            elif column.options:
                pick = partial(self.open_dialog, "pick", column=column.key)
                body.append(item(column.name, str(page.args[column.key]) or "None", on_tap=pick))
            else:
                body += [section(column.name), field(column.key, column.name)]
        save, actions = partial(self._save, page), []
        if "id" in page.args and design.opened == "form":
            actions.append(icon_button("trash", design.words["delete"], partial(self._delete, page)))
        if design.save == "icon":
            actions.append(icon_button("check", design.words["save"], save))
        else:
            body.append(wide_button(design.words["save"], save))
        verb = design.words["edit"] if "id" in page.args else design.words["new"]
        return Screen(f"{verb} {table.noun}", body, actions, on_up=self.up)

    # --- dialogs ---------------------------------------------------------------------------------------------

    def dialog_list_more(self, page: Page) -> Dialog:
        begin = partial(self._then, partial(self.begin, page))
        rows = [item(f"{self.spec.design.words['new']} {self.table(page).noun}", on_tap=begin)]
        rows += [item(n, on_tap=partial(self._then, partial(self.go, "info", about=n))) for n in self.spec.design.pages]
        return Dialog("", rows, [self._cancel()])

    def dialog_view_more(self, page: Page) -> Dialog:
        design = self.spec.design
        rows = [item(design.words["delete"], on_tap=partial(self._delete, page))]
        if design.edit == "form":
            edit = partial(self._then, partial(self.edit, self.table(page), page.args["id"]))
            rows.insert(0, item(design.words["edit"], on_tap=edit))
        return Dialog("", rows, [self._cancel()])

    def dialog_pick(self, page: Page) -> Dialog:
        """Chooses a value of the row on a view, or of the form on a form."""
        table, key = self.table(page), page.dialog_args["column"]
        column = table.column(key)
        values = page.args if page.name == "edit" else self.get(table.name, page.args["id"]) or {}
        return self.choice(column.name, column.options, str(values[key]), lambda v: values.update({key: v}))

    def dialog_value(self, page: Page) -> Dialog:
        table, key = self.table(page), page.dialog_args["column"]
        name = table.title if key == "title" else table.column(key).name
        return self.text_dialog(name, "value", name, self.spec.design.words["save"])

    def dialog_delete(self, page: Page) -> Dialog:
        word, table, how = self.spec.design.words["delete"], self.table(page), self.spec.design.confirm
        confirm = partial(self.delete, table.name, page.args["id"], table.noun.capitalize())
        this = "this " if how == "this" else ""
        return self.confirmation(
            f"{word} {this}{table.noun}?", confirm, word, "It cannot be restored." if how == "long" else ""
        )

    def _cancel(self) -> Node:
        return text_button(self.spec.design.words["cancel"], self.close_dialog)

    # --- what touches do -------------------------------------------------------------------------------------

    def _then(self, handler: partial[None]) -> None:
        self.close_dialog()
        handler()

    def open_row(self, table: Table, row_id: int) -> None:
        if self.spec.design.opened == "form":
            self.edit(table, row_id)
        else:
            self.go("view", table=self.spec.tables.index(table), id=row_id)

    def begin(self, page: Page) -> None:
        """Opens the form for a new row."""
        table = self.table(page)
        empty = {c.key: self.tables[table.name][c.key] for c in table.columns if c.kind == "flag" or c.options}
        self.go("edit", focus="title", table=page.args.get("table", 0), **empty)

    def edit(self, table: Table, row_id: int) -> None:
        row = self.get(table.name, row_id)
        if row is None:
            return
        values = {c.key: row[c.key] for c in table.columns if c.kind == "flag" or c.options}
        texts = {c.key: str(row[c.key]) for c in table.columns if c.kind != "flag" and not c.options}
        index = self.spec.tables.index(table)
        self.go("edit", fields={"title": row["title"], **texts}, table=index, id=row_id, **values)

    def _save(self, page: Page) -> None:
        table = self.table(page)
        values = {key: _parse(table, key, text) for key, text in page.fields.items()}
        if not values.get("title"):
            self.toast(f"{table.title} is missing")
            return
        values |= {c.key: page.args[c.key] for c in table.columns if c.key in page.args}
        self.save(page, table.name, values, table.noun.capitalize())

    def submit(self, page: Page, key: str) -> None:
        """Handles Enter, and the button of a dialog that asks for a value."""
        if page.dialog != "value":
            return
        table, column = self.table(page), page.dialog_args["column"]
        row, value = self.get(table.name, page.args["id"]), _parse(table, column, page.fields["value"])
        if row is not None and (value or column != "title"):
            row[column] = value
        self.close_dialog()

    def _delete(self, page: Page) -> None:
        table = self.table(page)
        if self.spec.design.confirm:
            self.open_dialog("delete")
        else:
            self.delete(table.name, page.args["id"], table.noun.capitalize())


def _parse(table: Table, key: str, text: str) -> str | int:
    """Converts typed text to a database value: numbers become integers."""
    text = text.strip()
    if key != "title" and table.column(key).kind == "number" and text.isdecimal():
        return int(text)
    return text


@lru_cache(maxsize=4096)
def app_class(number: int) -> type[GeneratedApp]:
    """The class of app `number`."""
    spec = make_spec(number)
    columns = {table.name: dict(_defaults(table)) for table in spec.tables}
    members = {
        "spec": spec,
        "package": spec.package,
        "label": spec.label,
        "authority": spec.authority,
        "icon": spec.icon,
        "color": spec.color,
        "tables": columns,
    }
    return type(f"App{number}", (GeneratedApp,), members)


def _defaults(table: Table) -> Iterator[tuple[str, str | int]]:
    yield "title", ""
    for column in table.columns:
        yield column.key, 0 if column.kind == "flag" else ""
