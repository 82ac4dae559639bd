"""The printed unit under a real cron daemon, in a mount namespace of its own: what it mails, and that it mails nothing while all is well.

Root and Debian's cron only (its crontabs, its sendmail): the daemon's folders are covered for it alone, the machine's stay as they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest

from gptbridge.edge.home import open_home
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from tests.browser.real import Desk, Home, until

CRON = "/usr/sbin/cron"
OPERATION = "01KB7X00000000000000000001"
NAMESPACE = """set -e
mount --bind "$PLACE/spool" /var/spool/cron
mount --bind "$PLACE/nothing" /etc/cron.d
mount --bind /dev/null /etc/crontab
mount --bind "$PLACE/run" /run
mount --bind "$PLACE/sbin" /usr/sbin
exec "$PLACE/cron" -f
"""

pytestmark = [
    pytest.mark.browser, pytest.mark.soak, pytest.mark.timeout(600),
    pytest.mark.skipif(not os.environ.get("SOAK_EXAMPLES"), reason="waits for whole minutes: make soak"),
    pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists(CRON) or shutil.which("unshare") is None,
                       reason="needs root, Debian's cron and unshare"),
]


class Yesterday(Host):
    def wall(self) -> float:
        return super().wall() - 86_400


def uncertain(home: Home) -> None:
    """As a worker that was killed a day ago leaves it: released, and nobody knows more."""
    opened = open_home(home.env, create=True, host=Host(home.env))
    ledger = LedgerFile(opened, Yesterday(home.env), site=home.site.url)
    common = {"operation_id": OPERATION, "epoch": "0.aa", "actor": "worker", "reason": "as it goes"}
    message = {"user_message_id": "aaaaaaaa-0000-4000-8000-000000000001"}
    for row in ({"state": "queued", "kind": "new", "target": "new", "fingerprint": "f" * 64, "attempt": 1}, {"state": "claimed"},
                {"state": "dispatched", **message}, {"state": "dispatched", "request": "released"},
                {"state": "uncertain", "actor": "recovery"}):
        ledger.transact(lambda view, row=row: [{**common, **row}])  # type: ignore[misc]
    assert opened.locks is not None
    opened.locks.close_in_child()
    opened.close()


@pytest.fixture
def daemon(own_home: Home, tmp_path: Path) -> Iterator[Path]:
    """The folder in which its mails arrive."""
    place, mails = tmp_path / "cron", tmp_path / "mails"
    for folder in (place / "spool" / "crontabs", place / "nothing", place / "run", place / "sbin", mails):
        folder.mkdir(parents=True)
    shutil.copy(CRON, place / "cron")
    sendmail = place / "sbin" / "sendmail"
    sendmail.write_text(f'#!/bin/sh\nnew=$(mktemp "{mails}/.new.XXXXXX")\ncat >"$new"\nmv "$new" "{mails}/mail-${{new##*.}}"\n')
    sendmail.chmod(0o755)
    unit = Desk(own_home, tmp_path / "work").run("sweep", "--print-unit", "cron").out.decode()
    hourly = [line.split(" ", 1)[1] for line in unit.splitlines() if line[0].isdigit()]
    assert len(hourly) == 1 and hourly[0].startswith("* * * * ")
    table = place / "spool" / "crontabs" / "root"
    table.write_text(f"* {hourly[0]}\n")  # every minute instead of one in an hour; the rest as printed
    table.chmod(0o600)
    running = subprocess.Popen(["unshare", "-m", "sh", "-c", NAMESPACE], env={"PATH": os.environ["PATH"], "PLACE": str(place)})
    try:
        yield mails
        assert running.poll() is None, "the daemon ended by itself"
    finally:
        running.terminate()
        running.wait(20)


def test_cron_mails_one_line_when_there_is_something_and_else_nothing(own_home: Home, tmp_path: Path, daemon: Path) -> None:
    desk = Desk(own_home, tmp_path / "work")
    assert desk.run("send", "so that there is a conversation, and each sweep asks the site for its list").code == 0
    uncertain(own_home)

    def reads() -> int:
        return int(own_home.site.ask("GET", "/practice/state")["reads"])

    def mails() -> list[Path]:
        return sorted(daemon.glob("mail-*"))

    until(mails, "the first mail", 150)
    mail = message_from_bytes(mails()[0].read_bytes())
    said = str(mail.get_payload()).splitlines()
    [line] = [line for line in said if line.startswith("sweep: ")]
    assert line.startswith("sweep: 1 uncertain (oldest 1d)") and any(OPERATION in line and "ops resolve" in line for line in said), said
    assert desk.run("ops", "resolve", OPERATION, "--not-sent", "--because", "it is not in the page").code == 0
    came, seen = len(mails()), reads()
    until(lambda: reads() > seen, "a sweep after that", 150)
    seen = reads()
    until(lambda: reads() > seen, "one more", 150)
    assert len(mails()) <= came + 1, "a sweep that was under way may still have said it"
    came = len(mails())
    seen = reads()
    until(lambda: reads() > seen, "the last", 150)
    assert len(mails()) == came and len(own_home.site.sends()) == 1
