"""Framing: what is whole reads back exactly, and whatever was done to an acknowledged record shows."""

from __future__ import annotations

import json
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptbridge.core.record import SEAL, BadLine, Record, Scan, decode, encode, scan, whole_lines

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=40)
KEYS = st.text(max_size=12).filter(lambda key: key not in ("seq", "sum"))
FIELDS = st.dictionaries(KEYS, SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(KEYS, SCALARS, max_size=3), max_size=6)


def lines(first: int, last: int) -> list[bytes]:
    return [encode(n, {"operation_id": f"01JDX3V{n:04}", "state": "claimed", "n": n}) for n in range(first, last + 1)]


def whats(found: Scan) -> list[str]:
    return [damage.what for damage in found.damage]


@given(st.integers(1, 10**15), FIELDS)
def test_a_record_comes_back_exactly(seq: int, fields: dict) -> None:
    line = encode(seq, fields)
    assert line.isascii() and line.endswith(b"\n") and line.count(b"\n") == 1 and b"\0" not in line
    assert decode(line) == (seq, fields) == decode(line[:-1])
    assert json.loads(line) == {"seq": seq, "sum": json.loads(line)["sum"], **fields}


@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    found = scan(data)
    assert found.size == len(data)
    whole_lines(data, whole=False)


def test_the_sum_covers_every_byte_but_its_own() -> None:
    line = encode(7, {"a": "x"})
    assert line == b'{"seq":7,"sum":"%08x","a":"x"}\n' % zlib.crc32(b'{"seq":7,"sum":"","a":"x"}')
    for at in range(len(line) - 1):
        with pytest.raises(BadLine):
            decode(line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :])


def signed(text: str) -> bytes:
    before, behind = text.encode().split(b"SUM")
    return before + b"%08x" % zlib.crc32(behind, zlib.crc32(before)) + behind


