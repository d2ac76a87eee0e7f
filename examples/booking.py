"""An agent that asks until it knows enough; between the turns it holds nothing in memory."""

from a2a_server.agents import Agent, Turn

agent = Agent(name="Trattoria", description="Books tables.", version="1.0.0")

QUESTIONS = {"guests": "For how many guests?", "day": "On which day?", "name": "Under which name?"}
SEATS = 12


@agent.skill(id="book", tags=["booking"], examples=["A table, please."])
async def book(turn: Turn) -> None:
    """Book a table for up to 12 guests. Asks for guests, day and name, one after the other."""
    if turn.text.strip().lower() == "never mind":
        return await turn.reject("No table was booked.")
    if asked := turn.state.pop("asked", None):
        turn.state[asked] = turn.text.strip()
    if not fits(turn.state.get("guests", "1")):
        del turn.state["guests"]
        await turn.status(f"We have tables for 1 to {SEATS}.")
    for field, question in QUESTIONS.items():
        if field not in turn.state:
            turn.state["asked"] = field
            return await turn.ask(question)
    return await turn.add_artifact(turn.state, "booking")


def fits(guests: str) -> bool:
    return guests.isdecimal() and 0 < int(guests) <= SEATS
