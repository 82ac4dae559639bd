"""Payload, fingerprint and the age fence of operation ids (AD-02, AD-05 .. AD-15, AD-31 .. AD-34)."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.errors import Failure
from gptbridge.core.operation import (
    AHEAD_S,
    KEEP_S,
    File,
    Payload,
    check_id,
    draft_digest,
    is_conversation_id,
    is_expired,
    is_operation_id,
    normalised,
    time_of,
)

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
NOW = 1_796_000_000.25
CONVERSATION = "68c1d2e3-0000-8000-8000-000000000001"


def ulid(at: float, tail: str = "0" * 16) -> str:
    ms, text = round(at * 1000), ""
    for _ in range(10):
        text, ms = ALPHABET[ms % 32] + text, ms // 32
    return text + tail


texts = st.text(st.characters(), max_size=60)
files = st.lists(st.builds(File, st.just("a.md"), st.just(3), st.sampled_from(["0" * 64, "1" * 64])), max_size=2).map(tuple)
payloads = st.builds(Payload, prompt=st.none() | texts, target=st.sampled_from(["new", CONVERSATION]), effort=st.none() | st.just("high"),
                     model=st.none() | st.just("gpt-5-5"), files=files)


@given(payloads, payloads)
def test_the_fingerprint_is_the_same_exactly_for_the_same_request(one: Payload, other: Payload) -> None:
    assert (one.fingerprint() == other.fingerprint()) == (one == other)
    assert len(one.fingerprint()) == 64 and set(one.fingerprint()) <= set(string.hexdigits.lower())


PLAIN = Payload("Hello")


@pytest.mark.parametrize("other", [
    replace(PLAIN, prompt="Hello "), replace(PLAIN, prompt=""), replace(PLAIN, prompt=None), replace(PLAIN, target=CONVERSATION),
    replace(PLAIN, effort="high"), replace(PLAIN, model="gpt-5-5"), replace(PLAIN, files=(File("a", 1, "0" * 64),))])
def test_every_field_of_the_request_is_in_the_fingerprint(other: Payload) -> None:
    assert other.fingerprint() != PLAIN.fingerprint()


def test_other_bytes_under_one_file_name_are_another_request() -> None:
    """AD-09."""
    one, other = (replace(PLAIN, files=(File("a.md", 3, digest * 64),)) for digest in "01")
    assert one.fingerprint() != other.fingerprint()


def test_empty_text_and_no_text_are_distinct() -> None:
    assert Payload("").prompt_sha256 != Payload(None).prompt_sha256 and Payload(None).prompt_sha256 is None


def test_the_kind_follows_the_target() -> None:
    assert Payload("x").kind == "new" and Payload("x", CONVERSATION).kind == "resume"


def test_known_fingerprint_of_version_1() -> None:
    """A change of this value would make every retry after an update a conflict."""
    assert PLAIN.fingerprint() == "e944ed63b8df99fadc013620aac8266364561d74ef2a1a3e221da4a837439947"


@given(st.text(st.characters(), max_size=80))
def test_every_text_has_a_digest_by_which_a_draft_is_known(text: str) -> None:
    assert draft_digest(text) == Payload(text).prompt_sha256


@given(st.text(st.sampled_from("a\r\n\t "), max_size=12))
def test_line_ends_become_line_feeds_and_nothing_else_changes(text: str) -> None:
    out = normalised(text)
    assert "\r" not in out and out.replace("\n", "") == text.replace("\r", "").replace("\n", "")
    assert normalised(out) == out


@pytest.mark.parametrize(("given_", "wanted"), [("a\r\nb\rc\n", "a\nb\nc"), ("a\n\n", "a\n"), ("\n", ""), ("a", "a"), (" a ", " a ")])
def test_of_standard_input_one_final_line_feed_is_dropped(given_: str, wanted: str) -> None:
    assert normalised(given_, drop_final_newline=True) == wanted


@pytest.mark.parametrize(("text", "fits"), [
    (ulid(NOW), True), ("7" + "Z" * 25, True), ("8" + "0" * 25, False), (ulid(NOW).lower(), False), (ulid(NOW)[:-1], False),
    (ulid(NOW) + "0", False), (ulid(NOW)[:-1] + "I", False), (ulid(NOW)[:-1] + "U", False), (ulid(NOW) + "\n", False), ("", False)])
def test_only_canonical_ids(text: str, fits: bool) -> None:
    assert is_operation_id(text) is fits
    if not fits:
        with pytest.raises(Failure) as why:
            check_id(text, NOW)
        assert why.value.slug == "usage"


@pytest.mark.parametrize(("text", "fits"), [(CONVERSATION, True), (CONVERSATION.upper(), False), ("WEB:" + CONVERSATION, False),
                                            (CONVERSATION[:-1], False), (CONVERSATION.replace("-", ""), False)])
def test_conversation_ids(text: str, fits: bool) -> None:
    assert is_conversation_id(text) is fits


@given(st.integers(0, 2**48 - 1))
def test_the_time_of_an_id_is_that_of_its_first_48_bits(ms: int) -> None:
    assert time_of(ulid(ms / 1000)) == ms / 1000


def test_exactly_five_minutes_ahead_is_allowed_and_one_millisecond_more_is_not() -> None:
    """AD-32, AD-33."""
    check_id(ulid(NOW + AHEAD_S), NOW)
    with pytest.raises(Failure) as why:
        check_id(ulid(NOW + AHEAD_S + 0.001), NOW)
    assert why.value.slug == "usage" and "ahead" in why.value.message


def test_exactly_seven_days_old_is_allowed_and_one_millisecond_more_is_expired() -> None:
    """AD-31, AD-33."""
    assert not is_expired(ulid(NOW - KEEP_S), NOW, 0.0)
    assert is_expired(ulid(NOW - KEEP_S - 0.001), NOW, 0.0)


def test_at_the_floor_is_expired_and_above_it_is_not() -> None:
    """RE-05."""
    floor = NOW - 100.0
    assert is_expired(ulid(floor), NOW, floor)
    assert is_expired(ulid(floor - 0.001), NOW, floor)
    assert not is_expired(ulid(floor + 0.001), NOW, floor)


@given(st.integers(-10**9, 10**9), st.integers(0, 10**9))
def test_no_step_of_the_clock_makes_a_pruned_id_executable(step: int, age: int) -> None:
    """RE-07: whatever the clock says, at or below the floor is expired."""
    pruned = NOW - age / 1000
    assert is_expired(ulid(pruned), NOW + step, pruned)
