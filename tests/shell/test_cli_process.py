"""The command as a process: what it imports, standard input and output of every kind, a real terminal, links to `bin/ask-gpt`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gptbridge.edge.descriptors import readable
from gptbridge.practice.server import PracticeServer

from .practising import Desk, until
from .seeding import ROOT, Seed, conversation_id

HEAVY = ("selenium", "undetected_chromedriver", "ruamel", "websocket", "http.client", "asyncio", "rich", "pydantic",
         "html_to_markdown", "ssl")
MODULES = """
import sys
from gptbridge.shell.cli import main
code = main(sys.argv[1:])
print(code, *sorted(sys.modules), file=sys.stderr)
"""


@pytest.fixture
def seed(tmp_path: Path) -> Seed:
    return Seed(tmp_path / "home")


def imported(seed: Seed, *words: str) -> set[str]:
    done = subprocess.run([sys.executable, "-P", "-c", MODULES, *words], env=seed.env, cwd=seed.path.parent, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=True)
    code, *names = done.stderr.splitlines()[-1].split()
    assert code == "0", done
    return set(names)


@pytest.mark.parametrize("words", [["list"], ["list", "--search", "x"], ["list", "--export"], ["show", conversation_id(1)], ["ops"],
                                   ["--help"], ["help", "exits"], ["list", "--help"], ["--version"], ["list", "--json"]])
def test_reading_imports_nothing_heavy(seed: Seed, words: list[str]) -> None:
    seed.log(seed.conversation(1, "t"), {"sections": [("prompt", "p"), ("answer", "a")]})
    names = imported(seed, *words)
    assert not [name for name in names if name in HEAVY or name.startswith(tuple(f"{heavy}." for heavy in HEAVY))]
    assert not [name for name in names if name.startswith("gptbridge.practice")]


def test_a_plain_list_does_without_the_parser(seed: Seed) -> None:
    for words in (["list"], ["list", "0", "--json", "-q"], ["--help"]):
        assert "typer" not in imported(seed, *words)
    assert not {"gptbridge.core.conversation", "gptbridge.core.log_read", "gptbridge.edge.config"} & imported(seed, "list")
    assert not {"gptbridge.core.log_read", "gptbridge.core.ports"} & imported(seed, "ops")


@pytest.mark.parametrize("words", [["list"], ["ops"], ["--help"], ["lst"], ["send", ""], ["show", conversation_id(1)]])
def test_an_open_pipe_without_data_is_never_waited_for(seed: Seed, words: list[str]) -> None:
    read, write = os.pipe()
    try:
        assert seed.run(*words, stdin=read).returncode in (0, 2, 17)
    finally:
        os.close(read)
        os.close(write)


def test_a_prompt_in_a_pipe_is_waited_for_and_ctrl_c_ends_it(seed: Seed) -> None:
    process = subprocess.Popen([sys.executable, "-P", "-m", "gptbridge", "send", "-", "--json"], env=seed.env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    status = Path(f"/proc/{process.pid}/syscall")
    until = time.monotonic() + 20
    while status.exists() and not status.read_text().startswith("0 0x0 ") and time.monotonic() < until:  # read(0, ...)
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.wait(20)  # the pipe is open still: what ends it is the signal
    out, err = process.communicate()
    assert process.returncode == 130 and json.loads(out)["sent"] == "no" and err == b"ask-gpt: interrupted; nothing was sent\n"


def test_a_closed_pipe_ends_quietly(seed: Seed) -> None:
    for number in range(3):
        seed.conversation(number, "title " * 10)
    seed.log(conversation_id(1), {"sections": [("prompt", "p"), ("answer", "a\n" * 100_000)]})
    for words in (["list"], ["list", "--json"], ["show", conversation_id(1)], ["ops"], ["help", "exits"], ["--help"], ["ops", "--help"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([sys.executable, "-P", "-m", "gptbridge", *words], env=seed.env, stdout=write, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
        os.close(write)
        assert (done.returncode, done.stderr) == (0, b""), words


def test_a_closed_pipe_changes_no_other_exit_code(seed: Seed) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-P", "-m", "gptbridge", "lst", "--json"], env=seed.env, stdout=write, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    os.close(write)
    assert done.returncode == 2 and b"Traceback" not in done.stderr


def test_a_reader_that_leaves_early(seed: Seed) -> None:
    seed.log(conversation_id(1), {"sections": [("prompt", "p"), ("answer", "a\n" * 200_000)]})
    command = f'"{sys.executable}" -P -m gptbridge show {conversation_id(1)}'
    done = subprocess.run(["bash", "-c", f"{command} | head -1; echo ${{PIPESTATUS[0]}}"], env=seed.env, capture_output=True, timeout=60,
                          check=True, cwd=seed.path.parent)
    assert done.stdout.splitlines()[-1] == b"0" and done.stderr == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["list --export", "lst", "--help", "send -"])
def test_closed_descriptors_are_not_given_to_files(seed: Seed, closed: str, words: str) -> None:
    seed.conversation(1, "a title")
    before = {p.name: p.read_bytes() for p in seed.path.iterdir() if p.is_file()}
    done = subprocess.run(["bash", "-c", f'exec "{sys.executable}" -P -m gptbridge {words} {closed}'], env=seed.env, capture_output=True,
                          timeout=60, check=False, cwd=seed.path.parent)
    assert done.returncode == (2 if words in ("lst", "send -") else 0), done
    assert b"Traceback" not in done.stderr
    assert {p.name: p.read_bytes() for p in seed.path.iterdir() if p.is_file()} == before


def test_a_full_disk_behind_standard_output_is_said(seed: Seed) -> None:
    seed.conversation(1, "a title")
    if not Path("/dev/full").exists():
        return
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-P", "-m", "gptbridge", "list"], env=seed.env, stdout=full, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert done.returncode == 19 and done.stderr.startswith(b"ask-gpt: standard output cannot be written")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX", "en_US.ISO-8859-1"])
def test_text_is_utf_8_whatever_the_locale(seed: Seed, locale: str) -> None:
    seed.conversation(1, "grüße 日本")
    seed.env["LC_ALL"] = locale
    assert seed.run("list", "--search", "日本").stdout == f"{conversation_id(1)}\tgrüße 日本\n".encode()
    done = subprocess.run([sys.executable, "-P", "-m", "gptbridge", "send", b"\xff"], env=seed.env, capture_output=True, timeout=60,
                          check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 17 and done.stdout == b"" and b"not valid UTF-8" in done.stderr


def on_a_terminal(seed: Seed, *words: str) -> bytes:
    """Everything that a terminal would show of both streams."""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            os.chdir(seed.path.parent)
            os.execve(sys.executable, [sys.executable, "-P", "-m", "gptbridge", *words], seed.env)
        finally:
            os._exit(127)
    out = b""
    try:
        while chunk := os.read(fd, 65536):
            out += chunk
    except OSError:  # so Linux says that the other end is closed
        pass
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (0, 2, 17)
    return out.replace(b"\r\n", b"\n")


def test_on_a_terminal_nothing_of_the_site_is_obeyed(seed: Seed) -> None:
    seed.conversation(1, "an\x1b]0;evil\x07 title\r\x9b31m\u202e")
    seed.log(conversation_id(1), {"sections": [("prompt", "p"), ("answer", "a\x1b[2J\nb\tc")]})
    for words in (["list"], ["show", conversation_id(1)], ["show", conversation_id(1), "--answer"], ["--help"], ["ops", "\x1b[2J"],
                  ["lst\x1b[2J"], ["show", "x\x1b[2J"], ["list", "--help"], ["help", "json"]):
        shown = on_a_terminal(seed, *words)
        assert shown and not any(byte in shown for byte in (b"\x1b", b"\x07", b"\r", "\x9b".encode(), "\u202e".encode())), words
    assert on_a_terminal(seed, "list") == f"{conversation_id(1)}\tan␛1B;]0;evil␛7; title␛D;␛9B;31m␛202E;\n".encode()
    assert on_a_terminal(seed, "show", conversation_id(1), "--answer") == "a␛1B;[2J\nb\tc\n".encode()
    assert seed.run("show", conversation_id(1), "--answer").stdout == b"a\x1b[2J\nb\tc\n"


def test_the_window_of_the_terminal_does_not_matter(seed: Seed) -> None:
    seed.env["COLUMNS"] = "300"
    assert max(map(len, seed.run("send", "--help").stdout.splitlines())) <= 100
    seed.env.update(FORCE_COLOR="1", TERM="xterm-256color")
    assert b"\x1b" not in seed.run("send", "--help").stdout + seed.run("send", "--bogus").stderr


# bin/ask-gpt

def test_the_launcher_works_from_any_folder_and_through_links(seed: Seed, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "first").symlink_to(ROOT / "bin" / "ask-gpt")
    (tmp_path / "a b" / "second").symlink_to("first")
    (tmp_path / "bin").symlink_to(ROOT / "bin")
    for name in (tmp_path / "a b" / "second", tmp_path / "bin" / "ask-gpt", ROOT / "bin" / "ask-gpt"):
        done = subprocess.run([name, "--version"], cwd=tmp_path / "a b", env=seed.env, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0 and done.stdout.startswith(b"ask-gpt "), done
    seed.env["PATH"] = f"{tmp_path / 'bin'}:{seed.env['PATH']}"
    assert subprocess.run(["sh", "-c", "ask-gpt lst"], env=seed.env, capture_output=True, timeout=60, check=False).returncode == 2


def test_the_launcher_takes_nothing_from_the_working_folder(seed: Seed, tmp_path: Path) -> None:
    for name in ("gptbridge", "typer", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(99)")
    done = subprocess.run([ROOT / "bin" / "ask-gpt", "list", "--search", "x"], cwd=tmp_path, env=seed.env, capture_output=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done


def test_the_launcher_without_its_environment_says_so(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ask-gpt").write_bytes((ROOT / "bin" / "ask-gpt").read_bytes())
    (tmp_path / "bin" / "ask-gpt").chmod(0o755)
    done = subprocess.run([tmp_path / "bin" / "ask-gpt", "list"], capture_output=True, timeout=60, check=False, text=True)
    assert done.returncode == 20 and done.stdout == "" and done.stderr.count("\n") == 1 and str(tmp_path) in done.stderr


def test_the_launcher_with_a_folder_as_standard_input(seed: Seed, tmp_path: Path) -> None:
    """Python dies of it at its start, with status 1, which would say something of the command."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        done = subprocess.run([ROOT / "bin" / "ask-gpt", "send", "-"], stdin=folder, env=seed.env, capture_output=True, timeout=60,
                              check=False, text=True)
    finally:
        os.close(folder)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("ask-gpt: standard input is a folder; nothing was sent")


