"""The access policy behind an HTTP address, in the form of the Open Policy Agent (spec: AUTZ-01, AUTZ-04).

Each question is a POST of `{"input": {…}}`, answered with `{"result": true}` or `{"result": {"allow": false, "reason":
"…"}}`. Answers are kept for a while by their questions. Equal questions that are open together share one request.
Only an explicit yes allows a call.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any, Final

import orjson
import structlog

from a2a_server.ports.access import AccessQuestion, AccessVerdict
from a2a_server.ports.fetching import Fetcher, FetchError
from a2a_server.protocol.errors import A2AError, Reason

log = structlog.get_logger(__name__)

MOST_KEPT: Final = 4096
MOST_OPEN: Final = 256
"""Questions at once. Beyond them calls are refused as when there is no answer."""
_LONGEST_REASON: Final = 200
_SILENCE: Final = 60.0
"""Seconds between two log lines about failures."""


class HttpPolicy:
    """Asks the operator's own service about each call."""

    def __init__(self, fetcher: Fetcher, url: str, *, credentials: str, cache: float) -> None:
        self._fetcher = fetcher
        self._url = url
        self._credentials = credentials
        self._cache = cache
        self._kept: OrderedDict[AccessQuestion, tuple[AccessVerdict, float]] = OrderedDict()
        """Verdicts, and until when they count; the newest last."""
        self._open: dict[AccessQuestion, asyncio.Task[AccessVerdict]] = {}
        self._failures = 0
        """Since the last log line about them."""
        self._logged = float("-inf")

    async def decide(self, question: AccessQuestion) -> AccessVerdict:
        verdict, until = self._kept.get(question, (None, 0.0))
        if verdict is not None and time.monotonic() < until:
            return verdict
        return await asyncio.shield(self._open.get(question) or self._begin(question))

    async def close(self) -> None:
        for task in [*self._open.values()]:
            task.cancel()
        await self._fetcher.close()

    def _begin(self, question: AccessQuestion) -> asyncio.Task[AccessVerdict]:
        """Ask. A call that is canceled meanwhile does not cancel it for others."""
        if len(self._open) >= MOST_OPEN:
            raise self._failed(f"{MOST_OPEN} questions are open already")
        task = self._open[question] = asyncio.create_task(self._ask(question))
        task.add_done_callback(lambda done: self._answered(question, done))
        return task

    def _answered(self, question: AccessQuestion, task: asyncio.Task[AccessVerdict]) -> None:
        del self._open[question]
        if not task.cancelled():
            task.exception()  # asyncio would complain if nobody waits for it any more

    async def _ask(self, question: AccessQuestion) -> AccessVerdict:
        body = orjson.dumps({"input": question._asdict()})
        try:
            answer = await self._fetcher.fetch(self._url, json=body, credentials=self._credentials)
            verdict = verdict_of(orjson.loads(answer))
        except FetchError as error:
            raise self._failed(str(error)) from None
        except (ValueError, TypeError, LookupError):
            raise self._failed("the answer has no result that is true, false, or an object with allow") from None
        self._keep(question, verdict)
        return verdict

    def _keep(self, question: AccessQuestion, verdict: AccessVerdict) -> None:
        if self._cache:
            self._kept[question] = verdict, time.monotonic() + self._cache
            self._kept.move_to_end(question)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)

    def _failed(self, why: str) -> A2AError:
        """Count it, and say so once a minute."""
        self._failures += 1
        if time.monotonic() - self._logged >= _SILENCE:
            log.error("policy.failed", why=why, calls=self._failures)
            self._logged, self._failures = time.monotonic(), 0
        text = "This call cannot be checked now: the operator's policy does not answer."
        return A2AError(Reason.UNAVAILABLE, text, retry_after=1)


def verdict_of(answer: Any) -> AccessVerdict:  # noqa: ANN401 - the JSON border
    """Read an answer; raises a `ValueError`, a `TypeError` or a `LookupError` if it is none."""
    result = answer["result"]
    allow, reason = (result, "") if isinstance(result, bool) else (result["allow"], result.get("reason", ""))
    if not (isinstance(allow, bool) and isinstance(reason, str)):
        raise TypeError
    return AccessVerdict(allow, "".join(filter(str.isprintable, reason))[:_LONGEST_REASON])
