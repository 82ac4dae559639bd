"""A process that holds a gate, to be killed: arguments are browser socket, target, origin; it does what the lines on stdin say."""

from __future__ import annotations

import os
import signal
import sys

from gptbridge.edge.gate import Gate


def main() -> None:
    gate = Gate(*sys.argv[1:4])
    gate.arm()

    def caught(*_: object) -> None:
        gate.shut()
        os._exit(0)

    signal.signal(signal.SIGTERM, caught)
    print("armed", flush=True)
    held = None
    for line in sys.stdin:
        word = line.strip()
        if word == "open":
            gate.open_once()
        elif word == "wait":
            held = gate.wait(10)
            assert held is not None
        elif word == "release-and-die":
            assert held is not None and gate.release(held)
            os.kill(os.getpid(), signal.SIGKILL)
        print(word, flush=True)


main()
