"""Which word is the command, and what durations, moments, ids and URLs mean."""

from __future__ import annotations

import datetime
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gptbridge.core.errors import Failure
from gptbridge.shell import arguments, requests
from gptbridge.shell.arguments import COMMANDS, command_line, decoded, duration, is_short_id, moment, scan, url_conversation
from gptbridge.shell.cli import parse, plain_list
from gptbridge.shell.terminal import line_text, log_text, whole_text

ID = "68c1d2e3-0000-8000-8000-000000000001"
OP = "01KB7X00000000000000000001"
IDS = st.text("0123456789abcdef", min_size=32, max_size=32).map(lambda h: f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}")


def slug(call, *args: object) -> str:
    with pytest.raises(Failure) as caught:
        call(*args)
    return caught.value.slug


@pytest.mark.parametrize(("line", "expected"), [
    ([], ["help"]),
    (["--help"], ["help"]),
    (["--json"], ["help", "--json"]),
    (["--version", "--json"], ["--version", "--json"]),
    (["list"], ["list"]),
    (["--json", "list", "5"], ["list", "--json", "5"]),
    (["--search", "list", "list", "0"], ["list", "--search", "list", "0"]),
    (["a prompt"], ["send", "a prompt"]),
    (["a\u00a0prompt"], ["send", "a\u00a0prompt"]),
    (["-"], ["send", "-"]),
    (["--json", "-"], ["send", "--json", "-"]),
    (["a prompt", "--wait", "5", "-q"], ["send", "a prompt", "--wait", "5", "-q"]),
    (["--wait", "5", "a prompt"], ["send", "--wait", "5", "a prompt"]),
    (["--", "- a list item"], ["send", "--", "- a list item"]),
    (["list 5"], ["send", "list 5"]),
    (["send", "list"], ["send", "list"]),
])
def test_the_command_comes_first(line: list[str], expected: list[str]) -> None:
    assert command_line(line) == expected


@pytest.mark.parametrize("line", [["lst"], ["Send", "hello you"], ["hello"], ["hello", "you"], ["hello you", "again"], [""], ["--", "list"],
                                  ["--wait", "5"], ["sned", "--", "x y"], ["-", "-"], ["hello", "--json"], ["serve"], ["sweeps"],
                                  ["doctors"]])
def test_a_word_that_may_be_a_mistyped_command_sends_nothing(line: list[str]) -> None:
    assert slug(command_line, line) == "usage"


def test_the_nearest_command_is_named() -> None:
    for word, near in {"lst": "list", "sned": "send", "resum": "resume", "opps": "ops", "zzzz": None}.items():
        with pytest.raises(Failure) as caught:
            command_line([word])
        assert any(f"ask-gpt {command}" in caught.value.hint for command in ([near] if near else COMMANDS))


def test_a_long_word_may_be_a_prompt_and_is_not_repeated() -> None:
    with pytest.raises(Failure) as caught:
        command_line(["secret" * 10])
    assert "secret" not in caught.value.message + caught.value.hint


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(string.ascii_letters + "- \n=", max_size=8)))
def test_any_line_is_scanned_and_nothing_is_lost(line: list[str]) -> None:
    scan(line)
    try:
        found = command_line(line)
    except Failure as failure:
        assert failure.slug == "usage"
        return
    assert found[0] in (*COMMANDS, "--version")
    if found[0] == "send" and "send" not in line:
        assert found[1:] == line


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from("smhd"))
def test_durations(number: int, unit: str) -> None:
    expected = number * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]
    if expected <= 36500 * 86400:
        assert duration(f"{number}{unit}", "--wait") == expected
    else:
        assert slug(duration, f"{number}{unit}", "--wait") == "usage"
    assert duration(str(number), "--wait") == number


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=6))
def test_any_other_text_is_no_duration(text: str) -> None:
    try:
        found = duration(text, "--wait")
    except Failure as failure:
        assert failure.slug == "usage"
        return
    assert found >= 0 and text.isascii() and text.rstrip("smhd").replace(".", "", 1).isdecimal()


@pytest.mark.parametrize("text", ["", "s", "-1", "+1", "1e3", "nan", "inf", "1 s", "1S", "1w", "٣", "1.", ".5", "9" * 40, "0x10", "1_000"])
def test_no_durations(text: str) -> None:
    assert slug(duration, text, "--wait") == "usage"


