"""The state as reading commands see it: opened when first asked for, never made, never changed; no lock is taken and no config is read.

Touches files of the home, for reading. Raises the `Failure`s of the readers in edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gptbridge.core.errors import Failure

if TYPE_CHECKING:
    from gptbridge.core.ledger import Operation, View
    from gptbridge.edge.home import Home
    from gptbridge.edge.host import Host
    from gptbridge.edge.ledger_file import LedgerFile
    from gptbridge.edge.logs import LogFiles
    from gptbridge.edge.registry_file import RegistryFile
    from gptbridge.edge.spool import SpoolFolder


class Glimpse(NamedTuple):
    """view: of it every operation that is unsettled, or admitted at order `least` or later. torn: bytes behind the ledger's last record.
    failure: why nothing may be decided on it."""

    view: View
    least: int
    torn: int
    failure: Failure | None


class Store:
    """Imports stand inside, since each command needs a part of it and pays for that part alone."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ

    @cached_property
    def host(self) -> Host:
        from gptbridge.edge.host import Host

        return Host(self.environ)

    @cached_property
    def home(self) -> Home:
        from gptbridge.edge.home import open_home

        return open_home(self.environ, create=False, host=self.host)

    @cached_property
    def registry(self) -> RegistryFile:
        from gptbridge.edge.registry_file import RegistryFile

        return RegistryFile(self.home, self.host)

    @cached_property
    def ledger(self) -> LedgerFile:
        from gptbridge.edge.ledger_file import LedgerFile
        from gptbridge.edge.stamps import StampFile

        return LedgerFile(self.home, self.host, mark=StampFile(self.home).mark)

    @cached_property
    def view(self) -> View:
        return self.ledger.view()

    def operation(self, operation_id: str) -> Operation | None:
        """The row of an id that somebody named. Failure("uncertain") where the ledger cannot be read to look it up: then nobody may take
        the operation for one that never was."""
        try:
            self.ledger.check()
            return self.view.get(operation_id)
        except Failure as failure:
            raise unsure(operation_id, failure) from failure

    @cached_property
    def readable(self) -> tuple[View, Failure | None]:
        """For what is only shown: of a damaged ledger what is left, and what is wrong with it."""
        return self.ledger.readable()

    def trouble(self) -> list[str]:
        """What would stop a send: said by every reading command, since a person may not send for days."""
        try:
            failure, torn = self.glimpse.failure, self.glimpse.torn
        except Failure as unreadable:
            failure, torn = unreadable, 0
        said = [f"{failure.message.rstrip('.')}; sending is refused: {failure.hint}"] if failure is not None else []
        if torn:
            said.append(f"ledger.jsonl ends in {torn} bytes of an unfinished record; the next writer seals them")
        return said

    @cached_property
    def glimpse(self) -> Glimpse:
        """The same, as far as a list of the newest and a count of the unsettled need it; of a long ledger little is read for that."""
        from gptbridge.edge import ledger_file
        from gptbridge.edge.stamps import StampFile

        if "readable" not in self.__dict__ and (found := ledger_file.glimpse(self.home, StampFile(self.home).mark)) is not None:
            return Glimpse(*found, None)
        view, failure = self.readable
        return Glimpse(view, 0, self.ledger.torn_size if failure is None else 0, failure)

    @cached_property
    def logs(self) -> LogFiles:
        """Without the folder's copies."""
        from gptbridge.edge.logs import LogFiles

        return LogFiles(self.home)

    @cached_property
    def spool(self) -> SpoolFolder:
        from gptbridge.edge.spool import SpoolFolder

        return SpoolFolder(self.home)

    def copy_path(self, name: str) -> str | None:
        """The copy of that log in the working folder, if there is one; the folder is not made for the question."""
        from gptbridge.edge.copies import FOLDER, CopyFolder

        return f"./{FOLDER}/{name}.log" if CopyFolder.here(lambda _: None).holds(f"{name}.log") else None


def unsure(operation_id: str, failure: Failure) -> Failure:
    """What is said of an id that somebody named while the ledger cannot be relied on: the band speaks of the operation."""
    return Failure("uncertain", f"what became of operation {operation_id} cannot be read: {failure.message}", failure.hint)
