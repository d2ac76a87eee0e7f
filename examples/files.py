"""An agent that takes files and data, and gives back what the client can read."""

import csv
import io

from a2a_server.agents import Agent, Turn, file_part, pb

agent = Agent(
    name="Tables",
    description="Turns tables of CSV or Markdown into JSON, and JSON into CSV.",
    version="1.0.0",
    default_input_modes=["text/csv", "text/markdown", "text/plain", "application/json"],
    default_output_modes=["application/json", "text/csv"],
)


@agent.skill(id="convert", tags=["files", "data"])
async def convert(turn: Turn) -> None:
    """Convert a table in CSV or Markdown to a list of records, or records to a CSV file."""
    records = turn.data if isinstance(turn.data, list) else [turn.data]
    if all(isinstance(record, dict) for record in records):
        return await turn.add_artifact(file_part(to_csv(records), filename="table.csv"), "table.csv")
    tables = [part for part in turn.parts if part.raw or part.media_type in READERS]
    if not tables:
        return await turn.ask("Send a table in CSV or Markdown, or records as data.")
    for part in tables:
        await turn.add_artifact(records_in(part), part.filename or "records")
    return None


def records_in(part: pb.Part) -> list[dict[str, str]]:
    """The rows of a file, or of a text that says what it is."""
    rows = READERS.get(part.media_type, from_csv)(part.raw.decode("utf-8-sig") or part.text)
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]


def from_csv(text: str) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(text)) if row]


def from_markdown(text: str) -> list[list[str]]:
    """The first table: lines that begin with a bar, without the one of dashes."""
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if set(line) - set("|-: ")]


READERS = {"text/csv": from_csv, "text/markdown": from_markdown}


def to_csv(records: list[dict[str, str]]) -> bytes:
    table = io.StringIO()
    columns = sorted({column for record in records for column in record})  # an object of the protocol has no order
    writer = csv.DictWriter(table, fieldnames=columns)
    writer.writeheader()
    writer.writerows(records)
    return table.getvalue().encode()
