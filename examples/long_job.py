"""An agent whose work outlives its process: kill the server in the middle, start it again, and see it go on."""

import asyncio

from a2a_server.agents import Agent, Turn

agent = Agent(name="Surveyor", description="Surveys a field, metre by metre.", version="1.0.0")

STEP = 0.5
MOST = 100


@agent.skill(id="survey", tags=["long", "progress"], examples=["10"], restartable=True)
async def survey(turn: Turn) -> None:
    """Survey a field of up to 100 metres, telling its progress. Can be canceled, and survives a restart."""
    if not turn.text.isdigit() or not 0 < int(turn.text) <= MOST:
        return await turn.reject(f"Say how many metres, from 1 to {MOST}.")
    metres, done = int(turn.text), turn.state.get("done", 0)
    if turn.rerun:
        await turn.status(f"Interrupted at metre {done}; going on from there.")
    try:
        for metre in range(done + 1, metres + 1):
            await asyncio.sleep(STEP)
            await turn.checkpoint(done=metre)  # what is behind this line is not done twice
            await turn.status(f"Metre {metre} of {metres}.", metadata={"progress": metre / metres})
    except asyncio.CancelledError:
        reason = (turn.cancel_metadata or {}).get("reason", "no reason given")
        await turn.add_artifact(f"Stopped at metre {turn.state.get('done', 0)}: {reason}.", "unfinished survey")
        raise
    return await turn.add_artifact(f"The field is {metres} metres long.")
