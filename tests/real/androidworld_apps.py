"""Puts the data of AndroidWorld's apps on a phone that lacks the apps: empty databases where the apps would keep them.

Columns are those that AndroidWorld's own row classes and queries name. Runs in AndroidWorld's environment.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Tables = Mapping[str, Sequence[str]]
"""Column definitions by table name."""

SMS = "/data/data/com.android.providers.telephony/databases/mmssms.db"
"""AndroidWorld empties it in the phone's shell; it reads messages through Android's provider."""
FOLDERS = (
    "/data/media/0/Android/data/net.osmand/files/tracks",
    "/data/media/0/Android/data/net.osmand/files/favorites",
    "/data/data/net.osmand/files/backup",
    "/sdcard/Android/data/com.dimowner.audiorecorder/files/Music/records",
    "/sdcard/Documents/Markor",
    "/sdcard/DCIM/Camera",
)


def databases() -> dict[str, Tables]:
    """By path on the phone. RetroPlayingQueue's is left out: the app makes it when it is first opened."""
    from android_world.task_evals.information_retrieval import activity_app_utils, joplin_app_utils, task_app_utils
    from android_world.task_evals.single import expense, osmand, recipe, retro_music, vlc
    from android_world.task_evals.single.calendar import calendar_utils
    from android_world.task_evals.utils import sqlite_schema_utils as rows

    return {
        expense._DB_PATH: {"expense": columns(rows.Expense, "expense_id")},
        recipe._DB_PATH: {"recipes": columns(rows.Recipe, "recipeId")},
        calendar_utils.DB_PATH: {"events": columns(rows.CalendarEvent, "id")},
        osmand.OsmAndMarker.db_path: {"map_markers": columns(rows.OsmAndMapMarker)},
        activity_app_utils._DB_PATH: {"tracks": columns(rows.SportsActivity, "_id")},
        task_app_utils._DB_PATH: {"tasks": columns(rows.Task, "_id")},
        joplin_app_utils._DB_PATH: {
            "folders": columns(rows.JoplinFolder),
            "notes": columns(rows.JoplinNote),
            "notes_normalized": columns(rows.JoplinNormalizedNote),
        },
        vlc._DB_PATH: {
            "Playlist": ["id_playlist INTEGER PRIMARY KEY", "name"],
            "Media": ["id_media INTEGER PRIMARY KEY", "filename"],
            "PlaylistMediaRelation": ["media_id", "playlist_id", "position"],
        },
        retro_music._PLAYLIST_DB_PATH: {
            "PlaylistEntity": ["playlist_id INTEGER PRIMARY KEY", "playlist_name"],
            "SongEntity": ["song_key INTEGER PRIMARY KEY", "playlist_creator_id", "title", "duration"],
        },
        SMS: {"sms": ["_id INTEGER PRIMARY KEY"], "threads": ["_id INTEGER PRIMARY KEY"]},
    }


def columns(row: type[Any], key: str = "") -> list[str]:
    names = [field.name for field in dataclasses.fields(row)]
    return [f'"{name}" INTEGER PRIMARY KEY' if name == key else f'"{name}"' for name in names]


def push(adb: Sequence[str]) -> None:
    """Makes the folders and databases on the phone that `adb` (a command line) reaches."""
    for folder in FOLDERS:
        subprocess.run([*adb, "shell", "mkdir", "-p", folder], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as work:
        for path, tables in databases().items():
            local = Path(work) / "db"
            local.unlink(missing_ok=True)
            with sqlite3.connect(local) as connection:
                for table, definitions in tables.items():
                    connection.execute(f'CREATE TABLE "{table}" ({", ".join(definitions)})')
            connection.close()
            subprocess.run([*adb, "push", str(local), path], check=True, stdout=subprocess.DEVNULL)
