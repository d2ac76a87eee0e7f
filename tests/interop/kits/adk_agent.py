"""An agent of Google ADK with a model that says what it was told (see ../test_adk_agents.py)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import LongRunningFunctionTool
from google.genai import types


def said(*parts: types.Part, partial: bool = False) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=list(parts)), partial=partial)


class Told(BaseLlm):
    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 - ADK's signature
    ) -> AsyncGenerator[LlmResponse]:
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is not None:
            answer = last.function_response.response.get("approved")
            yield said(types.Part(text=f"Booked: {answer}" if answer else "I have asked."))
        elif last.text == "fail":
            raise RuntimeError("a secret")
        elif last.text == "book":
            yield said(types.Part(function_call=types.FunctionCall(name="approve", args={"what": "a table"})))
        else:
            if last.text == "wait":
                yield said(types.Part(text="waiting"), partial=True)
                await asyncio.Event().wait()
            words = [part.text for content in llm_request.contents for part in content.parts if part.text]
            for word in words if stream else ():
                yield said(types.Part(text=f"{word} "), partial=True)
            yield said(types.Part(text=" ".join(words)))


def approve(what: str) -> dict[str, str]:
    """Ask somebody."""
    return {"status": "pending", "what": what}


root_agent = LlmAgent(
    name="waiter",
    description="Repeats and books.",
    model=Told(model="told"),
    tools=[LongRunningFunctionTool(func=approve)],
)
other = LlmAgent(name="other", model=Told(model="told"))
