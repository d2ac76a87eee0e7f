"""An agent that takes files and data, and gives back what the client can read."""

import csv
import io

from a2a_server.agents import Agent, Turn, file_part

agent = Agent(
    name="Tables",
    description="Turns CSV into JSON, and JSON into CSV.",
    version="1.0.0",
    default_input_modes=["text/csv", "application/json", "text/plain"],
    default_output_modes=["application/json", "text/csv"],
)


@agent.skill(id="convert", tags=["files", "data"])
async def convert(turn: Turn) -> None:
    """Convert a CSV file to a list of records, or such a list to a CSV file."""
    if isinstance(turn.data, list):
        return await turn.add_artifact(file_part(to_csv(turn.data), filename="table.csv"), "table.csv")
    files = [file for file in turn.files if file.HasField("raw")]
    if not files:
        return await turn.ask("Send a CSV file, or a list of records as data.")
    for file in files:
        records = list(csv.DictReader(io.StringIO(file.raw.decode())))
        await turn.add_artifact(records, file.filename or "records")
    return None


def to_csv(records: list[dict[str, str]]) -> bytes:
    table = io.StringIO()
    columns = sorted(records[0]) if records else []  # objects of the protocol have no order of their own
    writer = csv.DictWriter(table, fieldnames=columns)
    writer.writeheader()
    writer.writerows(records)
    return table.getvalue().encode()
