"""What lies in the home: who may read it, whether its locks and syncs hold, what journals, operations and logs say, room and clock.

Nothing is made, mended or sealed. The two self-tests write one probe file in `reports/` and remove it again; a home that is not there
yet is no finding where it can be made.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from gptbridge.core.errors import Failure
from gptbridge.core.ledger import View, epoch_seconds
from gptbridge.edge.files import remove, replace
from gptbridge.edge.home import FOLDERS, Home, home_path, open_home
from gptbridge.edge.host import Host
from gptbridge.edge.journal import Journal, NoLock
from gptbridge.shell.doctor import Check, Look
from gptbridge.shell.wiring import Files, files

ROOM = 64 * 2**20  # below it nothing is sent
LEDGER_LIMIT = 64 * 2**20
STALE_S = 900.0
AHEAD_S = 300.0
FILES = ("ledger.jsonl", "conversations.jsonl", "dispatch.stamp", "ledger.check", "conversations.check")
PROBE = "doctor.probe"
SLOW_SYNC_S = 1.0


def looks(env: Mapping[str, str]) -> tuple[tuple[str, Look], ...]:
    if not os.path.isdir(home_path(env)):
        return (("home", lambda: _absent(env)),)
    about: tuple[tuple[str, Callable[[Files], Iterator[Check]]], ...] = (
        ("home", _home), ("locks", _locks), ("disk", _disk), ("ledger", partial(_journal, name="ledger.jsonl")),
        ("registry", partial(_journal, name="conversations.jsonl")), ("operations", _operations), ("logs", _logs), ("clock", _clock))
    return (*((name, lambda look=look: look(files(env))) for name, look in about), ("chrome", lambda: _chrome(env)))


def _absent(env: Mapping[str, str]) -> Iterator[Check]:
    path = home_path(env)
    above = path
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    can = os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK)
    if can:
        yield Check("home", True, f"{path} is not there yet; the first send makes it")
    else:
        yield Check("home", False, f"{path} cannot be made: {above} is not writable", "set ASKGPT_HOME to a folder of your own")
    room = Host(env).free_bytes(above)
    yield Check("disk", room >= ROOM, f"{room >> 20} MiB free", "" if room >= ROOM else "make room")


def _home(found: Files) -> Iterator[Check]:
    """Folders 0700 and files 0600, all of this user, no links; inside `browser/` only its folder counts (Chrome's own files)."""
    open_to_others, foreign = list[str](), list[str]()
    home = found.home.path
    entries = list(_entries(Path(home)))
    for path, info in entries:
        misplaced = stat.S_ISDIR(info.st_mode) and (os.path.dirname(path) in ("logs", "reports", "locks") or path in FILES)
        plain = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
        if misplaced or not plain or info.st_uid != os.geteuid():
            foreign.append(path)
        elif info.st_mode & 0o077:
            open_to_others.append(path)
    if foreign:
        below = all(os.path.dirname(path) for path in foreign)
        yield Check("home", False, f"{home} holds what is not ours (links, folders, files of others): {_some(foreign)}",
                    "ask-gpt sweep moves it aside" if below else "move it out of there")
    if open_to_others and len(entries) == 1:
        yield Check("home", True, f"{home} is empty; the first send makes it 0700")
    elif open_to_others:
        yield Check("home", False, f"others may read {_some(open_to_others)}", f"chmod -R go= {home}")
    elif not foreign:
        yield Check("home", True, f"{home}, folders 0700, files 0600")


def _entries(home: Path) -> Iterator[tuple[str, os.stat_result]]:
    yield str(home), home.stat()
    for folder in (home, *(home / name for name in FOLDERS if name != "browser")):
        if folder.is_symlink() or not folder.is_dir():
            continue  # as an entry of the home it was told of already
        with os.scandir(folder) as entries:
            for entry in entries:
                if folder == home and entry.name == "config.yaml":
                    continue  # the user's own, with whatever mode they like
                yield os.path.relpath(entry.path, home), entry.stat(follow_symlinks=False)


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _locks(found: Files) -> Iterator[Check]:
    locks = found.home.locks
    if locks is None:
        yield Check("locks", True, "not there yet; the first send makes them")
        return
    locks.probe()
    locks.probe_across()
    yield Check("locks", True, "flock keeps a second descriptor and a second process out")


def _disk(found: Files) -> Iterator[Check]:
    home = found.home
    room = Host().free_bytes(home.need())
    if room < ROOM:
        yield Check("disk", False, f"{room >> 20} MiB free; nothing is sent below {ROOM >> 20}", "make room")
        return
    if home.folder("reports") is None:
        yield Check("disk", True, f"{room >> 20} MiB free")
        return
    begun = time.monotonic()
    replace(home.disk, home.need("reports"), PROBE, b"probe\n")
    took = time.monotonic() - begun
    remove(home.disk, home.need("reports"), PROBE)
    yield Check("disk", took < SLOW_SYNC_S, f"{room >> 20} MiB free; write, sync, rename and sync of the folder took {1000 * took:.0f} ms",
                "" if took < SLOW_SYNC_S else "a slow disk makes each send slow; set ASKGPT_HOME to a local one")


def _journal(found: Files, name: str) -> Iterator[Check]:
    short = "ledger" if name.startswith("ledger") else "registry"
    if short == "ledger":
        found.ledger.check()  # the stamp knows how far it went
    else:
        found.registry.check()
    scan = Journal(found.home.disk, found.home.fd, name, NoLock()).read()
    full = short == "ledger" and scan.size > 0.9 * LEDGER_LIMIT
    torn = f", a torn end of {scan.size - scan.clean_size} bytes that the next writer seals" if scan.torn else ""
    detail = f"{len(scan.records)} records, {scan.size / 2**20:.1f} MiB{torn}" if scan.lines else f"{name} is not there yet"
    if short == "registry" and (lost := _unregistered(found)):
        yield Check(short, False, f"{detail}; {len(lost)} conversations of ours are not in it ({_some(lost)})", "ask-gpt sweep")
        return
    yield Check(short, not full, detail, "ask-gpt sweep forgets ended ones; ask-gpt ops list shows what is open" if full else "")


def _unregistered(found: Files) -> list[str]:
    """Conversations that operations went to and that no row names: the file was lost, or a crash came in between."""
    view = _readable(found)
    ours = {op.conversation_id for op in view.operations.values() if op.sent == "yes" and op.conversation_id} if view is not None else set()
    known = {fields.get("conversation_id") for _, fields in found.registry.newest_first()}
    return sorted(ours - known)


def _readable(found: Files) -> View | None:
    """The ledger's view; None where the check of the ledger itself has said what is wrong."""
    try:
        return found.ledger.view()
    except Failure:
        return None


def _operations(found: Files) -> Iterator[Check]:
    view = _readable(found)
    if view is None:
        return
    now = time.time()
    uncertain = view.uncertain()
    stale = [op for op in uncertain if now - epoch_seconds(op.uncertain_at) > STALE_S]
    open_ones = [op for op in view.operations.values() if not op.ended and op not in uncertain]
    workers = _workers(found.home)
    detail = f"{len(view.operations)} known, {len(open_ones)} open, {len(uncertain)} uncertain; {len(workers)} running"
    if workers:
        detail += f" ({', '.join(workers[:5])})"
    yield Check("operations", not stale, detail, "ask-gpt sweep, then ask-gpt ops list --state uncertain" if stale else "")


def _workers(home: Home) -> list[str]:
    """Who holds an owner slot now, in the words that waiters see."""
    if home.locks is None:
        return []
    names = [name for name in home.disk.names(home.locks.dir_fd) if name.startswith("owner-")]
    slots = [home.locks.lock("owner", name.removeprefix("owner-")) for name in names]
    return sorted(f"{slot.last.purpose} in process {slot.last.pid}" for slot in slots if slot.is_taken())


def _logs(found: Files) -> Iterator[Check]:
    if found.home.folder("logs") is None:
        yield Check("logs", True, "none yet")
        return
    names, torn, bad = found.logs.names(), [], []
    for name in names:
        try:
            if found.logs.is_torn(name) and not (found.home.locks is not None and found.home.locks.is_held(name)):
                torn.append(name)
            elif (log := found.logs.read(name)) is not None and log.damage is not None:
                bad.append(name)
        except Failure:
            bad.append(name)
    detail = f"{len(names)} logs"
    if torn:
        detail += f", {len(torn)} interrupted ({_some(torn)})"
    if bad:
        detail += f", {len(bad)} that cannot be read ({_some(bad)})"
    yield Check("logs", not torn and not bad, detail, "keep those files and look at them" if bad else "ask-gpt sweep" if torn else "")


def _clock(found: Files) -> Iterator[Check]:
    view = _readable(found)
    newest = max((epoch_seconds(op.updated_at) for op in view.operations.values()), default=0.0) if view is not None else 0.0
    ahead = newest - time.time()
    if ahead < AHEAD_S:
        yield Check("clock", True, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    else:
        yield Check("clock", False, f"the newest record is {ahead:.0f} s ahead of this clock: it was set back", "set the clock right")


def _chrome(env: Mapping[str, str]) -> Iterator[Check]:
    """Whether the suite's own Chrome runs, and that nobody else has its profile open."""
    from gptbridge.edge import browser_files
    from gptbridge.edge.chrome import Chrome
    from gptbridge.edge.config import load
    from gptbridge.shell.wiring import browser_settings

    settings, folder = browser_settings(load(env), open_home(env, create=False))
    chrome = Chrome.attach(settings, folder)
    if chrome is not None:
        running = chrome.running
        yield Check("chrome", True, f"runs: {running.version}, process {running.pid}{', headless' if running.headless else ''}")
        return
    pid = browser_files.holder_of(settings.profile)
    yield Check("chrome", pid is None, "does not run; a send starts it" if pid is None else
                f"the profile is in use by process {pid}, which does not answer", "" if pid is None else f"close it: kill {pid}")
