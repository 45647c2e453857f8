"""A client's session with the cluster: finds the leader, and retries until it responds.

A request keeps its number in retries, so that the service applies it at most once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from holdfast.clusters.systems.reference.client.connection import Link, NoAnswer, NotSent
from holdfast.clusters.systems.reference.wire.frames import Frame

TRY_S = 1.0
"""A server that does not respond for this time is replaced by another one."""
BLAME = 0.9
"""A call with at least this share of TRY_S blames the server for its silence. Less than all of it:
a call with exactly TRY_S at its beginning has a little less when it sends."""
BACKOFF_S = 0.02
LONGEST_BACKOFF_S = 0.2

UNANSWERED: Frame = {"is": "unanswered"}
"""It may have taken effect, or may still."""
NEVER_SENT: Frame = {"is": "never-sent"}
"""No server that could have acted on it has received it."""


class Talk:
    """One client and its session. Times `until_s` are on the clock of the running loop.

    on_event receives the service's notifications; on_lost is called with a session that the service
    no longer knows, before another one is opened.
    """

    def __init__(
        self,
        *,
        servers: Sequence[tuple[str, str]],
        rng: random.Random,
        session_ns: int,
        on_event: Callable[[Frame], None],
        on_lost: Callable[[int], None],
    ) -> None:
        self._on_lost = on_lost
        self._servers = list(servers)
        self._rng = rng
        self._session_ns = session_ns
        # A client that is redirected between servers soon returns: connections stay open.
        self._links = [Link(on_event) for _ in servers]
        self._connecting = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._at = rng.randrange(len(self._servers))
        self._session = 0
        self._seq = 0
        self._open_seqs: dict[int, int] = {}
        self.time: Callable[[], float] = self._find_clock
        """the clock of the running loop, the same for a client's whole life"""

    def _find_clock(self) -> float:
        self.time = asyncio.get_running_loop().time
        return self.time()

    def begin(self) -> int:
        """The number of a new request; call `finish` once it will never be retried."""
        self._seq += 1
        self._open_seqs[self._seq] = 0
        return self._seq

    def finish(self, seq: int) -> None:
        """Lets the service forget the request, and end it if it still waits."""
        self._open_seqs.pop(seq, None)

    def sent_in(self, seq: int) -> int:
        """The session that an open request was sent in, 0 for none."""
        return self._open_seqs.get(seq, 0)

    async def once(
        self, op: str, *, seq: int, until_s: float, about: int = 0, **fields: object
    ) -> Frame:
        """The response to a numbered request, or UNANSWERED or NEVER_SENT on timeout.

        about: another request, known only in the session that it was sent in."""
        sent_in = self.sent_in(about or seq)
        for turn in range(1 << 30):
            session = 0
            try:
                session = self._session or await self._in_session(until_s)
                if sent_in and session != sent_in:
                    # Only the session that it was sent in would recognize it.
                    return UNANSWERED
                self._sent(seq, session)
                answer = await self._ask(self._numbered(op, session, seq, fields), until_s)
            except NotSent:
                self._sent(seq, sent_in)
            except NoAnswer:
                sent_in = session
            else:
                match answer["is"]:
                    case "not-leader":
                        pass
                    case "deposed":
                        sent_in = session
                    case "no-session":
                        self._forget(session)
                        if sent_in:
                            return UNANSWERED
                    case _:
                        return answer
            if not await self._pause(turn, until_s):
                break
        return UNANSWERED if sent_in else NEVER_SENT

    def _sent(self, seq: int, session: int) -> None:
        """Records the session that an open request was sent in."""
        if seq in self._open_seqs:
            self._open_seqs[seq] = session

    async def plain(self, op: str, *, until_s: float, **fields: object) -> Frame:
        """The response to an idempotent request, or UNANSWERED."""
        for turn in range(1 << 30):
            try:
                answer = await self._ask({"op": op, **fields}, until_s)
                if answer["is"] not in ("not-leader", "deposed"):
                    return answer
            except (NotSent, NoAnswer):
                pass
            if not await self._pause(turn, until_s):
                break
        return UNANSWERED

    async def post(self, op: str, *, seq: int, **fields: object) -> None:
        """Sends a numbered request once, if connected, without waiting for a response."""
        try:
            question = self._numbered(op, self._session, seq, fields)
            await self._links[self._at].ask(question, within_s=TRY_S)
        except (NotSent, NoAnswer):
            return

    async def session(self, until_s: float) -> int:
        """The number of the client's session, 0 if none could be opened in time."""
        for turn in range(1 << 30):
            try:
                return self._session or await self._in_session(until_s)
            except (NotSent, NoAnswer):
                if not await self._pause(turn, until_s):
                    break
        return 0

    def lost_session(self, session: int) -> None:
        """The service no longer knows that session; the next request opens a new one."""
        self._forget(session)

    def close(self) -> None:
        """Closes the connections."""
        for link in self._links:
            link.close("closed")

    def _numbered(
        self, op: str, session: int, seq: int, fields: dict[str, object]
    ) -> dict[str, object]:
        done = min(self._open_seqs, default=self._seq + 1)
        return {"op": op, "session": session, "seq": seq, "done": done, **fields}

    async def _in_session(self, until_s: float) -> int:
        try:
            async with asyncio.timeout_at(until_s), self._opening:
                if not self._session:
                    opening = {"op": "open", "ttl_ns": self._session_ns}
                    try:
                        answer = await self._ask(opening, until_s)
                    except NoAnswer as error:
                        raise NotSent(str(error)) from None
                    if answer["is"] != "opened":
                        raise NotSent(f"no session: {answer['is']}")
                    self._session = answer["session"]
                return self._session
        except TimeoutError:
            raise NotSent("no session in time") from None

    def _forget(self, session: int) -> None:
        if session == self._session:
            self._session = 0
            self._on_lost(session)

    async def _ask(self, question: dict[str, object], until_s: float) -> Frame:
        if not self._links[self._at].open:
            await self._connect(until_s)
        at = self._at
        try:
            left_s = until_s - self.time()
            answer = await self._links[at].ask(question, max(0.001, min(TRY_S, left_s)))
        except (NotSent, NoAnswer) as error:
            # A call with a short deadline does not blame the server.
            if self._at == at and (isinstance(error, NotSent) or left_s >= BLAME * TRY_S):
                self._links[at].close(str(error))
                self._leave(None)
            raise
        if answer["is"] == "not-leader" and self._at == at:
            self._leave(answer.get("leader"))
        return answer

    async def _connect(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(until_s), self._connecting:
                at = self._at
                if self._links[at].open:
                    return
                try:
                    await self._links[at].connect(self._servers[at][1], until_s - loop.time())
                except NotSent:
                    if self._at == at:
                        self._leave(None)
                    raise
        except TimeoutError:
            raise NotSent("no connection in time") from None

    def _leave(self, leader: str | None) -> None:
        """Switches to the named leader, else to the next server."""
        names = [name for name, _ in self._servers]
        if leader in names:
            self._at = names.index(leader)
        else:
            self._at = (self._at + 1) % len(self._servers)

    async def _pause(self, turn: int, until_s: float) -> bool:
        """Waits before the next try; False if there is no time for one."""
        left_s = until_s - self.time()
        if left_s <= 0:
            return False
        longest_s = min(LONGEST_BACKOFF_S, BACKOFF_S * 2 ** min(turn, 8))
        await asyncio.sleep(min(left_s, longest_s * self._rng.uniform(0.5, 1)))
        return True