@settings(deadline=None, max_examples=60)
@given(st.datetimes(datetime.datetime(1970, 1, 2), datetime.datetime(2100, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_moments(at: datetime.datetime, minutes: int) -> None:
    zoned = at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=datetime.timezone(datetime.timedelta(minutes=minutes)))
    text = zoned.isoformat(timespec="milliseconds")
    assert moment(text, "--since", 0.0) == pytest.approx(zoned.timestamp(), abs=0.001)
    day = datetime.datetime(at.year, at.month, at.day, tzinfo=datetime.UTC)
    assert moment(at.strftime("%Y-%m-%d"), "--since", 0.0) == day.timestamp()


def test_moments_of_other_forms() -> None:
    assert moment("3d", "--since", 1e9) == 1e9 - 3 * 86400
    assert moment("2026-11-29t13:00:00z", "--since", 0) == moment("2026-11-29 13:00:00Z", "--since", 0)
    assert moment("2016-12-31T23:59:60Z", "--since", 0) == moment("2017-01-01T00:00:00Z", "--since", 0)
    for text in ("2026-13-01", "2026-02-30", "2026-11-29T25:00:00Z", "2026-11-29T13:00:00", "2026-11-29T13:00Z", "yesterday", "",
                 "2026-11-29T13:00:61Z", "2026-11-29T13:00:00+24:00", "٢٠٢٦-11-29"):
        assert slug(moment, text, "--since", 0.0) == "usage", text


@settings(deadline=None, max_examples=60)
@given(IDS, st.sampled_from(["", "/g/g-abc", "/g/g-p-0123-a-name", "/g/g-p-01/project"]),
       st.sampled_from(["", "/", "?model=x", "#m", "/?a"]))
def test_accepted_urls(found: str, below: str, end: str) -> None:
    """CL-05; any version nibble."""
    for host in ("https://chatgpt.com", "https://chat.openai.com", "HTTPS://ChatGPT.com"):
        assert url_conversation(f"{host}{below}/c/{found}{end}") == found
    assert url_conversation(f"http://127.0.0.1:8123{below}/c/{found}{end}") is None
    assert url_conversation(f"http://127.0.0.1:8123{below}/c/{found}{end}", ("http://127.0.0.1:8123/",)) == found


@pytest.mark.parametrize("text", [
    f"http://chatgpt.com/c/{ID}", f"https://chatgpt.com.evil.example/c/{ID}", f"https://evil.example/chatgpt.com/c/{ID}",
    f"https://user@chatgpt.com/c/{ID}", f"https://chatgpt.com:444/c/{ID}", f"https://chatgpt.com/share/{ID}", f"https://www.chatgpt.com/c/{ID}",
    "https://chatgpt.com/c/WEB:68c1d2e3-0000-8000-8000-000000000001", f"https://chatgpt.com/c/{ID.upper()}", f"https://chatgpt.com/c/{ID}x",
    f"https://chatgpt.com/c/{ID[:-1]}", f"https://chatgpt.com//c/{ID}", f"https://chatgpt.com/g/../c/{ID}/x", f"https://chatgpt.comx/c/{ID}",
    f"https://chatgpt.com\\@evil.example/c/{ID}", f"javascript://chatgpt.com/c/{ID}", f" https://chatgpt.com/c/{ID}", "https://chatgpt.com/"])
def test_refused_urls(text: str) -> None:
    """CL-05."""
    assert url_conversation(text, ("http://127.0.0.1:1",)) is None


@settings(deadline=None, max_examples=60)
@given(IDS, st.integers(0, 36))
def test_beginnings_of_ids(found: str, length: int) -> None:
    assert is_short_id(found[:length]) == (length >= 8)
    assert not is_short_id(found[:length].upper()) or found[:length].isdigit() or found[:length] == found[:length].upper()


@pytest.mark.parametrize("text", ["", "68c1d2e", "68c1d2e34", "68c1d2e3--", "68c1d2e3-0-", "g8c1d2e3", ID + "0",
                                  "68c1d2e3-0000-8000-8000-0_"])
def test_no_beginnings_of_ids(text: str) -> None:
    assert not is_short_id(text)


def test_bytes_that_are_no_text_are_refused() -> None:
    assert decoded(["grüße", "日本", ""]) == ["grüße", "日本", ""]
    assert slug(decoded, ["send", "\udcff"]) == "bad-input"
    assert slug(decoded, ["send", "\ud800"]) == "bad-input"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["--json", "-q", "--quiet", "0", "7", "20", "-5", "x", "--search", "--export", "٣", "007", "1.0"]),
                max_size=3))
def test_the_quick_way_for_list_agrees_with_the_parser(words: list[str]) -> None:
    from gptbridge.shell import grammar

    quick = plain_list(["list", *words])
    if quick is not None:
        assert quick == grammar.parse(["list", *words])


