"""What other programs said reaches the terminal without escape sequences, and secrets reach no file and no message."""

from __future__ import annotations

import io
import json
import logging

import pytest
from model_server import completion, stand_in_fixture  # noqa: F401 - a fixture

from mobilerl.cli import main
from mobilerl.config import Recipe, load_recipe, read_saved, save_recipe
from mobilerl.config.reading import to_toml
from mobilerl.inference.client import ChatClient
from mobilerl.system import terminal
from mobilerl.system.terminal import SafeConsole, make_logging_safe, make_table, printable, progress_bar

EVIL = "a\x1b]0;title\x07b\x1b[2J\x9b31mc\x1b]52;c;QQ==\x07\r\u202ed"
"""Sets the title, clears the screen, colors, writes the clipboard, and turns the direction of writing."""


def test_escape_sequences_are_printed_as_question_marks(caplog):
    screen = io.StringIO()
    console = SafeConsole(file=screen, force_terminal=True, color_system="truecolor", width=200)
    table = make_table("name")
    table.add_row(EVIL)
    console.print(EVIL, markup=False)
    console.print(f"[bold]{EVIL}[/bold]", table)
    shown = screen.getvalue()
    assert "\x1b[1m" in shown, "rich's own styles are still there"
    for harm in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\r", "\u202e"):
        assert harm not in shown
    assert printable("a\tb\nü") == "a\tb\nü"
    make_logging_safe()
    record = logging.LogRecord("x", logging.WARNING, "", 0, "%s", (EVIL,), None)
    assert "\x1b" not in logging.lastResort.format(record)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_a_bar_on_a_terminal_and_lines_in_a_file(monkeypatch, is_terminal):
    screen = io.StringIO()
    console = SafeConsole(file=screen, force_terminal=is_terminal, width=100)
    monkeypatch.setattr(terminal, "make_console", lambda stderr: console)
    monkeypatch.setattr(terminal, "LINE_GAP_S", 0.0)
    with progress_bar("tasks", 3) as show:
        for done in range(4, 31):
            show(done, 30, f"loss [{done}]")
    said = screen.getvalue()
    if is_terminal:
        assert "30/30" in said and "loss [30]" in said
    else:
        lines = said.splitlines()
        assert [line.split(",")[0] for line in lines] == [f"tasks: {n}/30" for n in (4, *range(6, 31, 3))]
        assert lines[-1] == "tasks: 30/30, 0 s left, loss [30]"


def test_an_error_line_is_harmless(capsys):
    assert main(["train", "--config", "adagrpo", "--run-dir", "x", "--model", EVIL]) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said and "\x07" not in said and said.count("\n") == 1


SECRETS = ["judge.url=http://me:hunter2@127.0.0.1:1/v1", "judge.model=m", "sft.proposer_url=https://hunter2@h/v1"]
VALUES = [
    "--fleet.type",
    "docker",
    "--fleet.environment",
    '["TOKEN=hunter2", "HOME"]',
    "--fleet.hosts",
    '["tcp://me:hunter2@h:1"]',
]


def secret_recipe() -> Recipe:
    return load_recipe(None, [*(f"--{setting}" for setting in SECRETS), *VALUES])


def test_secrets_of_a_recipe_are_used_but_not_saved(tmp_path):
    recipe = secret_recipe()
    assert recipe.judge.url.startswith("http://me:hunter2@") and recipe.fleet.environment[0] == "TOKEN=hunter2"
    save_recipe(recipe, tmp_path / "config.json")
    texts = [(tmp_path / "config.json").read_text(), to_toml(recipe), json.dumps(recipe.model_dump(mode="json"))]
    assert not [text for text in texts if "hunter2" in text] and "TOKEN=***" in texts[0] and '"HOME"' in texts[0]
    assert read_saved(tmp_path / "config.json").model_dump() == recipe.model_dump(), "a run can be resumed"


@pytest.mark.parametrize("words", [["--judge.url", "ftp://me:hunter2@h"], ["--judge.url", "http://me:hunter2@h/v1"]])
def test_no_message_repeats_a_password(words, capsys):
    assert main(["train", "--config", "adagrpo", "--run-dir", "x", "--model", "m", *words]) == 2
    assert "hunter2" not in capsys.readouterr().err


async def test_a_server_gets_the_password_and_messages_do_not(stand_in):
    server = stand_in(lambda body: completion("hi"))
    client = ChatClient(server.url.replace("://", "://me:hunter2@"), "vlm", retries=0)
    assert (await client.ask([{"role": "user", "content": "x"}])).text == "hi"
    assert "hunter2" not in client.url and "127.0.0.1" in client.url
    await client.close()
