"""Music: songs, favourites and playlists, and a player with a queue."""

from __future__ import annotations

import random
from functools import partial

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import IMAGE, LEFT_TO_RIGHT, Dialog, Node, Screen
from mobilerl.envs.phone.widgets import check_item, fab, flip, heart_button, icon_button, item, label, text_button
from mobilerl.envs.phone.words import FIRST_NAMES, LAST_NAMES, PLAYLISTS, SONGS

TABS = ("Songs", "Favourites", "Playlists")
COLOR = "#8E24AA"


class Music(App):
    package = "com.android.music"
    label = "Music"
    authority = "music"
    icon = "music"
    color = COLOR
    tables = {
        "songs": {"title": "", "artist": "", "favourite": 0},
        "playlists": {"name": ""},
        "playlist_songs": {"playlist": "", "song": ""},
    }
    default_prefs = {"song": "", "playing": 0, "shuffle": 0, "queue": ""}
    """The loaded song, whether it sounds, and the playlist it is played from ("" for all songs)."""
    list_detail = ListDetail(("main", "search", "playlist"), ("player",), "Select a song")

    def populate(self, rng: random.Random) -> None:
        titles = rng.sample(SONGS, 10)
        for title in sorted(titles):
            artist = f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
            self.insert("songs", title=title, artist=artist, favourite=int(rng.random() < 0.2))
        for name in rng.sample(PLAYLISTS, 3):
            self.insert("playlists", name=name)
            for title in rng.sample(titles, 3):
                self.insert("playlist_songs", playlist=name, song=title)

    def songs(self) -> list[Row]:
        return sorted(self.db["songs"], key=lambda r: r["title"])

    def in_playlist(self, name: str) -> list[Row]:
        """The songs of a playlist in the order they were added; songs that were deleted are left out."""
        by_title = {r["title"]: r for r in self.db["songs"]}
        titles = [r["song"] for r in self.db["playlist_songs"] if r["playlist"] == name]
        return [by_title[t] for t in titles if t in by_title]

    def song(self, title: str) -> Row | None:
        return next((r for r in self.db["songs"] if r["title"] == title), None)

    def play(self, title: str, queue: str = "") -> None:
        self.prefs.update(song=title, playing=1, queue=queue)

    def toggle(self) -> None:
        self.prefs["playing"] = 1 - self.prefs["playing"]

    def skip(self, by: int) -> None:
        """Plays the song `by` places further in the queue, which is a circle; shuffled, it has a mixed order."""
        queue = self.in_playlist(self.prefs["queue"]) if self.prefs["queue"] else self.songs()
        titles = [r["title"] for r in queue]
        if self.prefs["shuffle"]:
            random.Random(len(titles)).shuffle(titles)
        if titles:
            here = titles.index(self.prefs["song"]) if self.prefs["song"] in titles else -1
            self.play(titles[(here + by) % len(titles)], self.prefs["queue"])

    def page_main(self, page: Page) -> Screen:
        shown: str = page.args.get("tab", "Songs")
        bottom = self.tab_bar(TABS, shown, ("music", "heart", "list"))
        new = None
        if shown == "Playlists":
            body = [self._playlist_row(r["name"]) for r in self.db["playlists"]]
            new = fab("plus", self.t("New playlist"), partial(self.ask, "name", "name"))
        else:
            body = [self._song_row(r) for r in self.songs() if shown == "Songs" or r["favourite"]]
        body = [*self._mini_player(), *(body or [label(self.t("Nothing here yet"))])]
        return Screen(self.t(self.label), body, [self.search_button()], fab=new, bottom=bottom)

    def _mini_player(self) -> list[Node]:
        song = self.song(self.prefs["song"])
        if song is None:
            return []
        state = self.t("Playing" if self.prefs["playing"] else "Paused")
        keys = [self._play_button(), self._next_button()]
        opened = partial(self.go, "player")
        return [item(song["title"], state, icon="music", selected=True, on_tap=opened, trailing=keys)]

    def _play_button(self) -> Node:
        icon, name = ("pause", "Pause") if self.prefs["playing"] else ("play", "Play")
        return icon_button(icon, self.t(name), self.toggle)

    def _next_button(self) -> Node:
        return icon_button("next", self.t("Next"), lambda: self.skip(1))

    def _song_row(self, song: Row, queue: str = "") -> Node:
        def play_song() -> None:
            self.play(song["title"], queue)
            self.go("player")

        hold = partial(self.open_dialog, "song", title=song["title"], queue=queue)
        shown = song["title"] == self.prefs["song"] and self.shown_beside()
        return item(song["title"], song["artist"], on_tap=play_song, avatar=song["title"], on_long=hold, selected=shown)

    def _playlist_row(self, name: str) -> Node:
        count = len(self.in_playlist(name))
        content = self.t("{count} song" if count == 1 else "{count} songs", count=count)
        return item(name, content, icon="list", on_tap=lambda: self.go("playlist", playlist=name))

    def page_search(self, page: Page) -> Screen:
        def text(song: Row) -> str:
            return f"{song['title']} {song['artist']}"

        return self.search_screen(page, self.t("Search songs"), self.songs(), text, self._song_row)

    def page_player(self, page: Page) -> Screen:
        song = self.song(self.prefs["song"])
        if song is None:
            return self.missing(self.t("Player"), self.t("Nothing is playing"))
        mixed = self.prefs["shuffle"]
        opened = partial(self.open_dialog, "add", title=song["title"])
        add = icon_button("playlist_add", self.t("Add to playlist"), opened)
        mix = self.t("Shuffle off" if mixed else "Shuffle on")
        keys = [
            icon_button("shuffle", mix, flip(self.prefs, "shuffle")),
            icon_button("previous", self.t("Previous"), lambda: self.skip(-1)),
            self._play_button(),
            self._next_button(),
        ]
        keys[0].color = COLOR if mixed else ""
        for key in keys:
            key.width = None
        body = [
            Node(cls=IMAGE, look="tile", icon="music", color=COLOR, height=240),
            label(song["title"], size=22, bold=True, align="center"),
            label(song["artist"], size=16, align="center"),
            Node(axis="row", look=LEFT_TO_RIGHT, pad=(24, 16), height=72, children=keys),
        ]
        title = self.t("Playing" if self.prefs["playing"] else "Paused")
        return Screen(title, body, [heart_button(song, self.t), add], on_up=self.up, lead=1)

    def page_playlist(self, page: Page) -> Screen:
        name: str = page.args["playlist"]
        songs = self.in_playlist(name)
        actions = [
            icon_button("plus", self.t("Add songs"), lambda: self.go("pick", playlist=name)),
            icon_button("trash", self.t("Delete"), lambda: self.open_dialog("delete")),
        ]
        if songs:
            actions.insert(0, icon_button("shuffle", self.t("Shuffle"), lambda: self._play_list(name, shuffle=1)))
            actions.insert(0, icon_button("play", self.t("Play all"), lambda: self._play_list(name, shuffle=0)))
        body = [self._song_row(r, name) for r in songs] or [label(self.t("No songs yet"))]
        return Screen(name, body, actions, on_up=self.up)

    def _play_list(self, name: str, shuffle: int) -> None:
        self.prefs.update(queue=name, song="", shuffle=shuffle)
        self.skip(1)
        self.go("player")

    def page_pick(self, page: Page) -> Screen:
        """Songs with a tick each; ticking adds to the playlist at once, as in most players."""
        name: str = page.args["playlist"]
        chosen = {r["title"] for r in self.in_playlist(name)}

        def row(song: Row) -> Node:
            title, ticked = song["title"], song["title"] in chosen
            toggle = partial(self._take_out if ticked else self._put_in, name, title)
            return check_item(title, ticked, toggle, song["artist"])

        rows = [row(song) for song in self.songs()]
        return Screen(self.t("Add songs"), rows, [icon_button("check", self.t("Done"), self.up)], on_up=self.up)

    def dialog_song(self, page: Page) -> Dialog:
        title, queue = page.dialog_args["title"], page.dialog_args["queue"]
        song = self.song(title)
        like = "Unfavourite" if song is not None and song["favourite"] else "Favourite"
        add = item(self.t("Add to playlist"), on_tap=lambda: self.open_dialog("add", title=title))
        rows = [add, item(self.t(like), on_tap=lambda: self._like(title))]
        out = item(self.t("Remove from playlist"), on_tap=lambda: self._take_out(queue, title))
        return Dialog(title, [*rows, out] if queue else rows)

    def dialog_add(self, page: Page) -> Dialog:
        title = page.dialog_args["title"]
        rows = [item(r["name"], on_tap=partial(self._put_in, r["name"], title)) for r in self.db["playlists"]]
        return Dialog(self.t("Add to playlist"), rows, [text_button(self.t("Cancel"), self.close_dialog)])

    def dialog_name(self, page: Page) -> Dialog:
        return self.text_dialog(self.t("New playlist"), "name", self.t("Name"), self.t("Create"))

    def dialog_delete(self, page: Page) -> Dialog:
        return self.confirmation(self.t("Delete playlist?"), partial(self._delete, page))

    def submit(self, page: Page, key: str) -> None:
        """Creates a playlist of the name in the dialog."""
        if key != "name":
            return
        name = page.fields["name"].strip()
        if not name or any(r["name"] == name for r in self.db["playlists"]):
            self.toast(self.t("This name is taken" if name else "A playlist needs a name"))
            return
        self.close_dialog()
        self.insert("playlists", name=name)
        self.go("playlist", playlist=name)

    def _put_in(self, name: str, title: str) -> None:
        self.close_dialog()
        if any((r["playlist"], r["song"]) == (name, title) for r in self.db["playlist_songs"]):
            self.toast(self.t("The song is already there"))
        else:
            self.insert("playlist_songs", playlist=name, song=title)
            self.toast(self.t("Added to {name}", name=name))

    def _take_out(self, name: str, title: str) -> None:
        self.close_dialog()
        listed = self.db["playlist_songs"]
        self.db["playlist_songs"] = [r for r in listed if (r["playlist"], r["song"]) != (name, title)]

    def _like(self, title: str) -> None:
        self.close_dialog()
        song = self.song(title)
        if song is not None:
            song["favourite"] = 1 - song["favourite"]

    def _delete(self, page: Page) -> None:
        self.close_dialog()
        name = page.args["playlist"]
        self.db["playlists"] = [r for r in self.db["playlists"] if r["name"] != name]
        self.db["playlist_songs"] = [r for r in self.db["playlist_songs"] if r["playlist"] != name]
        self.up()
