"""A command line whose process lives no longer than the pipe to its standard input: the end of this one, also by SIGKILL, ends it.

Guarantees: the command itself is a child of the shell, so its pid is nobody else's while the shell may kill it; it ends, and with its
status, when the command ends by itself; the shell keeps no standard output open, so a command that ends at once is the end of what it
says. Touches nothing; the caller starts it, with a pipe as standard input that it never writes to. The pipe must be in no other child.
"""

from __future__ import annotations

from collections.abc import Sequence

# A background command of a shell reads /dev/null unless it is told otherwise: hence the third descriptor.
_SCRIPT = ('exec 3<&0; "$0" "$@" </dev/null 3<&- & p=$!; exec >/dev/null; { read -r _ <&3; kill -9 $p; } 2>/dev/null & w=$!; exec 3<&-; '
           'wait $p; s=$?; kill $w; exit $s')


def leashed(command: Sequence[str]) -> list[str]:
    """`command`: a program's path and its arguments."""
    return ["/bin/sh", "-c", _SCRIPT, *command]
