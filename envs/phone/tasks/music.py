"""Tasks of the Music app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.tasks.base import Admin, Hand, Template, same_answer
from envs.phone.tasks.rows import added, edited
from envs.phone.words import FIRST_NAMES, LAST_NAMES, PLAYLISTS, SONGS

LISTED, LISTS, PREFS, TRACKS = "music/playlist_songs", "music/playlists", "music/prefs", "music/songs"


class _OneSong(Template):
    """The song exists and is not a favourite; `loaded` and `playing` say what the player does with it."""

    app = "Music"
    loaded = False
    playing = 0

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"song": rng.choice(SONGS), "artist": f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"}

    def setup(self, phone: Admin) -> None:
        add_song(phone, self.p["song"], self.p["artist"])
        if self.loaded:
            phone.update(PREFS, 1, song=self.p["song"], playing=self.playing)
        self.songs, self.lists, self.listed = phone.rows(TRACKS), phone.rows(LISTS), phone.rows(LISTED)

    def player(self, phone: Admin) -> dict[str, Any]:
        return phone.rows(PREFS)[0]

    def library_kept(self, phone: Admin) -> bool:
        return [phone.rows(t) for t in (TRACKS, LISTS, LISTED)] == [self.songs, self.lists, self.listed]

    def to_song(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Music")
        yield from ui.reach(self.p["song"])


def add_song(phone: Admin, title: str, artist: str) -> None:
    """Makes the song exist exactly once, by that artist and not a favourite."""
    for row in phone.rows(TRACKS):
        if row["title"] == title:
            phone.delete(TRACKS, row["_id"])
    phone.insert(TRACKS, title=title, artist=artist, favourite=0)


class MusicPlay(_OneSong):
    instructions = ("In Music play the song {song}", "Open Music and play {song}")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        player = self.player(phone)
        return (player["song"], player["playing"]) == (self.p["song"], 1) and self.library_kept(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_song(ui)
        yield ui.tap(self.p["song"])
        yield ui.finish()


class MusicPause(_OneSong):
    loaded = True
    playing = 1
    instructions = ("In Music pause the song {song}", "Music plays {song}, pause it")
    steps = 3

    def check(self, phone: Admin, answer: str) -> bool:
        player = self.player(phone)
        return (player["song"], player["playing"]) == (self.p["song"], 0) and self.library_kept(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Music")
        yield ui.tap("Pause")
        yield ui.finish()


class MusicNext(_OneSong):
    demo = False
    loaded = True
    playing = 1
    instructions = ("Music plays {song}, skip to the next song",)
    steps = 3

    def check(self, phone: Admin, answer: str) -> bool:
        titles = sorted(r["title"] for r in self.songs)
        after = titles[(titles.index(self.p["song"]) + 1) % len(titles)]
        player = self.player(phone)
        return (player["song"], player["playing"]) == (after, 1) and self.library_kept(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Music")
        yield ui.tap("Next")
        yield ui.finish()


class MusicFavourite(_OneSong):
    instructions = ("Make the song {song} a favourite", "Add the song {song} to the favourites in Music")
    steps = 5

    def check(self, phone: Admin, answer: str) -> bool:
        row_id = next(r["_id"] for r in self.songs if r["title"] == self.p["song"])
        return phone.rows(TRACKS) == edited(self.songs, row_id, favourite=1) and phone.rows(LISTED) == self.listed

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_song(ui)
        yield ui.tap(self.p["song"])
        yield ui.tap("Favourite")
        yield ui.finish()


class MusicArtist(_OneSong):
    instructions = ("Who sings the song {song}?", "Which artist sings {song} in Music?")
    steps = 3

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["artist"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_song(ui)
        yield ui.finish(self.p["artist"])


class MusicAddToPlaylist(_OneSong):
    split = "test"
    instructions = ("Add the song {song} to the playlist {playlist}",)
    steps = 6

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "playlist": rng.choice(PLAYLISTS)}

    def setup(self, phone: Admin) -> None:
        empty_playlist(phone, self.p["playlist"])
        phone.insert(LISTS, name=self.p["playlist"])
        super().setup(phone)

    def check(self, phone: Admin, answer: str) -> bool:
        wanted = [{"playlist": self.p["playlist"], "song": self.p["song"]}]
        return added(self.listed, phone.rows(LISTED)) == wanted and phone.rows(LISTS) == self.lists

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_song(ui)
        yield ui.long_press(self.p["song"])
        yield ui.tap("Add to playlist")
        yield ui.tap(self.p["playlist"])
        yield ui.finish()


def empty_playlist(phone: Admin, name: str) -> None:
    """Deletes the playlist and what is in it, if it exists."""
    for row in phone.rows(LISTS):
        if row["name"] == name:
            phone.delete(LISTS, row["_id"])
    for row in phone.rows(LISTED):
        if row["playlist"] == name:
            phone.delete(LISTED, row["_id"])


class _NewPlaylist(_OneSong):
    """The playlist does not exist yet."""

    def setup(self, phone: Admin) -> None:
        empty_playlist(phone, self.p["playlist"])
        super().setup(phone)

    def made(self, phone: Admin, *songs: str) -> bool:
        """Whether the playlist, and nothing else, is new and holds just these songs."""
        listed = phone.rows(LISTED)
        found = sorted((r["playlist"], r["song"]) for r in added(self.listed, listed))
        if len(listed) != len(self.listed) + len(songs) or found != sorted((self.p["playlist"], s) for s in songs):
            return False
        return added(self.lists, phone.rows(LISTS)) == [{"name": self.p["playlist"]}]

    def to_new_playlist(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Music")
        yield ui.tap("Playlists")
        yield ui.tap("New playlist")
        yield ui.type(self.p["playlist"])
        yield ui.tap("Create")


class MusicNewPlaylist(_NewPlaylist):
    instructions = ("Create a music playlist called {playlist}", "In Music make the playlist {playlist}")
    steps = 6

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "playlist": rng.choice(PLAYLISTS)}

    def check(self, phone: Admin, answer: str) -> bool:
        return self.made(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_new_playlist(ui)
        yield ui.finish()


class MusicFillPlaylist(_NewPlaylist):
    instructions = ("Create the playlist {playlist} with the songs {song} and {second}",)
    steps = 10

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        first, second = sorted(rng.sample(SONGS, 2))
        return {**super().sample(rng), "song": first, "second": second, "playlist": rng.choice(PLAYLISTS)}

    def setup(self, phone: Admin) -> None:
        add_song(phone, self.p["second"], self.p["artist"])
        super().setup(phone)

    def check(self, phone: Admin, answer: str) -> bool:
        return self.made(phone, self.p["song"], self.p["second"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_new_playlist(ui)
        yield ui.tap("Add songs")
        for title in (self.p["song"], self.p["second"]):
            yield from ui.reach(title)
            yield ui.tap(title)
        yield ui.finish()


TEMPLATES = (
    MusicPlay,
    MusicPause,
    MusicNext,
    MusicFavourite,
    MusicArtist,
    MusicAddToPlaylist,
    MusicNewPlaylist,
    MusicFillPlaylist,
)
