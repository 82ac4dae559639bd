"""What the command line says of time, with the wall clock held still."""

from __future__ import annotations

from pathlib import Path

import pytest
from freezegun import freeze_time

from gptbridge.core.errors import Failure
from gptbridge.core.operation import check_id, is_expired
from gptbridge.edge.host import Host
from gptbridge.shell.arguments import moment


def test_ids_are_made_of_the_wall_clock_and_judged_by_it() -> None:
    with freeze_time("2026-11-29T13:00:00Z") as clock:
        host = Host({})
        made = host.ulid()
        check_id(made, host.wall())
        clock.move_to("2026-11-29T12:55:00Z")
        check_id(made, host.wall())  # exactly five minutes ahead
        clock.move_to("2026-11-29T12:54:59Z")
        with pytest.raises(Failure) as why:
            check_id(made, host.wall())
        assert why.value.exit.code == 2
        clock.move_to("2026-12-06T13:00:00Z")
        assert not is_expired(made, host.wall(), 0.0)  # exactly seven days old
        clock.move_to("2026-12-06T13:00:01Z")
        assert is_expired(made, host.wall(), 0.0)
        clock.move_to("2026-11-29T13:00:00Z")
        assert is_expired(made, host.wall(), host.wall())  # at the floor, however young


@pytest.mark.parametrize("text, seconds", [("90s", 90), ("3d", 3 * 86400), ("2026-11-29", 13 * 3600), ("2026-11-29T12:00:00+01:00", 7200)])
def test_since_is_counted_from_the_clock(text: str, seconds: float) -> None:
    with freeze_time("2026-11-29T13:00:00Z"):
        now = Host({}).wall()
        assert now - moment(text, "--since", now) == seconds


def test_the_ledger_writes_the_frozen_time(tmp_path: Path) -> None:
    from gptbridge.edge.home import open_home
    from gptbridge.edge.ledger_file import LedgerFile

    with freeze_time("2026-11-29T13:00:00.120Z"):
        env = {"ASKGPT_HOME": str(tmp_path / "home")}
        host = Host(env)
        home = open_home(env, host=host)
        ledger = LedgerFile(home, host, site="http://127.0.0.1:1")
        ledger.transact(lambda view: [{"operation_id": host.ulid(), "state": "queued", "epoch": "0.aa", "actor": "worker", "reason": "t"}])
    assert (tmp_path / "home" / "ledger.jsonl").read_bytes().count(b'"at":"2026-11-29T13:00:00.120Z"') == 2