@pytest.mark.parametrize("line", [
    ["send", "x", "--operation-id", "01ABC"], ["send", "x", "--operation-id", "01kb7x00000000000000000001"],
    ["send", "x", "--wait", "soon"], ["send", "x", "--queue-wait", "-1"], ["resume"], ["resume", "--wait", "5"], ["list", "x"],
    ["list", "-5"], ["list", "1", "2"],
    ["list", "--since", "soon"], ["show"], ["show", ID, "--turn", "0"], ["show", ID, "--turn", "x"], ["show", ID, "--answer", "--prompt"],
    ["show", ID, "more"], ["ops", "stop", "x"], ["ops", "resolve", "x"], ["ops", "accept-loss"], ["ops", "show"], ["ops", "show", "short"],
    ["ops", "stop"], ["ops", "stop", OP, "--conversation", ID], ["ops", "stop", OP, "--because", "x"],
    ["ops", "accept-loss", "--because", " "],
    ["ops", "accept-loss", OP, "--because", "x"], ["ops", "accept-loss", "--because", "x" * 1001], ["ops", "resolve", OP, "--sent"],
    ["ops", "resolve", OP, "--because", "x"], ["ops", "resolve", OP, "--sent", "--not-sent", "--because", "x"],
    ["ops", "resolve", OP, "--not-sent", "--conversation", ID, "--because", "x"], ["ops", "resolve", "--sent", "--because", "x"],
    ["ops", "list", "--sent"], ["sweep", "x"], ["sweep", "--stale-after", "soon"], ["sweep", "--print-unit", "atd"],
    ["bootstrap-registry", "a prompt"], ["bootstrap-registry", "--conversation"], ["bootstrap-registry", "--again"],
    ["ops", "list", "x"], ["ops", "--state", "lost"], ["ops", "--limit", "0"], ["ops", "list", "--prompt"],
    ["ops", "show", "01KB7X00000000000000000001", "--limit", "3"], ["practice", "--port", "70000"], ["practice", "x"], ["login", "x"],
    ["list", "--bogus"], ["list", "--search"], ["list", "--js"], ["list", "--json=1"], ["help", "a", "b"]])
def test_wrong_lines(line: list[str]) -> None:
    assert slug(parse, line) == "usage"


@pytest.mark.parametrize("line", [
    ["send", "look", "-f", "a.md", "--file", "-", "--stdin-name", "n"], ["send", "-f", "a.md", "look", "--stdin-name", "n", "-f", "-"],
    ["send", "--file=a.md", "-f", "-", "--stdin-name=n", "--", "look"]])
def test_files_stand_anywhere(line: list[str]) -> None:
    found = parse(arguments.command_line(line))
    assert isinstance(found, requests.Send) and (found.words, found.files, found.stdin_name) == (("look",), ("a.md", "-"), "n")


def test_a_files_name_is_no_prompt_and_no_command() -> None:
    assert arguments.command_line(["-f", "my notes.md", "two words"])[0] == "send"
    assert slug(arguments.command_line, ["-f", "my notes.md"]) == "usage"


@pytest.mark.parametrize("command", ["send", "resume"])
def test_model_and_effort_are_words_of_the_site(command: str) -> None:
    found = parse([command, "12345678", "x", "--model", "GPT-5-5-Pro", "--effort", ""])
    assert isinstance(found, requests.Send | requests.Resume) and (found.model, found.effort) == ("gpt-5-5-pro", "")
    for wrong in ("5.5 Pro", "-x", "a/b", "\x1b[31m", "x" * 65, "\u00e9"):
        for option in ("--model", "--effort"):
            assert slug(parse, [command, "12345678", "x", f"{option}={wrong}"]) == "usage"


@settings(deadline=None, max_examples=60)
@given(st.text())
def test_nothing_hidden_reaches_a_terminal(text: str) -> None:
    for shown in (line_text(text, True), whole_text(text, True).decode(), log_text(text.encode("utf-8", "replace"), True).decode()):
        assert not any(c in shown for c in "\x1b\x9b\r\b\x00\x7f\u202e\u2028") and "\x07" not in shown
    assert len(f"{line_text(text, False)}\n".splitlines()) == 1 and "\t" not in line_text(text, False)
    assert whole_text(text, False) == (text + ("" if text.endswith("\n") else "\n")).encode("utf-8", "surrogatepass")


def test_a_log_keeps_its_own_escapes_on_a_terminal() -> None:
    assert log_text("> a␛1B;[31m\n".encode(), True) == "> a␛1B;[31m\n".encode()
    assert log_text(b"> a\x1b[31m\xff\n", True) == "> a␛1B;[31m\ufffd\n".encode()


def test_commands_of_the_scan_and_of_the_parser_are_the_same() -> None:
    from gptbridge.shell import grammar

    taking: set[str] = set()
    for name in COMMANDS:
        command = grammar.typer.main.get_command(grammar.app).commands[name]  # type: ignore[attr-defined]
        taking |= {o for p in command.params if p.param_type_name == "option" and not p.is_flag for o in p.opts}
    assert taking == set(arguments.VALUED)
