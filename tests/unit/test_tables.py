"""Tables on narrow terminals: what is to be copied stays whole, and nothing is left out."""

import io

from rich.console import Console

from mobilerl.tables import FILE_WIDTH, make_console, make_table


def test_a_narrow_table_keeps_every_letter():
    table = make_table("fleet", "adb", "image", whole="adb")
    table.add_row("mobilerl", "127.0.0.1:32768", "registry/mobilerl-phone:latest")
    out = io.StringIO()
    Console(file=out, width=40).print(table)
    rows = [line.split("│") for line in out.getvalue().splitlines() if line.startswith("│")]
    assert "127.0.0.1:32768" in {row[2].strip() for row in rows}
    assert "".join(row[3].strip() for row in rows) == "registry/mobilerl-phone:latest"


def test_a_file_is_as_wide_whatever_the_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "20")
    assert make_console().width == make_console(stderr=True).width == FILE_WIDTH
