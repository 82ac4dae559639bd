"""`python -m gptbridge.practice`: the command line of the practice site."""

from __future__ import annotations

import argparse
import sys

from gptbridge.practice.server import run, scenario_lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ask-gpt practice", description="Serve a stand-in of the site on loopback, to practise on.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--scenario", action="append", default=[], metavar="NAME[:k=v[,k=v]]", help="switch a scenario on; repeatable")
    parser.add_argument("--tls", action="store_true", help="https with a throwaway certificate")
    parser.add_argument("--scenarios", action="store_true", help="list the scenarios and end")
    given = parser.parse_args(arguments)
    if given.scenarios:
        print("\n".join(scenario_lines()))
        return 0
    return run(given.port, given.scenario, given.tls)


if __name__ == "__main__":
    sys.exit(main())