def test_the_started_process_is_the_command(seed: Seed) -> None:
    process = subprocess.Popen([ROOT / "bin" / "ask-gpt", "practice"], env=seed.env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["site"].startswith("http://127.0.0.1:")
        assert b"gptbridge\0practice" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.terminate()
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_documents_of_practice(seed: Seed) -> None:
    found = seed.document("practice", "--scenarios")
    assert any(line.startswith("slow-answer:seconds=") for line in found["scenarios"])
    assert seed.document("practice", "--scenario", "none")["exit_code"] == 2


def test_a_worker_keeps_nothing_of_its_caller(tmp_path: Path) -> None:
    """FW-05: also not a pipe with a number of its own (`3>&1`), for whose end a wrapper waits when the command was killed."""
    with PracticeServer() as site:
        desk = Desk(tmp_path, site)
        (desk.work / "a.txt").write_text("some bytes")
        read, write = os.pipe()
        env = {**desk.env, "FAKE_MARKS": str(desk.marks), "FAKE_HOLD": "sent"}
        front = subprocess.Popen([sys.executable, "-m", "tests.fake_cli", "send", "words", "-f", "a.txt"], env=env, cwd=desk.work,
                                 stdin=subprocess.DEVNULL, stdout=write, stderr=write, pass_fds=(write,))
        os.close(write)
        try:
            worker = int(until(lambda: next((line.split()[0] for line in desk.seen() if line.endswith(" sent")), None)))
            front.kill()
            front.wait()
            more = b"."
            while more:
                assert readable((read,), 10.0), "the pipe is open still"
                more = os.read(read, 65536)
            if Path("/proc/self/fd").is_dir():
                kept = {os.readlink(f"/proc/{worker}/fd/{name}") for name in os.listdir(f"/proc/{worker}/fd")}
                strange = {one for one in kept if not one.startswith((str(desk.home), str(desk.work), "/dev/null", "socket:"))}
                assert not strange, "neither pipe nor terminal"
        finally:
            os.close(read)
            desk.tidy()
        until(lambda: desk.operations()[0]["state"] == "completed")
        assert [sent["text"] for sent in desk.sends] == ["words"]
