"""Frames: cut anywhere they come out whole, and garbage ends one connection only."""

from __future__ import annotations

import random

import pytest

from holdfast.clusters.systems.reference.consensus.messages import (
    Append,
    Appended,
    AskVote,
    Entry,
    GiveVote,
    Install,
    Message,
    Snapshot,
    pack,
    unpack,
)
from holdfast.clusters.systems.reference.service.request_validation import command
from holdfast.clusters.systems.reference.wire.frames import (
    MAX_FRAME,
    BadFrame,
    Decoder,
    encode,
    endpoint,
)

MESSAGES: list[Message] = [
    AskVote(sender="n1", term=3, pre=True, last_index=4, last_term=2),
    GiveVote(sender="n1", term=3, pre=False, given=True),
    Append(
        sender="n1",
        term=3,
        prev_index=1,
        prev_term=1,
        entries=(Entry(term=3, command=None), Entry(term=3, command={"op": "x"})),
        commit=1,
    ),
    Appended(sender="n1", term=3, ok=False, index=9),
    Install(sender="n1", term=3, snapshot=Snapshot(index=7, term=2, state={"a": []})),
]


def test_frames_come_out_whole_however_the_stream_is_cut() -> None:
    rng = random.Random(1)
    frames = [{"n": n, "text": "x" * rng.randrange(300)} for n in range(60)]
    stream = b"".join(map(encode, frames))
    for _ in range(40):
        decoder, found, at = Decoder(), [], 0
        while at < len(stream):
            size = rng.randrange(1, 500)
            found += decoder.feed(stream[at : at + size])
            at += size
        assert found == frames
        assert decoder.half() == 0


@pytest.mark.parametrize(
    ("bytes_", "why"),
    [
        ((MAX_FRAME + 1).to_bytes(4, "big"), "over the limit"),
        (b"GET / HTTP/1.1\r\n\r\n", "over the limit"),
        (b"\0\0\0\2[]", "an object was expected"),
        (b"\0\0\0\3{a}", "not JSON"),
        (b"\0\0\0\1\xff", "not JSON"),
        ((200_000).to_bytes(4, "big") + b"[" * 200_000, "not JSON"),
    ],
)
def test_what_is_no_frame_is_refused_with_a_reason(bytes_: bytes, why: str) -> None:
    with pytest.raises(BadFrame, match=why):
        Decoder().feed(bytes_)


def test_random_bytes_are_refused_or_waited_for_and_nothing_else() -> None:
    rng = random.Random(2)
    refused = 0
    for _ in range(2000):
        data = bytes([0, 0, 0, rng.randrange(40)]) + rng.randbytes(rng.randrange(60))
        try:
            assert all(isinstance(frame, dict) for frame in Decoder().feed(data))
        except BadFrame:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_survives_the_wire(message: Message) -> None:
    (frame,) = Decoder().feed(encode(pack(message)))
    assert unpack(frame) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_with_a_field_missing_or_wrong_is_refused(message: Message) -> None:
    whole = pack(message)
    for name in whole:
        for wrong in (None, [[1]], {"x": 1}, 1.5):
            with pytest.raises(ValueError, match=r"message|is|are"):
                unpack({**whole, name: wrong})


def test_a_request_is_checked_field_by_field() -> None:
    good = {"op": "force", "lock": "a", "token": -1}
    assert command({**good, "id": 7, "more": 1}) == (good, "")
    for wrong in ({"op": "x"}, {"op": ["x"]}, {}, {**good, "lock": ""}, {**good, "token": True}):
        assert command(wrong)[0] == {}
        assert command(wrong)[1]


def test_an_address_may_carry_its_port() -> None:
    assert endpoint("10.0.0.1") == ("10.0.0.1", 7400)
    assert endpoint("10.0.0.1:80") == ("10.0.0.1", 80)
