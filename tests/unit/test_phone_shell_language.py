"""The shell as a language: sessions, limits, modes, sqlite3, and that nothing of the host can be reached.

What scripts print is compared with mksh itself in tests/real/test_shell_against_mksh.py.
"""

from __future__ import annotations

import os
import sqlite3

import pytest

from mobilerl.envs.phone.apps.launcher import Launcher
from mobilerl.envs.phone.apps.notes import Notes
from mobilerl.envs.phone.console import restore_snapshot, take_snapshot
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import Session, Shell
from mobilerl.envs.phone.shell.lang.state import KILLED


@pytest.fixture
def shell() -> Shell:
    return Shell(Phone((Launcher, Notes)))


def out(shell: Shell, script: str, session: Session | None = None) -> str:
    result = shell.run(script, session)
    assert result.exit_code == 0, result
    return result.stdout.decode()


def test_a_session_keeps_variables_and_folder(shell):
    session = Session()
    out(shell, "cd /sdcard; x=1; false; true", session)
    assert out(shell, "echo $x $?; pwd", session) == "1 0\n/sdcard\n"
    assert out(shell, 'echo "<$x>"; pwd') == "<>\n/\n"
    assert shell.run("exit 7", session).exit_code == 7 and session.ended
    merged = shell.run("echo a; nope; echo b", Session(merged=True))
    assert merged.stdout == b"a\n/system/bin/sh: nope: inaccessible or not found\nb\n" and not merged.stderr


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("nope", 127, "/system/bin/sh: nope: inaccessible or not found\n"),
        ("grep -K a", 2, "grep: option -K not recognized\n"),
        ("echo ab | grep -x b", 1, ""),
        ("echo )", 1, "/system/bin/sh: syntax error: unexpected ')'\n"),
        ("if true", 1, "/system/bin/sh: syntax error: unexpected EOF\n"),
        ("echo a; for x in a; do echo; done", 1, "/system/bin/sh: syntax error: unexpected 'for'\n"),
        ("echo a $((1+2))", 1, "/system/bin/sh: syntax error: no arithmetic here\n"),
        ("echo a ${x:-y}", 1, "/system/bin/sh: ${x:-y}: bad substitution\n"),
        ("echo x > /system/x", 1, "/system/bin/sh: can't create /system/x: Read-only file system\n"),
    ],
)
def test_errors(script, code, message, shell):
    result = shell.run(script)
    assert (result.exit_code, result.stderr.decode()) == (code, message)


@pytest.mark.parametrize(
    "script",
    [
        "echo 'sh /sdcard/f' > /sdcard/f; sh /sdcard/f",
        "echo 'sh /sdcard/f | sh /sdcard/f' > /sdcard/f; sh /sdcard/f",
        "x=a" + "; x=$x$x" * 64,
        "echo a > /sdcard/f" + "; cat /sdcard/f /sdcard/f > /sdcard/g; mv /sdcard/g /sdcard/f" * 40,
        "echo " + "$(" * 500,
        "test " + "! " * 5000 + "a",
        "a" + " && a" * 5000,
        "sqlite3 :memory: 'with recursive c(x) as (select zeroblob(4000000) union all select x from c) "
        "select * from c order by 1'",
    ],
)
def test_endless_and_huge_scripts_are_stopped(script, shell):
    result = shell.run(script)
    assert result.exit_code in (KILLED, 1, 2) and result.stderr.startswith(b"/system/bin/sh: ")
    assert sum(map(len, shell.phone.files.values())) < 200 << 20
    assert out(shell, "echo still here") == "still here\n"


REACHING = [
    "cat < /etc/passwd",
    "cat ../../../../etc/passwd",
    "sh /etc/profile",
    "ls /etc",
    "cd /home",
    "cat /proc/self/environ",
    "/usr/bin/id",
    "cp /etc/passwd /sdcard",
    "sqlite3 /etc/passwd 'select 1'",
    "sqlite3 :memory: \"attach '/etc/passwd' as x\"",
    "sqlite3 :memory: \"vacuum into '/sdcard/../etc/x'\"",
    "sqlite3 :memory: \"select load_extension('libm.so')\"",
    "sqlite3 :memory: \"select readfile('/etc/passwd')\"",
    "sqlite3 :memory: \"pragma temp_store_directory='/tmp'\"",
    "sqlite3 :memory: .read /etc/passwd",
    "sqlite3 :memory: '.shell id'",
    "sqlite3 :memory: \"create virtual table t using csv(filename='/etc/passwd')\"",
]


