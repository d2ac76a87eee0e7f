"""The agent that `a2ad serve` starts when it is given none: every ability behind a skill (spec: AGNT-01)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from a2a_server.agents import INPUT_REQUESTS, Agent, Caller, Turn, data_part, file_part, pb, text_part

_FILES = ("application/octet-stream", "application/pdf", "image/jpeg", "image/png")
_BEAT = 0.05
_LAPS = 50

agent = Agent(
    name="Demo",
    description="Shows what an agent can do. Name a skill in the request's metadata, or just say something.",
    version="1.0.0",
    default_input_modes=["text/plain", "text/markdown", "text/csv", "application/json"],
    default_output_modes=["text/plain", "application/json"],
    extensions=[INPUT_REQUESTS],
)


@agent.extended
def with_operators_notes(card: pb.AgentCard, caller: Caller) -> pb.AgentCard | None:
    """Tell callers that may know it which skills are good for trying out failures."""
    if not caller.extended_card:
        return None
    card.description += f" You are known here as {caller.owner}."
    for skill in card.skills:
        if skill.id == "mishap":
            skill.description += " Say `crash` to see how an exception looks from outside."
            skill.examples.append("crash")
    return card


@agent.skill(id="echo", tags=["text"], examples=["Hello!"])
async def echo(turn: Turn) -> str:
    """Say back what was said."""
    return turn.text or "(no text)"


@agent.skill(id="story", tags=["text", "stream"], examples=["a lighthouse"])
async def story(turn: Turn) -> AsyncIterator[str]:
    """Tell a short story about anything, word by word."""
    hero = turn.text or "nobody in particular"
    plot = (
        f"Once there was {hero}. For a long time nothing happened, and then everything happened at once. "
        f"In the end {hero} was still there, and a little wiser."
    )
    for word in plot.split():
        await asyncio.sleep(_BEAT)
        yield f"{word} "


@agent.skill(id="booking", tags=["conversation"], examples=["to Lisbon"])
async def booking(turn: Turn) -> None:
    """Book an imaginary train: asks where to and how many, then for a yes."""
    trip = turn.state
    if not trip:
        trip["to"] = turn.text.removeprefix("to ").strip()
        return await turn.ask(f"How many seats to {trip['to'] or 'the end of the line'}?")
    if "seats" not in trip:
        if not turn.text.isdecimal():
            return await turn.ask("A number, please: how many seats?")
        trip["seats"] = int(turn.text)
        return await turn.ask([text_part(f"{trip['seats']} seats. Shall I book?"), data_part(trip)])
    if not turn.text.lower().startswith("y"):
        return await turn.reject("As you like. Nothing was booked.")
    await turn.add_artifact(trip, "ticket", description="Good for one imaginary journey.")
    return await turn.complete("Have a good journey!")


@agent.skill(
    id="inspect",
    tags=["files", "data"],
    input_modes=["text/plain", "text/markdown", "text/csv", "application/json", *_FILES],
    output_modes=["application/json", "image/svg+xml", "text/plain"],
)
async def inspect(turn: Turn) -> None:
    """Describe the parts of a message as data, with a picture of their sizes for clients that take one."""
    sizes = [part.ByteSize() for part in turn.parts]
    found = [
        {"kind": part.WhichOneof("content"), "bytes": size, "name": part.filename}
        for part, size in zip(turn.parts, sizes, strict=True)
    ]
    if turn.accepts("application/json"):
        await turn.add_artifact({"parts": found, "data": turn.data}, "report")
    else:
        await turn.add_artifact("\n".join(f"{part['kind']}: {part['bytes']} bytes" for part in found), "report")
    if turn.accepts("image/svg+xml"):
        await turn.add_artifact(file_part(_bars(sizes), filename="sizes.svg", media_type="image/svg+xml"), "picture")


@agent.skill(id="run", tags=["long", "progress"], examples=["5"], restartable=True)
async def run(turn: Turn) -> str | None:
    """Run up to 50 laps, reporting each. Can be canceled, and goes on after a restart of the server."""
    wanted = int(turn.text) if turn.text.isdecimal() else _LAPS
    laps = min(wanted, _LAPS)
    try:
        async with turn.artifact("log", description="One line per lap.") as log:
            for lap in range(1, laps + 1):
                if lap > turn.state.get("lap", 0):
                    await asyncio.sleep(_BEAT * 4)
                    turn.internal("iteration", lap=lap)
                    await turn.status(f"Lap {lap} of {laps}", metadata={"lap": lap, "of": laps})
                    await turn.checkpoint(lap=lap)
                await log.write(f"lap {lap}\n")
    except asyncio.CancelledError:
        await turn.add_artifact(f"Stopped after lap {turn.state.get('lap', 0)}.", "note")
        raise
    return f"{laps} laps done."


@agent.skill(id="chat", tags=["conversation"], examples=["Hi"], direct=True)
async def chat(turn: Turn) -> None:
    """Answer small talk with a plain message: no task is made."""
    await turn.reply(f"You said “{turn.text}”. I say: how nice.")


@agent.skill(id="vault", tags=["authorization"], examples=["open"])
async def vault(turn: Turn) -> str | None:
    """Ask for authorization before answering; any token that starts with `let-me-` opens. The token is not stored."""
    if turn.answer is None:
        await turn.require_auth("Send a token that starts with `let-me-`.", in_band=True, sensitive=True)
        return None
    if not str(turn.answer).startswith("let-me-"):
        await turn.fail("That token opens nothing.")
        return None
    return "The vault holds a paper clip."


@agent.skill(id="mishap", tags=["errors"], examples=["fail", "reject"])
async def mishap(turn: Turn) -> None:
    """Show how tasks end badly: say `fail`, `reject` or `crash`."""
    match turn.text:
        case "reject":
            await turn.reject("I would rather not.")
        case "crash":
            raise RuntimeError("the demo was asked to crash")
        case _:
            await turn.fail("As you wished: it failed.")


def _bars(sizes: list[int]) -> bytes:
    """Draw one bar per part."""
    most = max(sizes, default=0) or 1
    bars = (
        f'<rect y="{12 * row}" width="{200 * size // most}" height="10" fill="steelblue"/>'
        for row, size in enumerate(sizes)
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="200" height="{12 * len(sizes)}">'
    return f"{head}{''.join(bars)}</svg>".encode()