@pytest.mark.parametrize(
    "text",
    [
        '{"seq":1,"sum":"SUM","a":NaN}',
        '{"seq":1,"sum":"SUM","a":Infinity}',
        '{"seq":1,"sum":"SUM","a":1e999}',
        '{"seq":1,"sum":"SUM","a":1,"a":2}',
        '{"seq":1,"sum":"SUM","a":{"b":1,"b":1}}',
        '{"seq":1,"sum":"SUM","seq":2}',
        '{"seq":01,"sum":"SUM","a":1}',
        '{"seq":0,"sum":"SUM","a":1}',
        '{"seq":-1,"sum":"SUM","a":1}',
        '{"seq":1,"sum":"SUM","a":1} ',
        '{"seq":1, "sum":"SUM","a":1}',
        '{"sum":"SUM","seq":1,"a":1}',
        '{"seq":1,"sum":"SUM","a":"\t"}',
        '{"seq":1,"sum":"SUM","a":"ü"}',
        '{"seq":1,"sum":"SUM","a":' + "[" * 200_000 + "]" * 200_000 + "}",
        '{"seq":1,"sum":"SUM","a":' + "9" * 5000 + "}",
        '{"seq":1,"sum":"SUM"a":1}',
        '{"seq":1,"sum":"SUM",}',
        "[]SUM",
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_record_of_ours_is_refused_even_with_a_right_checksum(text: str) -> None:
    with pytest.raises(BadLine):
        decode(signed(text))


@pytest.mark.parametrize("fields", [{"seq": 1}, {"sum": ""}, {"a": float("nan")}, {"a": float("inf")}])
def test_what_cannot_come_back_is_not_written(fields: dict) -> None:
    with pytest.raises(ValueError):
        encode(1, fields)


def test_a_whole_file() -> None:
    data = b"".join(lines(1, 5))
    found = scan(data)
    assert [record.seq for record in found.records] == [1, 2, 3, 4, 5]
    assert (found.next_seq, found.torn, found.damage, found.clean_size) == (6, False, (), len(data))
    assert [data[r.offset :].partition(b"\n")[0] + b"\n" for r in found.records] == lines(1, 5)
    assert next(found.pairs()) == (1, found.records[0].fields)
    assert scan(b"") == Scan()


def test_a_torn_end_is_no_damage_at_any_byte_and_sealed_it_stays_harmless() -> None:
    head, line = b"".join(lines(1, 3)), lines(4, 4)[0]
    for cut in range(1, len(line)):
        for torn in (line[:cut], line[:cut] + bytes(len(line) - cut), bytes(cut), line[:cut] + SEAL[:3]):
            found = scan(head + torn)
            assert (found.torn_size, found.next_seq, found.damage) == (len(torn), 4, ())
            after = scan(head + torn + SEAL + line + encode(5, {}))
            assert (whats(after), after.next_seq, after.torn) == ([], 6, False)
    assert scan(SEAL + b"".join(lines(1, 2))).damage == ()


def test_a_whole_record_that_ran_into_another_line_is_never_taken_for_torn() -> None:
    head, (last,) = b"".join(lines(1, 3)), lines(4, 4)
    assert whats(scan(head + last[:-1] + b'{"seq":5,"s' + SEAL)) == ["a record without its line end"]
    assert whats(scan(head + last[:-1] + b"X")) == ["a record without its line end"]


def test_base_lets_the_numbers_of_a_rewritten_file_go_on() -> None:
    first = encode(101, {"format": "x", "base": 101})
    found = scan(first + b"".join(lines(102, 104)))
    assert (found.damage, found.next_seq) == ((), 105)
    assert scan(first).next_seq == 102
    assert scan(encode(1, {"base": 100}) + lines(101, 101)[0]).damage == ()
    assert whats(scan(first + lines(103, 103)[0])) == ["records 102 to 102 are missing"]
    assert whats(scan(lines(102, 102)[0])) == ["records 1 to 101 are missing"]
    assert whats(scan(lines(1, 1)[0] + encode(9, {"base": 9}))) == ["records 2 to 8 are missing"]  # only the first record's counts


def test_damage_names_line_and_offset_and_what_follows_is_still_read() -> None:
    rows = lines(1, 6)
    flipped = [*rows[:2], rows[2].replace(b"claimed", b"rejectd"), *rows[3:]]
    found = scan(b"".join(flipped))
    assert [tuple(d) for d in found.damage] == [(3, len(rows[0] + rows[1]), "a wrong checksum")]
    assert ([r.seq for r in found.records], found.next_seq) == ([1, 2, 4, 5, 6], 7)
    assert whats(scan(b"".join(rows[:2] + rows[4:]))) == ["records 3 to 4 are missing"]
    assert whats(scan(b"".join([*rows[:3], rows[2], *rows[3:]]))) == ["record 3 out of its place"]
    swapped = scan(b"".join([rows[0], rows[2], rows[1], *rows[3:]]))
    assert whats(swapped) == ["records 2 to 2 are missing", "record 2 out of its place"]
    assert sorted(r.seq for r in swapped.records) == [1, 2, 3, 4, 5, 6]
    zeroed = scan(rows[0] + bytes(len(rows[1]) - 1) + b"\n" + rows[2])
    assert (whats(zeroed), zeroed.next_seq) == (["NUL bytes"], 4)
    assert whats(scan(rows[0] + b"\n" + rows[1])) == ["no record"]


def test_the_number_of_a_lost_last_record_is_not_given_again() -> None:
    rows = lines(1, 3)
    found = scan(rows[0] + rows[1] + rows[2].replace(b"claimed", b"rejectd"))
    assert found.next_seq == 4
    assert whats(scan(b"".join([rows[0], rows[1], b"junk\n", *lines(4, 5)]))) == ["no record"]
    assert whats(scan(b"".join([rows[0], rows[1], b"junk\n", *lines(5, 5)]))) == ["no record", "records 4 to 4 are missing"]


def hurt(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    kind = rng.choice(["flip", "delete", "insert", "duplicate", "swap", "zero"])
    at = rng.randrange(len(data))
    size = rng.choice([1, 1, 2, 7, 64, 300])
    rows = data.splitlines(keepends=True)
    one, two = sorted(rng.sample(range(len(rows)), 2))
    if kind == "flip":
        return kind, data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == "delete":
        return kind, b"".join(rows[:one] + rows[two:]) if rng.random() < 0.3 else data[:at] + data[at + size :]
    if kind == "insert":
        return kind, data[:at] + rng.choice([rng.randbytes(size), b"\n", b"x" * size]) + data[at:]
    if kind == "duplicate":
        rows.insert(rng.randrange(len(rows) + 1), rows[one])
        return kind, b"".join(rows)
    if kind == "swap":
        rows[one], rows[two] = rows[two], rows[one]
        return kind, b"".join(rows)
    return kind, data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]


def test_no_damage_is_silent() -> None:
    rng = random.Random(20261129)
    body = lines(51, 80)
    body.insert(9, body[9][:30] + SEAL)
    body.insert(20, bytes(40) + SEAL)
    data = encode(50, {"format": "x", "base": 50}) + b"".join(body)
    whole = scan(data)
    assert not whole.damage and len(whole.records) == 31
    content = [(r.seq, r.fields) for r in whole.records]
    mark, unmarked = whole.next_seq - 1, 0
    for _ in range(2000):
        kind, bad = hurt(data, rng)
        found = scan(bad)
        same = [(r.seq, r.fields) for r in found.records] == content
        seen = bool(found.damage) or found.torn
        unmarked += not (same or seen)
        assert same or seen or found.next_seq - 1 < mark, kind
        assert {(r.seq, repr(r.fields)) for r in found.records} <= {(seq, repr(fields)) for seq, fields in content}, kind
        if kind == "flip":
            assert len(found.records) >= 29  # a flipped line end costs two records, never what follows
    assert unmarked < 100  # only tails cut at a line's end, which the number in the stamp shows


def test_reading_on_gives_what_reading_anew_gives() -> None:
    rng = random.Random(7)
    data = b"".join([*lines(1, 4), b"torn" + SEAL, *lines(5, 6), b"junk\n", *lines(8, 9), lines(9, 9)[0], *lines(12, 12), b'{"seq'])
    for _ in range(200):
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(3))
        found = scan(data[: cuts[0]])
        for cut in (*cuts[1:], len(data)):
            found = scan(data[found.clean_size : cut], after=found)
        assert found == scan(data)


@pytest.mark.parametrize("width", [1, 30, 90, 200, 5000])
def test_reading_backwards(width: int) -> None:
    rows = lines(1, 12)
    data = b"".join(rows) + b'{"seq":13,"to'
    end, size, found = len(data), width, []
    while end:
        begin = max(0, end - size)
        start, stop = whole_lines(data[begin:end], whole=begin == 0)
        found += data[begin + start:begin + stop].split(b"\n")[-2::-1]
        if start < stop or begin == 0:
            end = begin + start
        else:
            size *= 2
    assert found == [row[:-1] for row in reversed(rows)]
    assert Record(*decode(found[0]), 0).seq == 12
