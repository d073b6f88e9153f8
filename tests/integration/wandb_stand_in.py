"""A program that answers wandb's client as far as a run needs, so that a test can kill it. Prints its address."""

from __future__ import annotations

import threading

from http_stand_in import Handler, Server

PROJECT = {"id": "p", "name": "mobilerl", "entity": {"id": "e", "name": "me"}}
ANSWERS = {
    "UpsertBucket": {
        "upsertBucket": {
            "bucket": {"id": "b", "name": "b", "displayName": "b", "config": "{}", "project": PROJECT},
            "inserted": True,
        }
    },
    "RunResumeStatus": {"model": PROJECT | {"bucket": None}},
    "Viewer": {"viewer": {"id": "e", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}},
    "CreateRunFiles": {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": []}},
}
"""Data by the name of a GraphQL operation."""


class _Wandb(Handler):
    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        query = self.rfile.read(length).decode(errors="replace")
        self.respond({"data": next((data for name, data in ANSWERS.items() if name in query), {})})


if __name__ == "__main__":
    print(Server(_Wandb).url, flush=True)
    threading.Event().wait()
