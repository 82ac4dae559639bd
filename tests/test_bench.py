"""`make bench`: its stores are in the real formats, and its table says what was met."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gptbridge.core import conversation
from gptbridge.core.lifecycle import State
from gptbridge.edge.host import Host
from gptbridge.edge.ledger_file import LedgerFile
from gptbridge.edge.registry_file import RegistryFile
from gptbridge.shell.requests import List, OpsList
from gptbridge.shell.store import Store

TOOLS = Path(__file__).resolve().parent.parent / "tools"
NOW = 1_795_957_200.0


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("bench.stores")


def test_its_stores_are_what_the_suite_reads(stores: ModuleType, tmp_path: Path) -> None:
    from gptbridge.shell import operations, reading

    home, env = stores.home(tmp_path / "home")
    stores.write_ledger(tmp_path / "home" / "ledger.jsonl", 3000, NOW)
    ids = stores.write_registry(tmp_path / "home" / "conversations.jsonl", 500, NOW)
    ledger = LedgerFile(home, Host(env), site=stores.SITE)
    view = ledger.view()
    assert 3000 <= view.last_seq <= 3008 and 4 < view.last_seq / len(view.operations) < 8
    assert {op.state for op in view.operations.values()} >= {State.COMPLETED, State.REJECTED} and view.unresolved()
    RegistryFile(home, Host(env)).check()
    ledger.keep()
    assert LedgerFile(home, Host(env)).view() == view
    store = Store(env)
    assert operations.list_operations(OpsList(limit=20), store, False).data.count(b"\n") == 20
    assert reading.list_conversations(List(), store, False).data.count(b"\n") == 20 and store.registry.get(ids[0]) is not None


def test_its_conversation_is_read_whole(stores: ModuleType) -> None:
    document = stores.conversation(300_000, 60)
    found = conversation.read(document)
    assert found.complete and 5 < len(found.turns) < 40 and 200_000 < len(json.dumps(document)) < 600_000
    assert any("https://example.org/3" in turn.answer for turn in found.turns if turn.answer)


def test_its_table_tells_met_from_missed(stores: ModuleType) -> None:
    table = importlib.import_module("bench.table").Table(theme="one")
    table.add("fits", 5.0, "ms", "", 6)
    table.add("does not", 7.0, "ms", "2.50 x", 1.2, aim_unit="x", judged=2.5)
    table.add("is only said", 123.4, "s")
    lines = table.text().splitlines()
    assert lines[1] == "one" and lines[2].endswith("aim 6 ms: met") and lines[3].endswith("aim 1.2 x: missed")
    assert lines[-1] == "1 of 2 aims met"
    assert [row["met"] for row in table.facts()] == [True, False, None]


def test_an_unknown_theme_is_refused() -> None:
    done = subprocess.run([sys.executable, str(TOOLS / "bench"), "--only", "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "durable" in done.stderr
