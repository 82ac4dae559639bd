"""The practice site as a whole: a listening socket on loopback, its threads, its end.

Guarantees: binds 127.0.0.1 only; `stop` ends every connection and every answer that is being written. Touches sockets, threads
and, in `run`, signals and standard output. Raises UnknownScenario, BadParameter (a bad option),
tls.Unavailable, OSError (the port is taken).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterable
from http.server import ThreadingHTTPServer
from typing import Any

from gptbridge.practice import tls as certificates
from gptbridge.practice.connection import Handler
from gptbridge.practice.control import many
from gptbridge.practice.scenarios import SCENARIOS, BadParameter, UnknownScenario
from gptbridge.practice.world import World

__all__ = ["SCENARIOS", "PracticeServer", "run", "scenario_lines"]


class _Listener(ThreadingHTTPServer):
    """Keeps the open connections, so that the end can close them; TLS is shaken hands in the connection's own thread."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, handler: type[Handler], context: ssl.SSLContext | None) -> None:
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._context = context
        super().__init__(("127.0.0.1", port), handler)

    def server_bind(self) -> None:
        # Not HTTPServer's: that looks the host's name up, which can take seconds.
        socket_server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._guard:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def close_connections(self) -> None:
        with self._guard:
            left = list(self._open)
        for connection in left:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def socket_server_bind(server: ThreadingHTTPServer) -> None:
    """Bind with SO_REUSEADDR and keep the address that it got."""
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.socket.bind(server.server_address)
    server.server_address = server.socket.getsockname()


class PracticeServer:
    """`scenarios` are options `NAME[:k=v[,k=v]]` that are on from the start; `world` holds what the site knows.

    `with PracticeServer() as site:` starts and stops it; `site.url` is "http://127.0.0.1:PORT".
    """

    def __init__(self, port: int = 0, scenarios: Iterable[str] = (), tls: bool = False) -> None:
        self.world = World(scenarios)
        if (wanted := self.world.switches.get("many-conversations")) is not None:
            many(self.world, int(wanted["count"]))
        self._context = certificates.context() if tls else None
        handler = type("PracticeHandler", (Handler,), {"world": self.world, "tls": tls})
        self._listener = _Listener(port, handler, self._context)
        self._thread: threading.Thread | None = None
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.server_port}"

    def start(self) -> str:
        """Serve in threads; returns the site's URL."""
        self._thread = threading.Thread(target=self.serve_forever, name="practice-site", daemon=True)
        self._thread.start()
        return self.url

    def serve_forever(self) -> None:
        """Serve in this thread until `stop` is called in another."""
        self._listener.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        if self._thread is not None:
            self._listener.shutdown()
            self._thread.join()
            self._thread = None
        self._listener.server_close()
        self.world.reset()  # ends the answers that are being written, and with them their readers
        self._listener.close_connections()

    def __enter__(self) -> PracticeServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def scenario_lines() -> list[str]:
    """One line per scenario: name, parameters with their defaults, meaning."""
    lines = []
    for row in SCENARIOS.values():
        parameters = ",".join(f"{key}={json.dumps(value)}" for key, value in row.defaults.items())
        lines.append(f"{row.name + (':' + parameters if parameters else ''):46} {row.meaning}")
    return lines


def run(port: int, scenarios: list[str], tls: bool) -> int:
    """Serve until SIGTERM or SIGINT; prints `{"site": URL}` when ready. Returns the exit code: 0, 2 (bad option), 20 (cannot serve)."""
    ends = {signal.SIGTERM, signal.SIGINT}
    # Blocked before the threads start, which inherit it: the signal waits for sigwait below, however early it comes.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        site = PracticeServer(port, scenarios, tls)
        site.start()
        try:
            print(json.dumps({"site": site.url}), flush=True)
            signal.sigwait(ends)
        finally:
            site.stop()
        return 0
    except (UnknownScenario, BadParameter) as error:
        print(f"{error}. `--scenarios` lists them.", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (certificates.Unavailable, OSError, OverflowError) as error:
        print(f"The practice site cannot serve: {error}", file=sys.stderr)
        return 20
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
