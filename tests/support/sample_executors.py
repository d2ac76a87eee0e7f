"""More kinds of executors, as those of the SDK's samples: what they do depends on the first word that is said.

The kinds are those of the samples: their code is our own. They are written for the SDK alone, as `executors.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from a2a.helpers import (
    new_data_part,
    new_raw_part,
    new_task_from_user_message,
    new_text_status_update_event,
    new_url_part,
)
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message
from google.protobuf import json_format

from a2a_proto import a2a_pb2 as pb
from tests.support.executors import Actor, parts


class Sample(Actor):
    """Reimbursements, pictures, forms, calendars and the like."""

    def __init__(self) -> None:
        super().__init__()
        self.granted = asyncio.Event()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Say why, as a travel agent that has released a booking."""
        turn = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await turn.cancel(turn.new_agent_message(parts("released")))

    async def on_submit(self, context: RequestContext, queue: EventQueue) -> None:
        """Makes no task itself, and says SUBMITTED first."""
        turn = TaskUpdater(queue, context.task_id or "", context.context_id or "")
        if context.current_task is None:
            await turn.submit()
        await turn.start_work(turn.new_agent_message(parts("asking the calendar")))
        await turn.add_artifact(parts("Tuesday"), artifact_id="a")
        await turn.complete()

    async def on_events(self, context: RequestContext, queue: EventQueue) -> None:
        """Writes its events by hand, without the updater."""
        turn = await self.begin(context, queue)
        ids = turn.task_id, turn.context_id
        for state, text in ((pb.TASK_STATE_WORKING, "looking"), (pb.TASK_STATE_COMPLETED, "found")):
            await queue.enqueue_event(new_text_status_update_event(*ids, cast("Any", state), text))

    async def on_picture(self, context: RequestContext, queue: EventQueue) -> None:
        """Makes files and data of all kinds, in one artifact with all members."""
        turn = await self.begin(context, queue)
        made = [
            new_raw_part(b"\x89PNG\x00\xff", "image/png", "picture.png"),
            new_url_part("https://example.com/large.png", "image/png", "large.png"),
            new_data_part({"width": 2, "tags": ["a", None, {"deep": True}]}, "application/json"),
        ]
        await turn.add_artifact(
            made, artifact_id="a", name="picture", metadata={"n": 1}, extensions=["https://e.example"]
        )
        await turn.complete()

    async def on_read(self, context: RequestContext, queue: EventQueue) -> None:
        """Reads files and data that the client has sent."""
        turn = await self.begin(context, queue)
        assert context.message is not None
        read = [json_format.MessageToDict(cast("Any", part)) for part in context.message.parts]
        await turn.add_artifact([new_data_part({"text": context.get_user_input(" "), "read": read})], artifact_id="a")
        await turn.complete()

    async def on_form(self, context: RequestContext, queue: EventQueue) -> None:
        """Asks with a form: text and data, and metadata beside them."""
        turn = await self.begin(context, queue)
        form = [*parts("Fill this in"), new_data_part({"type": "form", "fields": ["amount"]})]
        asked = turn.new_agent_message(form, metadata={"form": "v1"})
        await turn.update_status(cast("Any", pb.TASK_STATE_INPUT_REQUIRED), asked, metadata={"kind": "form"})

    async def on_amount(self, context: RequestContext, queue: EventQueue) -> None:
        """An answer that is not enough: it asks again, and tells what was said so far."""
        turn = await self.begin(context, queue)
        assert context.current_task is not None
        task = context.current_task
        asked = cast("Any", task.status)
        known = {
            "state": asked.state,
            "asked": [part.text for part in asked.message.parts],
            "said": [part.text for message in task.history for part in message.parts],
            "now": context.get_user_input(),
        }
        await turn.requires_input(turn.new_agent_message([*parts("And the date?"), new_data_part(known)]))

    async def on_date(self, context: RequestContext, queue: EventQueue) -> None:
        turn = await self.begin(context, queue)
        await turn.start_work()
        await turn.add_artifact([new_data_part({"status": "approved"})], artifact_id="a", name="decision")
        await turn.complete(turn.new_agent_message(parts("approved")))

    async def on_several(self, context: RequestContext, queue: EventQueue) -> None:
        """Writes two artifacts in turns, and one anew."""
        turn = await self.begin(context, queue)
        await turn.start_work()
        for number in range(2):
            for name in ("a", "b"):
                await turn.add_artifact(parts(f"{name}{number}"), artifact_id=name, append=number > 0)
        await turn.add_artifact(parts("anew"), artifact_id="a", append=False, last_chunk=True)
        await turn.complete()

    async def on_long(self, context: RequestContext, queue: EventQueue) -> None:
        """Tells its progress, from a task of its own."""
        turn = await self.begin(context, queue)

        async def work() -> None:
            for number in range(5):
                said = turn.new_agent_message(parts(f"step {number}"))
                await turn.update_status(cast("Any", pb.TASK_STATE_WORKING), said, metadata={"step": number})
                await asyncio.sleep(0.01)

        await asyncio.create_task(work())
        await turn.complete()

    async def on_grant(self, context: RequestContext, queue: EventQueue) -> None:
        """Waits for a login elsewhere, and goes on by itself."""
        turn = await self.begin(context, queue)
        await turn.start_work()
        await turn.requires_auth(turn.new_agent_message(parts("Log in at https://example.com/")))
        await self.granted.wait()
        await turn.start_work()
        await turn.add_artifact(parts("Tuesday"), artifact_id="a")
        await turn.complete()

    async def on_task(self, context: RequestContext, queue: EventQueue) -> None:
        """Begins every turn with a new task, also where there is one."""
        task = new_task_from_user_message(cast("Message", context.message))
        await queue.enqueue_event(task)
        turn = TaskUpdater(queue, task.id, task.context_id)
        if context.current_task is None:
            await turn.requires_input()
        else:
            await turn.complete()

    async def on_twice(self, context: RequestContext, queue: EventQueue) -> None:
        """Ends twice, which the updater refuses."""
        turn = await self.begin(context, queue)
        await turn.complete(turn.new_agent_message(parts("done")))
        await turn.failed()

    async def on_nothing(self, context: RequestContext, queue: EventQueue) -> None:
        """Says nothing at all."""

    async def on_forget(self, context: RequestContext, queue: EventQueue) -> None:
        """Returns in the middle of its work."""
        turn = await self.begin(context, queue)
        await turn.start_work()
