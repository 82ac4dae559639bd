"""A process that holds a gate, to be killed: arguments are browser socket, target, origin, and `alone` for a gate without its sentry;
it does what the lines on stdin say."""

from __future__ import annotations

import os
import signal
import sys

from gptbridge.edge.gate import Gate
from gptbridge.edge.sentry import Sentry


def main() -> None:
    browser_url, target, origin, *alone = sys.argv[1:]
    sentry = None if alone else Sentry()
    gate = Gate(browser_url, target, origin, sentry)
    gate.arm()

    def caught(*_: object) -> None:
        gate.shut()
        os._exit(0)

    signal.signal(signal.SIGTERM, caught)
    print(f"armed {sentry.pid if sentry else 0}", flush=True)
    held = None
    for line in sys.stdin:
        word = line.strip()
        if word == "open":
            gate.open_once()
        elif word == "wait":
            held = gate.wait(10)
            assert held is not None
        elif word == "release":
            assert held is not None
            word = str(gate.release(held))
        elif word == "release-and-die":
            assert held is not None and gate.release(held)
            os.kill(os.getpid(), signal.SIGKILL)
        elif word == "sentry":
            assert sentry is not None
            word = f"{sentry.pid if sentry.reliefs else 0}"
        print(word, flush=True)


main()
