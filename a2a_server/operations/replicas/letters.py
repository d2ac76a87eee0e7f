"""Questions to other sessions, and answers to theirs, as sealed letters in the store (spec: SCAL-01, SCAL-02).

A letter is picked up when a wake-up says so, and otherwise when somebody looks, a few times per second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from uuid import uuid4

import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from a2a_server.operations.replicas.session import Session
from a2a_server.ports.records import Entry
from a2a_server.ports.replicas import Letter, Replicas
from a2a_server.ports.store import StoreUnavailable
from a2a_server.ports.wakeups import Wakeups

logger = structlog.get_logger()

LOOK = 0.25
"""Seconds between two looks, for the case that a wake-up was lost."""
_AT_ONCE = 100
"""Letters that are collected, and then answered, together."""
_KEY, _NONCE = 32, 12

Answer = Callable[[bytes], Awaitable[bytes]]
"""Answers a question. It must not raise."""


class Letters:
    """Asks other sessions, and has their questions answered."""

    def __init__(self, replicas: Replicas, wakeups: Wakeups, session: Session, answer: Answer) -> None:
        self._replicas = replicas
        self._wakeups = wakeups
        self._session = session
        self._answer = answer
        self._open: dict[str, asyncio.Future[bytes]] = {}
        self._arrived = asyncio.Event()
        self._listening = ""
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._spawn(self._collect())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listen("")

    async def ask(self, session: str, question: bytes) -> Question:
        """Send a question. Whoever asks closes it."""
        asked = Question(self._open, uuid4().hex)
        try:
            await self._post(session, asked.id, b"?" + bytes.fromhex(self._session.id) + question)
        except BaseException:
            asked.close()
            raise
        return asked

    async def _post(self, session: str, letter_id: str, text: bytes) -> None:
        await self._replicas.post(Letter(session, letter_id, seal(session, letter_id, text)))
        self._wakeups.tell(topic_of(session), 0, ())

    # -- what arrives

    def woken(self, number: int, entries: Sequence[Entry]) -> None:
        """There is a letter."""
        del number, entries
        self._arrived.set()

    def _listen(self, session: str) -> None:
        if session != self._listening:
            if self._listening:
                self._wakeups.forget(topic_of(self._listening), self)
            if session:
                self._wakeups.listen(topic_of(session), self)
                self._wakeups.ask_others(topic_of(session), self)
            self._listening = session

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _collect(self) -> None:
        while True:
            self._listen(self._session.id)
            self._arrived.clear()
            letters: Sequence[Letter] = ()
            try:
                letters = await self._replicas.collect(self._session.id, _AT_ONCE)
            except StoreUnavailable:
                logger.warning("store.unavailable", during="collecting letters")
            except Exception:
                logger.exception("letters.failed")  # the next look may succeed
            for letter in letters:
                self._take(letter)
            if len(letters) == _AT_ONCE:
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(LOOK):
                    await self._arrived.wait()
            except TimeoutError:
                pass

    def _take(self, letter: Letter) -> None:
        text = unseal(self._session.key, letter)
        if text is None:
            logger.warning("letters.unreadable", id=letter.id)
        elif text[:1] == b"?":
            self._spawn(self._reply(text[1 : 1 + _KEY].hex(), letter.id, text[1 + _KEY :]))
        elif (waiting := self._open.get(letter.id)) is not None and not waiting.done():
            waiting.set_result(text[1:])

    async def _reply(self, session: str, letter_id: str, question: bytes) -> None:
        answer = await self._answer(question)
        try:
            await self._post(session, letter_id, b"!" + answer)
        except StoreUnavailable:
            logger.warning("store.unavailable", during="answering a letter")


class Question:
    """A question that was sent."""

    def __init__(self, waiting: dict[str, asyncio.Future[bytes]], letter_id: str) -> None:
        self.id = letter_id
        self._waiting = waiting
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        waiting[letter_id] = self._answer

    async def answer(self, within: float) -> bytes | None:
        """The answer, or None if it has not come yet."""
        await asyncio.wait([self._answer], timeout=within)
        return self._answer.result() if self._answer.done() else None

    def close(self) -> None:
        self._waiting.pop(self.id, None)


def topic_of(session: str) -> str:
    """What wake-ups for letters to a session go by; no task has such an id."""
    return f"session:{session}"


def seal(session: str, letter_id: str, text: bytes) -> bytes:
    """Encrypt a letter for a session: what callers say to a running turn may be secret (XTRA-04)."""
    own = X25519PrivateKey.generate()
    shared = own.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(session)))
    nonce = os.urandom(_NONCE)
    box = AESGCM(_derived(shared)).encrypt(nonce, text, letter_id.encode())
    return own.public_key().public_bytes_raw() + nonce + box


def unseal(key: X25519PrivateKey, letter: Letter) -> bytes | None:
    """The text of a letter to this session; None if it is damaged, or for another key."""
    sender, nonce, box = letter.body[:_KEY], letter.body[_KEY : _KEY + _NONCE], letter.body[_KEY + _NONCE :]
    try:
        shared = key.exchange(X25519PublicKey.from_public_bytes(sender))
        return AESGCM(_derived(shared)).decrypt(nonce, box, letter.id.encode()) or None
    except (InvalidTag, ValueError):
        return None


def _derived(shared: bytes) -> bytes:
    return HKDF(SHA256(), _KEY, None, b"a2ad letter").derive(shared)
