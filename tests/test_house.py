"""The rules of the house, checked on its sources: who may import, write and know what, how modules are named, and what must stand where."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from gptbridge.shell import arguments, cli

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gptbridge"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if "node_modules" not in path.parts)
OURS = [name for name in MODULES if not name.startswith("practice/")]

# Names that say nothing about what a module knows.
NAMELESS = {"utils", "util", "manager", "managers", "helpers", "helper", "common", "misc", "base", "core", "stuff"}

# What the pure rooms may import of the standard library: values, and no way to the world.
PURE = {
    "__future__", "base64", "bisect", "collections", "contextlib", "copy", "dataclasses", "datetime", "enum", "fnmatch", "functools",
    "hashlib", "itertools", "json", "math", "operator", "re", "string", "types", "typing", "unicodedata", "zlib", "urllib.parse"}

# Who else may change a file or write to a descriptor, in which function, and what that is. Everything durable goes through DURABLE.
DURABLE = {"edge/disk.py", "edge/files.py", "edge/journal.py", "edge/parts.py"}
WRITERS = {
    ("edge/lock_file.py", "_open"): "lock files, which hold no state",
    ("edge/lock_file.py", "_write"): "holder info: whom to wait for; it is never believed",
    ("edge/lock_file.py", "refused_in_child"): "a pipe between two processes of the self-test",
    ("edge/browser_start.py", "end"): "a pipe to the process that asked",
    ("edge/browser_start.py", "_copy_driver"): "the private copy of the driver, made anew at any time",
    ("edge/browser_files.py", "check_profile"): "Chrome's own folder",
    ("edge/browser_files.py", "drop_stale_lock"): "Chrome's own lock, after Chrome crashed",
    ("shell/terminal.py", "_write"): "descriptors 1 and 2",
}

# Who forks, and why no lock is held and no thread runs then.
FORKS = {
    ("shell/front.py", "run"): "before any lock, thread or browser",
    ("edge/lock_file.py", "refused_in_child"): "holds the lock that it tests, whose child ends at once and touches nothing else",
}
# What the front does before it: values, settings, the ledger read for a known id (no lock), and the two ends of a socket.
FORK_FOLLOWS = {"dict", "load", "Host", "host.ulid", "check_form", "report", "known.outcome_after", "folder_digest", "socket.socketpair"}

# Larger than a module should be, each for one reason. A new name here needs one too.
LARGE = {
    "edge/chatgpt.py": "one page of one site, behind one port",
    "edge/interception.py": "every request of a window is stopped, read and let go in one place",
    "core/ledger.py": "one record's format and its fold belong together",
    "core/ports.py": "every port is in one place, and nothing but docstrings and signatures",
    "edge/chrome.py": "one Chrome: found, started, used, closed",
    "edge/gate.py": "one gate: its states, and what passes, are decided in one place",
    "edge/journal.py": "one file of records: how it is read, and the order in which it is written",
    "flow/answering.py": "every end that the turn of a released request can have",
    "flow/sending.py": "the order of a send is read from top to bottom in one module",
    "flow/custody.py": "every transition of an operation, and who may make it",
    "shell/grammar.py": "every command with its options: declarations, and what of them cannot go together",
    "shell/topics.py": "nothing but the words of the help, topic by topic",
    "shell/front.py": "one process's life, from the fork to the exit code",
}

OS_WRITES = {
    "write", "writev", "pwrite", "pwritev", "rename", "renames", "replace", "truncate", "ftruncate", "mkdir", "makedirs", "link", "symlink",
    "unlink", "remove", "rmdir", "removedirs", "fsync", "fdatasync", "sendfile", "copy_file_range", "mkfifo", "mknod", "posix_fallocate"}
READ_ONLY = re.compile(r"[ |]*(os\.O_(RDONLY|DIRECTORY|CLOEXEC|NOFOLLOW|NONBLOCK|NOCTTY)[ |]*)+")
PATH_WRITES = {"write_text", "write_bytes", "touch", "mkdir", "unlink", "rmdir", "symlink_to", "hardlink_to", "writelines"}
DISK_READS = {"close", "stat", "fstat", "read", "names", "token", "fsync_dir"}  # and what only makes sure of a name


def tree(name: str) -> ast.Module:
    return ast.parse((PACKAGE / name).read_text("utf-8"), name)


def imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "." * node.level


def calls(module: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Every call, with the name of the function that it stands in."""
    def walk(node: ast.AST, inside: str) -> Iterator[tuple[str, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield inside, child
            yield from walk(child, child.name if isinstance(child, ast.FunctionDef) else inside)
    return walk(module, "")


def writes(call: ast.Call) -> bool:
    """Whether a call can change a file, a folder or what a descriptor leads to."""
    function = call.func
    words = [ast.unparse(argument) for argument in [*call.args, *(keyword.value for keyword in call.keywords)]]
    mode = any(re.fullmatch(r"'[rwaxbt+]*[wax+][rwaxbt+]*'", word) for word in words)
    if isinstance(function, ast.Name):
        return function.id == "open" and mode
    if not isinstance(function, ast.Attribute):
        return False
    owner, name = ast.unparse(function.value), function.attr
    if owner == "os":
        opens = name == "open" and "os.devnull" not in words and not READ_ONLY.fullmatch(words[1])
        return name in OS_WRITES or opens or (name == "fdopen" and mode)
    if owner == "shutil":
        return name not in ("which", "disk_usage", "get_terminal_size")
    if owner.split(".")[-1].lstrip("_") == "disk":
        return name not in DISK_READS
    return owner == "tempfile" or name in PATH_WRITES or (name == "open" and mode)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_import_contracts_hold() -> None:
    done = run(str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kept, 0 broken" in done.stdout


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(("core/", "flow/"))])
def test_core_and_flow_touch_nothing(name: str) -> None:
    module = tree(name)
    room = "gptbridge.core" if name.startswith("core/") else ("gptbridge.core", "gptbridge.flow")
    foreign = {found for found in imported(module) if not found.startswith(room) and found not in PURE and found.split(".")[0] not in PURE}
    assert not foreign
    for _, call in calls(module):
        text = ast.unparse(call.func)
        assert text not in ("open", "print", "input", "eval", "exec", "__import__", "breakpoint"), text
        assert not re.search(r"\b(datetime|date)\.(now|utcnow|today)$", text), "a clock"


def test_only_the_durable_layer_writes_durable_state() -> None:
    found = {(name, inside) for name in OURS if name not in DURABLE for inside, call in calls(tree(name)) if writes(call)}
    assert found - set(WRITERS) == set(), "writes outside the durable layer"
    assert set(WRITERS) - found == set(), "an exception that is not needed any more"
    direct = {name for name in DURABLE for _, call in calls(tree(name)) if ast.unparse(call.func).startswith("os.") and writes(call)}
    assert direct == {"edge/disk.py"}, "a system call past the one layer that a recorder can stand in for"


def test_the_check_for_writers_sees_writes() -> None:
    seen = """os.write(1, b'x'); os.open(p, flags); os.open('a', os.O_RDWR | os.O_CREAT); os.replace(a, b); open(p, 'w')
open(p, mode='ab'); path.open('r+'); path.write_text(''); shutil.copy(a, b); self.disk.write(fd, b''); home.disk.rename(a, b)
os.fdopen(fd, 'wb'); Path(p).touch()"""
    unseen = """open(p); open(p, 'rb'); os.open(p, os.O_RDONLY | os.O_CLOEXEC); os.open(os.devnull, os.O_RDWR); 'a'.replace('b', 'w')
path.open(); shutil.which('w'); disk.stat(n, fd); page.open(None); os.read(0, 1)"""
    inner = [ast.unparse(call) for _, call in calls(ast.parse(seen)) if not writes(call)]
    assert inner == ["Path(p)"]
    assert not any(writes(call) for _, call in calls(ast.parse(unseen)))


def forks(call: ast.Call) -> bool:
    """Whether a call makes a process that goes on with this one's memory and locks. `subprocess` does not: it begins another program."""
    name = ast.unparse(call.func)
    return name in ("os.fork", "os.forkpty", "pty.fork", "fork", "forkpty") or name.split(".")[0] == "multiprocessing" or any(
        keyword.arg == "preexec_fn" for keyword in call.keywords)


def test_only_the_front_forks_and_a_self_test() -> None:
    """FW-06: no fork while a lock is held or a thread runs."""
    found = {(name, inside) for name in OURS for inside, call in calls(tree(name)) if forks(call)}
    assert found == set(FORKS)
    assert not {name for name in OURS if any(part.split(".")[0] == "multiprocessing" for part in imported(tree(name)))}
    # The front: nothing that takes a lock or starts a thread comes before its fork, in the function that forks.
    [run_] = [node for node in tree("shell/front.py").body if isinstance(node, ast.FunctionDef) and node.name == "run"]
    before = [ast.unparse(call.func) for _, call in calls(ast.Module([run_], [])) if call.lineno < min(
        call.lineno for _, call in calls(ast.Module([run_], [])) if forks(call))]
    assert set(before) <= FORK_FOLLOWS, "what is done before the fork holds no lock and starts no thread"


def test_the_check_for_forks_sees_forks() -> None:
    seen = "os.fork(); pty.fork(); os.forkpty(); fork(); multiprocessing.Process(target=f); subprocess.Popen(['a'], preexec_fn=f)"
    assert all(forks(call) for _, call in calls(ast.parse(seen)))
    assert not any(forks(call) for _, call in calls(ast.parse("subprocess.Popen(['a']); os.register_at_fork(after_in_child=f); x.forks()")))


def test_selectors_stand_in_one_place() -> None:
    telling = re.compile(r"querySelector|getElement|find_elements?\b|data-(testid|message)|prompt-textarea|ProseMirror|\bBy\.|aria-")
    files = [PACKAGE / name for name in OURS] + [p for p in PACKAGE.rglob("*.js") if "practice" not in p.parts]
    knowing = {path.relative_to(PACKAGE).as_posix() for path in files if telling.search(path.read_text("utf-8"))}
    assert knowing <= {"edge/chatgpt.js", "edge/chatgpt.py"} and "edge/chatgpt.js" in knowing


DATED = re.compile(r"\b20\d\d(-\d\d){0,2}\b")
HOOK = re.compile(r"^  (?!name: )(\w+): |^const (\w+) = '/|^const (\w+) = /.*/i;")


def hooks_of(source: str) -> dict[str, str]:
    """Each fact about the site in chatgpt.js, with what is said beside it, or in whole lines of comment above it."""
    table, _, rest = source.partition("const pieceLength")
    found: dict[str, str] = {}
    above, name = "", ""
    for number, line in enumerate(table.splitlines(), 1):
        comment = line.partition("//")[2]
        if match := HOOK.match(line):
            name = f"{number} {next(filter(None, match.groups()))}"
            found[name] = above + comment
        elif line.startswith("    "):
            found[name] += comment
        above = above + comment if line.lstrip().startswith("//") else ""
    lines = rest.splitlines()
    inside = re.compile(r"\[data-(?!testid)[^`]*'|'\.katex'|/language-|'/(backend|api)")
    return found | {line: above.partition("//")[2] * above.lstrip().startswith("//") + line.partition("//")[2]
                    for above, line in pairwise(lines) if inside.search(line)}


def undated(source: str) -> list[str]:
    names = "|".join(re.findall(r"`(\w+)`", source.split("const common")[0]))
    found = hooks_of(source)
    return [hook for hook, said in found.items() if not (DATED.search(said) and re.search(rf"\b({names})\b", said))]


def test_every_hook_says_when_it_was_seen_and_where() -> None:
    """SI-01."""
    source = (PACKAGE / "edge/chatgpt.js").read_text("utf-8")
    assert len(hooks_of(source)) > 45 and undated(source) == []
    for word in ("2025-12 .. 2026-08", "2026-09-24", "2025-11, ", ", extensions", " (oracle #315)", ", captures", ", notes"):
        assert word in source and undated(source.replace(word, "")) != [], word


@pytest.mark.parametrize("name", ["README.md", "gptbridge/data/SKILL.md"])
def test_whoever_reads_is_told_that_quoted_words_are_data(name: str) -> None:
    """SE-15."""
    said = " ".join((ROOT / name).read_text("utf-8").split())
    assert re.search(r"(?i)(quoted line|begin with `?>`?)[^.]*title[^.]*words[.:] (they are )?data[^.]*(never|must)[^.]*instructions", said)


def test_names_say_what_a_module_knows() -> None:
    assert not {name for name in MODULES if Path(name).stem in NAMELESS}
    assert not {path for path in PACKAGE.rglob("*/") if path.name in NAMELESS - {"core"} and "node_modules" not in path.parts}


def test_modules_are_small() -> None:
    large = {name for name in MODULES if len((PACKAGE / name).read_text("utf-8").splitlines()) > 300}
    assert large - set(LARGE) == set(), "over 300 lines: split it, or list it with its reason"


@pytest.mark.parametrize("name", [name for name in MODULES if (PACKAGE / name).stat().st_size])
def test_every_module_says_what_it_is(name: str) -> None:
    said = ast.get_docstring(tree(name))
    assert said, name
    assert said.splitlines()[0].endswith((".", ":")) or len(said.splitlines()) > 1, said.splitlines()[0]


def test_tests_use_no_mocks() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        found = list(imported(ast.parse(path.read_text("utf-8"))))
        assert not [name for name in found if "mock" in name], path


# What stands in files that others get

def tracked() -> list[Path]:
    """What a clone holds; where git is not at hand, everything that is not ignored."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard") if shutil.which("git") else None
    if listed is not None and listed.returncode == 0:
        names = [Path(name) for name in listed.stdout.split("\0") if name]
    else:
        left_out = {".git", ".venv", ".make", "build", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache",
                    ".hypothesis", ".import_linter_cache", "gptbridge.egg-info"}
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*") if not left_out & set(path.relative_to(ROOT).parts)]
    return [ROOT / name for name in names if (ROOT / name).is_file() and (ROOT / name) != Path(__file__)]


def test_no_file_names_a_machine_or_a_registry() -> None:
    machine = re.compile(rb"(?<![\w.~-])/(work|root|Users)/(?!i\.test)|/home/(?!user|me\b|x\b)\w+/|/\.pyenv/|" + re.escape(bytes(ROOT)))
    registry = re.compile(rb"registry\.npmjs\.org|pypi\.org|files\.pythonhosted\.org|deb\.debian\.org|proxy\.golang\.org")
    for path in tracked():
        data = path.read_bytes()
        assert not (found := machine.search(data)), f"{path.relative_to(ROOT)}: {found.group()!r}"
        assert not (found := registry.search(data)), f"{path.relative_to(ROOT)}: {found.group()!r}"


GUARANTEE = """At most one send request is released by the page per operation id, across threads, processes, crashes and restarts that
share one state directory on a local file system with working flock and fsync, and not restored from a backup. Chrome's own network stack
may repeat that very request, with the same message id, when a connection dies before any answer; nothing above it can see that."""


def plain(text: str) -> str:
    return " ".join(re.sub(r"(?m)^\s*>|\*\*", " ", text).split())


@pytest.mark.parametrize("place", ["README.md", "--help", "flow/custody.py", "flow/sending.py"])
def test_the_guarantee_stands_word_for_word(place: str) -> None:
    if place == "--help":
        done = run(sys.executable, "-m", "gptbridge", "--help")
        assert done.returncode == 0
        text = done.stdout
    elif place == "README.md":
        text = (ROOT / place).read_text("utf-8")
        assert text.find("At most one send request") < 3000, "on the first screen"
    else:
        text = import_module("gptbridge." + place.removesuffix(".py").replace("/", ".")).__doc__ or ""
    assert plain(GUARANTEE) in plain(text)


def test_every_command_in_the_readme_is_one_that_exists() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("ask-gpt ")]
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        shell = [at for at, word in enumerate(words) if word in ("|", "&", "<", ">")]
        cli.parse(arguments.command_line(words[:shell[0]] if shell else words))
    targets = re.findall(r"(?m)^make ([a-z-]+)", "\n".join(blocks))
    assert targets and all(re.search(rf"(?m)^{target}:", (ROOT / "Makefile").read_text("utf-8")) for target in targets)


def test_reading_commands_load_no_browser_and_no_yaml() -> None:
    script = """
import sys
from gptbridge.shell import cli
for words in (["list"], ["list", "--search", "a"], ["ops"], ["--help"], ["help", "exits"], ["list", "--json"]):
    cli.main(words)
browser = ("selenium", "undetected_chromedriver", "websocket", "ruamel", "html_to_markdown")
heavy = [name for name in sys.modules if name.split(".")[0] in browser]
assert not heavy, heavy
"""
    done = run(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
