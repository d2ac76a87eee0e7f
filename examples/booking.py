"""An agent that asks until it knows enough, and asks for the name once in a conversation."""

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
    if "name" in turn.context.state:  # from an earlier task of the same context
        turn.state["name"] = turn.context.state["name"]
    for field, question in QUESTIONS.items():
        if field not in turn.state:
            turn.state["asked"] = field
            return await turn.ask(question)
    turn.context.state["name"] = turn.state["name"]
    return await turn.add_artifact(turn.state, "booking")


def fits(guests: str) -> bool:
    return guests.isdecimal() and 0 < int(guests) <= SEATS
