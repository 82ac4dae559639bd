"""What `make setup` does on machines of every kind: a path of stand-ins plays the machine, and the script's own words are the result."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "tools" / "install-system-packages"
TOOLS = ("sh", "env", "grep", "mkdir", "tail", "cat", "chmod", "rm")
INSTALL = """#!/bin/sh
echo "apt-get $*" >>"$CALLS"
case "$*" in *install*)
  for name in "$@"; do case $name in
    chromium) printf '#!/bin/sh\\nexit %s\\n' "${STUB_STATUS:-0}" >"$STAND_INS/chromium"; chmod +x "$STAND_INS/chromium" ;;
    chromium-driver) printf '#!/bin/sh\\n' >"$STAND_INS/chromedriver"; chmod +x "$STAND_INS/chromedriver" ;;
  esac; done
  [ "${APT_STATUS:-0}" = 0 ] || { echo "E: Unable to locate package" >&2; exit "$APT_STATUS"; } ;;
esac
"""


class Machine:
    """A folder of programs: `put` adds one, `run` runs the script with nothing else on its path."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs, self.calls = folder, folder / "programs", folder / "calls"
        self.programs.mkdir()
        for name in TOOLS:
            found = shutil.which(name)
            assert found
            (self.programs / name).symlink_to(found)
        self.put("uname", "echo Linux")
        self.put("id", "echo 0")
        self.put("apt-cache", 'case $2 in chromium|chromium-driver|chromium-sandbox) echo "Package: $2" ;; esac')
        (self.programs / "apt-get").write_text(INSTALL)
        (self.programs / "apt-get").chmod(0o755)

    def put(self, name: str, script: str = "exit 0") -> None:
        (self.programs / name).unlink(missing_ok=True)
        (self.programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.programs / name).chmod(0o755)

    def run(self, *what: str, **env: str) -> tuple[int, str, list[str]]:
        """(exit code, what it said, calls of apt-get)."""
        given = {"PATH": str(self.programs), "CALLS": str(self.calls), "STAND_INS": str(self.programs), **env}
        done = subprocess.run([str(SCRIPT), *what], cwd=self.folder, env=given, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr, self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_ordinary_user_needs_no_rights_when_all_is_there(machine: Machine) -> None:
    for name in ("chromium", "chromedriver", "strace"):
        machine.put(name)
    machine.put("id", "echo 1000")
    (machine.programs / "apt-get").unlink()
    assert machine.run("browser", "strace") == (0, "", [])


def test_root_installs_what_is_missing(machine: Machine) -> None:
    code, said, calls = machine.run("browser", "strace")
    assert code == 0 and said.startswith("setup: installing: Chromium")
    assert calls == ["apt-get -q update", "apt-get -q install -y --no-install-recommends chromium chromium-sandbox chromium-driver strace"]


def test_the_driver_alone(machine: Machine) -> None:
    machine.put("chromium")
    assert machine.run("browser")[2][-1].endswith(" chromium-driver")


def test_chrome_of_its_vendor_needs_no_driver_of_the_system(machine: Machine) -> None:
    machine.put("google-chrome")
    assert machine.run("browser") == (0, "", [])


def test_sudo_without_a_password_will_do(machine: Machine) -> None:
    machine.put("id", "echo 1000")
    machine.put("sudo", '[ "$1" = -n ] && shift; exec "$@"')
    machine.put("true")
    code, _, calls = machine.run("strace")
    assert code == 0 and calls[-1].endswith(" strace")


@pytest.mark.parametrize(("change", "words"), [
    (lambda m: m.put("id", "echo 1000"), "needs root: run 'sudo make setup'"),
    (lambda m: (m.put("id", "echo 1000"), m.put("sudo", "exit 1")), "needs root"),
    (lambda m: (m.programs / "apt-get").unlink(), "no apt-get"),
    (lambda m: m.put("uname", "echo Darwin"), "brew install --cask google-chrome"),
], ids=["ordinary user", "sudo asks for a password", "no apt-get", "macOS"])
def test_one_clear_sentence_where_it_is_not_possible(machine: Machine, change: object, words: str) -> None:
    change(machine)  # type: ignore[operator]
    code, said, calls = machine.run("browser", "strace")
    assert code == 1 and calls == []
    assert said.count("\n") == 1 and said.startswith("setup: missing: Chromium") and words in said


def test_packages_that_do_not_install(machine: Machine) -> None:
    code, said, _ = machine.run("browser", APT_STATUS="100")
    assert code == 1 and said.splitlines()[-2:][0] == "E: Unable to locate package" and "could not install it" in said.splitlines()[-1]


def test_a_stub_that_does_not_start_is_no_browser(machine: Machine) -> None:
    code, said, _ = machine.run("browser", STUB_STATUS="1")
    assert code == 1 and "no Chromium that starts" in said.splitlines()[-1]
