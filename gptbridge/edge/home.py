"""Where the state is: the home folder, found once, and descriptors of its folders.

Guarantees: the home and its folders are this user's, 0700, and on a file system whose flock works; the path up to the home may
hold links, below it none is followed, since all access goes through the descriptors.
Touches: makes folders (through the durable layer), changes their modes; with `create=False` it changes nothing at all.
Fails closed: not ours, a link, or no flock is `bad-config`; cannot be made or written is `state-unwritable`.
"""

from __future__ import annotations

import fcntl
import os
import pwd
from collections.abc import Mapping

from gptbridge.core.errors import Failure
from gptbridge.edge.disk import Disk, unwritable
from gptbridge.edge.files import open_dir as _open_dir
from gptbridge.edge.files import own_dir
from gptbridge.edge.host import Host
from gptbridge.edge.lock_file import Flock
from gptbridge.edge.locks import Locks

FIRST = "ledger.jsonl"  # where it is, the home's own name is safe
FOLDERS = ("logs", "spool", "reports", "locks", "browser")


class Home:
    """An opened home. `path` is resolved; `fd` and the folders' descriptors are None where a reader found nothing."""

    def __init__(self, path: str, disk: Disk, fd: int | None, folders: dict[str, int | None], locks: Locks | None) -> None:
        self.path, self.disk, self.fd, self.locks = path, disk, fd, locks
        self._folders = folders

    @property
    def exists(self) -> bool:
        return self.fd is not None

    def folder(self, name: str) -> int | None:
        """The descriptor of `logs`, `spool`, `reports`, `locks` or `browser`; None if a reader found no such folder."""
        return self._folders[name]

    def need(self, name: str = "") -> int:
        """The descriptor of the home ("") or of a folder, for writers; Failure("state-unwritable") where there is none."""
        fd = self._folders[name] if name else self.fd
        if fd is None:
            raise Failure("state-unwritable", f"The home has no {name or 'folder'} yet.")
        return fd

    def ensure(self, folder: str, name: str) -> int:
        """A new descriptor of the folder `name` inside one of ours, made if need be (0700); the caller closes it."""
        fd = _open_dir(self.disk, self.need(folder), name, create=True)
        assert fd is not None
        return fd

    def shown(self, relative: str) -> str:
        """A path below the home as a person may read it; never for opening."""
        return os.path.join(self.path, relative)

    def close(self) -> None:
        for fd in (self.fd, *self._folders.values()):
            if fd is not None:
                self.disk.close(fd)
        self.fd, self._folders = None, dict.fromkeys(FOLDERS)


def home_path(env: Mapping[str, str]) -> str:
    """ASKGPT_HOME, else $XDG_STATE_HOME/gptbridge, else ~/.local/state/gptbridge; resolved. A relative XDG path does not count."""
    chosen = env.get("ASKGPT_HOME")
    if not chosen:
        state = env.get("XDG_STATE_HOME", "")
        if not os.path.isabs(state):
            state = os.path.join(_user_home(env), ".local", "state")
        chosen = os.path.join(state, "gptbridge")
    if "\0" in chosen:
        raise Failure("bad-config", "The path of the home holds a NUL.")
    return os.path.realpath(chosen)


def open_home(
    env: Mapping[str, str],
    *,
    create: bool = True,
    host: Host | None = None,
    disk: Disk | None = None,
    purpose: str = "",
    flock: Flock = fcntl.flock,
) -> Home:
    """Open the home, and with `create` make what is missing, mend modes and test flock (with a second process where `locks` is new).

    purpose: a word that waiters see, such as the command. With `create=False`, for `list`, `show` and `ops`: nothing is made or
    changed, and an absent home is one whose `exists` is False.
    """
    host, disk = host or Host(env), disk or Disk()
    path = home_path(env)
    fd = _open_root(disk, path, create)
    folders: dict[str, int | None] = dict.fromkeys(FOLDERS)
    home = Home(path, disk, fd, folders, None)
    if fd is None:
        return home
    try:
        new = _is_absent(disk, fd, "locks")
        for name in FOLDERS:
            folders[name] = _open_dir(disk, fd, name, create=create)
        if folders["locks"] is not None:
            home.locks = Locks(folders["locks"], host, purpose=purpose, flock=flock)
            if create:
                home.locks.probe()
                if new:
                    home.locks.probe_across()
    except BaseException:
        home.close()
        raise
    return home


def _user_home(env: Mapping[str, str]) -> str:
    found = env.get("HOME")
    if not found:
        try:
            found = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            found = ""
    if not os.path.isabs(found):
        raise Failure("bad-config", "No home folder is known for this user.", "Set ASKGPT_HOME.")
    return found


def _is_absent(disk: Disk, fd: int, name: str) -> bool:
    try:
        disk.stat(name, fd)
        return False
    except FileNotFoundError:
        return True


def _open_root(disk: Disk, path: str, create: bool) -> int | None:
    """A descriptor of the home itself; with `create` its missing parents are made too, each durable before what lies in it."""
    parent, missing, fd = path, list[str](), -1
    while fd < 0:
        try:
            fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            if not create:
                return None
            parent, name = os.path.split(parent)
            missing.insert(0, name)
        except NotADirectoryError as why:
            raise Failure("bad-config", f"{parent} is no folder.", "Set ASKGPT_HOME to a folder.") from why
        except OSError as why:
            raise unwritable(path, why) from why
    try:
        if create and (missing or _is_absent(disk, fd, FIRST)):
            _keep_name(disk, fd, parent)
        for name in missing:
            try:
                below = _open_dir(disk, fd, name, create=True)
            except Failure as why:
                reason = getattr(why.__cause__, "strerror", None) or why.message
                raise Failure(why.slug, f"The home {path} cannot be made: {reason}.", "Set ASKGPT_HOME to a folder of your own.") from why
            assert below is not None
            fd, above = below, fd
            disk.close(above)
        own_dir(disk, fd, path, mend=create)
    except BaseException:
        disk.close(fd)
        raise
    return fd


def _keep_name(disk: Disk, fd: int, path: str) -> None:
    """Make sure of a folder's own name. Who made it may have been killed before it was safe; a power cut would then take the home with
    everything that was recorded in it since. A home that holds a ledger has been through this."""
    try:
        above = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return  # a folder that we may not even read was not made by us
    try:
        if os.fstat(above).st_dev == os.fstat(fd).st_dev:  # else a mount, whose name is not on the disk
            disk.fsync_dir(above)
    except OSError as why:
        raise unwritable(path, why) from why
    finally:
        os.close(above)