@pytest.mark.parametrize("script", REACHING)
def test_nothing_of_the_host_is_reached(script, shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = shell.run(script)
    assert result.exit_code != 0 and b"root:" not in result.stdout + b"".join(shell.phone.files.values())
    assert list(tmp_path.iterdir()) == []


def test_names_and_variables_are_the_phones(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_HOST", "secret")
    (tmp_path / "host.txt").write_text("x")
    assert "secret" not in out(shell, "env; echo $SECRET_OF_HOST")
    assert out(shell, "echo /* ~ $HOME") == "/data /dev /proc /sdcard /system /vendor / /\n"
    assert out(shell, f"echo {tmp_path}/*") == f"{tmp_path}/*\n"
    assert shell.run(f"echo x > {tmp_path}/new").exit_code == 1 and os.listdir(tmp_path) == ["host.txt"]
    assert out(shell, "pwd; id -un") == "/\nroot\n"


def test_times_are_kept_with_the_files_and_in_snapshots(shell):
    out(shell, "cd /data/local/tmp; echo a > a; input tap 5 5; mv a b; cp b c")
    saved, times = take_snapshot(shell.phone), out(shell, "stat -c %Y /data/local/tmp/*")
    assert times == "1697384040\n1697384041\n"
    out(shell, "input tap 5 5; touch /data/local/tmp/b")
    assert out(shell, "ls -ll /data/local/tmp/b") == (
        "-rw-rw-rw- 1 root root 2 2023-10-15 15:34:02.000000000 +0000 /data/local/tmp/b\n"
    )
    restore_snapshot(shell.phone, saved)
    assert out(shell, "stat -c %Y /data/local/tmp/*") == times


def test_sqlite_works_on_real_database_files(shell, tmp_path):
    path = tmp_path / "made.db"
    with sqlite3.connect(path) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, value REAL)")
        made.executemany("INSERT INTO t (name, value) VALUES (?, ?)", [("a;b", 1.5), (None, 2)])
    made.close()
    shell.phone.files["/sdcard/t.db"] = path.read_bytes()
    assert out(shell, "sqlite3 /sdcard/t.db 'SELECT * FROM t; SELECT count(*) FROM t;'") == "1|a;b|1.5\n2||2.0\n2\n"
    assert out(shell, "sqlite3 /sdcard/t.db \"SELECT id FROM t WHERE name = 'a;b'\"") == "1\n"
    assert out(shell, "cd /sdcard; echo 'DELETE FROM t WHERE id = 1;' | sqlite3 t.db") == ""
    path.with_name("back.db").write_bytes(shell.phone.files["/sdcard/t.db"])
    with sqlite3.connect(path.with_name("back.db")) as back:
        assert back.execute("SELECT id, name, value FROM t").fetchall() == [(2, None, 2.0)]
    back.close()
    failed = shell.run("sqlite3 /sdcard/t.db 'DELETE FROM t; SELECT x FROM t'")
    assert (failed.exit_code, failed.stderr) == (1, b"Error: no such column: x\n")
    assert out(shell, "sqlite3 /sdcard/t.db 'SELECT count(*) FROM t'") == "0\n"  # what came before is carried out
    shell.phone.files["/sdcard/no.db"] = b"no database" * 100
    assert shell.run("sqlite3 /sdcard/no.db 'SELECT * FROM t'").stderr == b"Error: file is not a database\n"


def test_bytes_pass_through_pipes_and_variables(shell):
    data = bytes(range(1, 256))
    shell.phone.files["/sdcard/b"] = data
    assert shell.run("cat /sdcard/b | cat > /sdcard/c; cat /sdcard/c").stdout == data
    assert shell.run('x=$(cat /sdcard/b); echo -nE "$x"').stdout == data
