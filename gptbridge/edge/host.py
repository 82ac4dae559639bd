"""What the machine says: clocks, random bytes, ids, processes, room, environment. The one place that asks, so that tests can answer.

Guarantees: `boottime` never goes back within one `boot_id` and counts the time that the machine slept.
Touches: clocks, /proc or sysctl, the random source; writes nothing.
Fails closed: no random bytes is `state-unwritable` (19); what else is unknown is None or "".
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

from gptbridge.core.errors import Failure

# Linux's MONOTONIC stands still while the machine sleeps, BOOTTIME does not; Darwin's MONOTONIC goes on (time.monotonic() there does not).
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Host:
    """The real machine. `env` is a snapshot of the environment, taken when this object is made."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.env: Mapping[str, str] = MappingProxyType(dict(os.environ if env is None else env))

    @property
    def pid(self) -> int:
        return os.getpid()

    def wall(self) -> float:
        """Epoch seconds; may jump either way."""
        return time.time()

    def boottime(self) -> float:
        """Seconds since some moment of this boot, sleep included."""
        return time.clock_gettime(_BOOT_CLOCK)

    @cached_property
    def boot_id(self) -> str:
        """Another text after each boot; "" when the machine does not say."""
        if sys.platform == "darwin":
            return _sysctl("kern.bootsessionuuid") or _sysctl("kern.boottime")
        return _first_line("/proc/sys/kernel/random/boot_id")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def random_bytes(self, count: int) -> bytes:
        try:
            return os.urandom(count)
        except (OSError, NotImplementedError) as why:
            raise Failure("state-unwritable", "The machine gives no random bytes, so no id can be made.") from why

    def unit(self) -> float:
        """Uniform in [0, 1), 53 bits."""
        return (int.from_bytes(self.random_bytes(7), "big") >> 3) / (1 << 53)

    def ulid(self) -> str:
        """A new canonical ULID: 48 bits of wall time in milliseconds, 80 random bits."""
        from ulid import ULID

        stamp = min(max(0, int(self.wall() * 1000)), (1 << 48) - 1)
        return str(ULID.from_bytes(stamp.to_bytes(6, "big") + self.random_bytes(10)))

    def uuid4(self) -> str:
        import uuid

        return str(uuid.UUID(bytes=self.random_bytes(16), version=4))

    def free_bytes(self, place: str | int) -> int:
        """Room that this user can still fill, by path or descriptor; 0 when that cannot be known."""
        try:
            found = os.statvfs(place)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    """A sysctl of Darwin as text, a number or struct as hex; "" if there is none."""
    import ctypes  # only Darwin asks

    libc = ctypes.CDLL(None)
    size = ctypes.c_size_t(64)
    buffer = ctypes.create_string_buffer(64)
    if libc.sysctlbyname(name.encode("ascii"), buffer, ctypes.byref(size), None, 0) != 0:
        return ""
    raw = buffer.raw[: size.value].rstrip(b"\0")
    return raw.decode("ascii") if raw.isascii() and raw.decode("ascii").isprintable() else raw.hex()
