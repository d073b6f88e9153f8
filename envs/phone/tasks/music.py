"""Tasks of the Music app."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mobilerl.envs.phone.tasks.base import Admin, RowTemplate, Type
from mobilerl.envs.phone.tasks.helpers import edit_row, find_added, long_press, reach
from mobilerl.envs.phone.words import FIRST_NAMES, LAST_NAMES, PLAYLISTS, SONGS

LISTED, LISTS, PREFS, TRACKS = "music/playlist_songs", "music/playlists", "music/prefs", "music/songs"


class _OneSong(RowTemplate):
    """The song exists exactly once and is not a favourite; `player` says what the player does with it."""

    app = "Music"
    table = TRACKS
    params = {"song": SONGS, "artist": lambda rng: f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"}
    new_row = {"title": "{song}", "artist": "{artist}", "favourite": 0}
    player: Mapping[str, Any] = {}

    def clear(self, phone: Admin) -> None:
        phone.delete_where(TRACKS, lambda row: row["title"] == self.p["song"])

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        if self.player:
            phone.update(PREFS, 1, **self.row(self.player))
        self.lists, self.listed = phone.rows(LISTS), phone.rows(LISTED)

    def plays(self, phone: Admin, song: str, playing: int = 1) -> bool:
        """Whether the player has the song, playing or paused, and the library is as it was."""
        [player] = phone.rows(PREFS)
        kept = [phone.rows(t) for t in (TRACKS, LISTS, LISTED)] == [self.before, self.lists, self.listed]
        return (player["song"], player["playing"]) == (song, playing) and kept


class MusicPlay(_OneSong):
    instructions = (
        "[Play|Start] the song {song} in Music",
        "Play [the song |]{song}",
        "In Music [play|start] [the song |]{song}",
        "Open Music and play [the song |]{song}",
    )
    script = (reach("{song}"), "{song}")
    steps = 4

    def done(self, phone: Admin) -> bool:
        return self.plays(phone, self.p["song"])


class MusicPause(_OneSong):
    player = {"song": "{song}", "playing": 1}
    instructions = (
        "Pause the song {song}[ in Music|]",
        "In Music pause [the song |]{song}",
        "Music plays [the song |]{song}, pause it",
        "{song} is playing[ in Music|], pause it",
        "The song {song} should be paused[ in Music|]",
    )
    script = ("Pause",)

    def done(self, phone: Admin) -> bool:
        return self.plays(phone, self.p["song"], playing=0)


class MusicNext(_OneSong):
    demo = False
    player = {"song": "{song}", "playing": 1}
    instructions = (
        "Music plays [|the song ]{song}, [skip|go] to the next song",
        "[The song |]{song} is playing, [skip|go] to the next [one|song]",
        "Skip the song {song}[ in Music|]",
        "Skip {song} and play the next song",
    )
    script = ("Next",)

    def done(self, phone: Admin) -> bool:
        titles = sorted(r["title"] for r in self.before)
        return self.plays(phone, titles[(titles.index(self.p["song"]) + 1) % len(titles)])


class MusicFavourite(_OneSong):
    instructions = (
        "Make the song {song} a favourite[ in Music|]",
        "Add the song {song} to [the|my] favourites[ in Music|]",
        "[Mark|Save] the song {song} as a favourite",
        "In Music make {song} a favourite",
        "{song} should be [a favourite in Music|one of my favourite songs]",
    )
    script = (reach("{song}"), "{song}", "Favourite")
    steps = 5

    def done(self, phone: Admin) -> bool:
        liked = edit_row(self.before, self.row_id, favourite=1)
        return phone.rows(TRACKS) == liked and phone.rows(LISTED) == self.listed


class MusicArtist(_OneSong):
    instructions = (
        "Who sings [the song |]{song}[ in Music|]?",
        "[Which|What] artist sings [the song |]{song}?",
        "[Tell me|Look up|Find] the artist of the song {song}",
        "Who is the artist of [the song |]{song}?",
    )
    script = (reach("{song}"),)
    answer = "{artist}"


class _Playlist(_OneSong):
    """The playlist does not exist yet."""

    params = {**_OneSong.params, "playlist": PLAYLISTS}

    def clear(self, phone: Admin) -> None:
        phone.delete_where(LISTS, lambda row: row["name"] == self.p["playlist"])
        phone.delete_where(LISTED, lambda row: row["playlist"] == self.p["playlist"])
        super().clear(phone)

    def made(self, phone: Admin, *songs: str) -> bool:
        """Whether the playlist, and nothing else, is new and holds just these songs."""
        listed = phone.rows(LISTED)
        found = sorted((r["playlist"], r["song"]) for r in find_added(self.listed, listed))
        if len(listed) != len(self.listed) + len(songs) or found != sorted((self.p["playlist"], s) for s in songs):
            return False
        return find_added(self.lists, phone.rows(LISTS)) == [{"name": self.p["playlist"]}]


class MusicAddToPlaylist(_Playlist):
    split = "dev"
    instructions = (
        "Add [the song |]{song} to [the|my] playlist {playlist}",
        "Put [the song |]{song} [in|into] the playlist {playlist}",
        "The playlist {playlist} should have the song {song}[, add it|]",
        "In Music add {song} to the playlist {playlist}",
    )
    script = (reach("{song}"), long_press("{song}"), "Add to playlist", "{playlist}")

    def clear(self, phone: Admin) -> None:
        super().clear(phone)
        phone.insert(LISTS, name=self.p["playlist"])

    def done(self, phone: Admin) -> bool:
        wanted = [{"playlist": self.p["playlist"], "song": self.p["song"]}]
        return find_added(self.listed, phone.rows(LISTED)) == wanted and phone.rows(LISTS) == self.lists


class MusicNewPlaylist(_Playlist):
    instructions = (
        "[Create|Make] a [|new |music ]playlist [called|named] {playlist}",
        "In Music [make|create] the playlist {playlist}",
        "I want a [|new ]playlist [called|named] {playlist}[ in Music|]",
    )
    script = ("Playlists", "New playlist", Type("{playlist}"), "Create")

    def done(self, phone: Admin) -> bool:
        return self.made(phone)


class MusicFillPlaylist(_Playlist):
    instructions = (
        "[Create|Make] [the|a] playlist {playlist} with the songs {song} and {second}",
        "[Make|Create] a playlist named {playlist} from [the songs |]{song} and {second}",
        "Put the songs {song} and {second} [in|into] a new playlist {playlist}",
    )
    script = (*MusicNewPlaylist.script, "Add songs", reach("{song}"), "{song}", reach("{second}"), "{second}")
    steps = 10

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        first, second = sorted(rng.sample(SONGS, 2))
        params = super(_Playlist, cls).sample(rng)
        return {**params, "song": first, "second": second}

    def clear(self, phone: Admin) -> None:
        phone.delete_where(TRACKS, lambda row: row["title"] == self.p["second"])
        phone.insert(TRACKS, title=self.p["second"], artist=self.p["artist"], favourite=0)
        super().clear(phone)

    def done(self, phone: Admin) -> bool:
        return self.made(phone, self.p["song"], self.p["second"])

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        first, second = self.p["song"], self.p["second"]
        holds = {songs: self.made(phone, *songs) for songs in ((), (first,), (second,), (first, second))}
        return [any(holds.values()), *(any(holds[s] for s in holds if song in s) for song in (first, second))]
