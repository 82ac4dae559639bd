"""`sweep --print-unit`: what each scheduler would really run, read back by its own rules."""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gptbridge.core.errors import Failure
from gptbridge.shell import units

ENV = {"ASKGPT_HOME": "/var/odd 100% $dir \"q\"/home", "PATH": "/usr/bin:/bin", "HOME": "/home/me", "SECRET": "no"}
PASSED = {"ASKGPT_HOME": ENV["ASKGPT_HOME"], "PATH": ENV["PATH"], "ASKGPT_HEADLESS": "1"}


def sections(text: str) -> dict[str, str]:
    parts = text.split("# File ")[1:]
    return {Path(part.splitlines()[0]).name: "# " + part for part in parts}


def test_cron_runs_this_installation_every_hour_and_after_a_start() -> None:
    lines = units.text("cron", ENV, unit=0.5).splitlines()
    hourly = next(line for line in lines if line.startswith("30 "))
    assert hourly.split(None, 5)[:5] == ["30", "*", "*", "*", "*"]
    words = shlex.split(hourly.split(None, 5)[5].replace(r"\%", "%"))
    assert words[0] == "env" and dict(word.split("=", 1) for word in words[1:-1]) == PASSED and words[-1:] == units.program()
    assert not any(line[0].isalpha() for line in lines), "nothing changes the jobs below it"
    assert any(line.startswith("@reboot ") for line in lines)
    assert Path(units.program()[0]).is_file()


@pytest.mark.parametrize("unit", [0.0, 0.9999])
def test_the_minute_is_one_of_the_hour(unit: float) -> None:
    lines = units.text("cron", ENV, unit=unit).splitlines()
    minutes = [line.split()[0] for line in lines if line[0].isdigit()]
    assert minutes == [str(int(unit * 60))]


def test_launchd_reads_what_was_meant() -> None:
    found = plistlib.loads(units.text("launchd", ENV, unit=0.25).encode())
    assert found["ProgramArguments"] == units.program() and found["EnvironmentVariables"] == PASSED
    assert found["StartCalendarInterval"] == {"Minute": 15} and found["StandardOutPath"] == "/home/me/Library/Logs/ask-gpt-sweep.log"


def test_systemd_gets_a_service_and_a_timer_that_findings_do_not_fail() -> None:
    found = sections(units.text("systemd", ENV, unit=0.0))
    assert set(found) == {"ask-gpt-sweep.service", "ask-gpt-sweep.timer"}
    service, timer = found["ask-gpt-sweep.service"], found["ask-gpt-sweep.timer"]
    assert "SuccessExitStatus=3\n" in service and 'Environment="ASKGPT_HOME=/var/odd 100%% $dir \\"q\\"/home"\n' in service
    assert "Persistent=true\n" in timer and "RandomizedDelaySec=" in timer and "SECRET" not in service


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not part of this system")
def test_systemd_itself_has_nothing_to_say(tmp_path: Path) -> None:
    found = sections(units.text("systemd", ENV, unit=0.0))
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    command = ["systemd-analyze", "verify", "--user", *(str(tmp_path / name) for name in found)]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 0 and "ask-gpt-sweep" not in done.stderr, done.stderr


def test_what_was_named_from_this_folder_is_found_from_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cron starts in the home folder, systemd in `/`: a relative path would be swept there, and all would seem well."""
    monkeypatch.chdir(tmp_path)
    for name in ("bin/my-chrome", "path/other-chrome", "path/chromedriver"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o700)
    (tmp_path / "real").mkdir()
    (tmp_path / "relhome").symlink_to("real")

    def passed(**env: str) -> dict[str, str]:
        given = {"PATH": "path:/usr/bin", "HOME": "/home/me", **env}
        found: dict[str, str] = plistlib.loads(units.text("launchd", given, unit=0.0).encode())["EnvironmentVariables"]
        return found

    found = passed(ASKGPT_HOME="relhome", ASKGPT_BROWSER="bin/my-chrome", XDG_STATE_HOME="state", XDG_CONFIG_HOME="/config")
    assert (found["ASKGPT_HOME"], found["ASKGPT_BROWSER"]) == (str(tmp_path / "real"), str(tmp_path / "bin" / "my-chrome"))
    assert "XDG_STATE_HOME" not in found and found["XDG_CONFIG_HOME"] == "/config"  # a relative one does not count here either
    assert found["PATH"].split(":")[0] == str(tmp_path / "path")
    assert passed(ASKGPT_BROWSER="other-chrome")["ASKGPT_BROWSER"] == str(tmp_path / "path" / "other-chrome")
    assert passed(ASKGPT_BROWSER="not-yet/chrome")["ASKGPT_BROWSER"] == str(tmp_path / "not-yet" / "chrome")
    assert passed(ASKGPT_BROWSER="not-there")["ASKGPT_BROWSER"] == "not-there" and "ASKGPT_HOME" not in passed()


def test_what_a_file_cannot_say_is_refused() -> None:
    for kind in ("cron", "launchd", "systemd"):
        with pytest.raises(Failure) as caught:
            units.text(kind, ENV | {"ASKGPT_HOME": "/a\nb"}, unit=0.0)  # type: ignore[arg-type]
        assert caught.value.slug == "usage" and "ASKGPT_HOME" in caught.value.message


def test_the_command_prints_it_and_does_nothing_else(tmp_path: Path) -> None:
    from .seeding import Seed

    seed = Seed(tmp_path / "home")
    done = seed.run("sweep", "--print-unit", "cron")
    assert done.returncode == 0 and f'ASKGPT_HOME={seed.path} ' in done.stdout.decode() and done.stderr == b""
    assert seed.document("sweep", "--print-unit", "systemd")["unit"].startswith("# File 1 of 2")
    assert seed.run("sweep", "--print-unit", "atd").returncode == 2
    assert seed.run("sweep", "--print-unit", "cron", "--offline").returncode == 2
