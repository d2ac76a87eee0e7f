"""The registry of the A2A CLI specification 0.2: its requirements, and what is not claimed (spec: cli.md, 4 and 5).

Each line: id without prefix, section, requirement. Tests are marked with the ids that they measure.
"""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "A2ACLI_"
VERSION, REVISION = "0.2", "2026-08-17"


class RegistryRow(NamedTuple):
    tier: int
    section: str
    requirement: str

    @staticmethod
    def area(name: str) -> str:
        """The id without prefix and number."""
        return name.rpartition("_")[0]


_TIERS = (
    """
AUTH_001 | 12.1 | --bearer and --api-key work unattended, and go where the card's scheme says
AUTH_002 | 12.1 | A2ACLI_BEARER and A2ACLI_API_KEY exist; the exposure of flags is documented; flags still win
AUTH_003 | 12.1 | --insecure alone switches certificate checks off, with a warning, prominent with a credential
AUTH_004 | 12.1 | Credentials are masked in every diagnostic output, raw messages included
CARD_GET_001 | 10.1 | card get shows what the card says; a card is named by host, URL or file
CLI_001 | 7.1 | help, --help and --version print and end
CONFIG_001 | 8.3 | No ids are kept; what is stored is in a conventional folder, private, visible and removable
DEFAULT_001 | 6.5 | Card's order, wait, text, concise, highest common version, TLS verified; each can be changed
EXIT_001 | 11.6 | Exit codes 0, 1 and 2 as defined; 3, 4 and 5 as defined or else 1
EXIT_002 | 11.6 | The exit code agrees with the error, and never depends on how the task ended
INTERACT_001 | 8.1 | --context-id alone starts a new task in that context
INTERACT_002 | 8.1 | --task-id continues that task; ids travel as given; a refusal is reported and starts no other task
INTERACT_003 | 4.1 | Ids of tasks and contexts are never made up
INTERACT_004 | 8.2 | Ids and state are reported on completion and interruption, with the command that goes on
INTERACT_005 | 6.3 | Nothing continues by itself from one run to the next
OUT_001 | 11.1 | stdout carries the payload only
OUT_002 | 11.3 | json without --stream is one document, an A2A type without wrapper; --stream is a flag only
OUT_003 | 11.3 | json with --stream is flushed JSON Lines; the last line is the terminal event, or the error
OUT_004 | 11.4 | Error objects have the same codes on every binding; A2A's names are kept
OUT_005 | 11.2 | text is labelled lines and blocks, without control sequences, with and without a terminal
OUT_006 | 11.5 | --async answers with an object that holds at least task id and context id
SEND_001 | 10.2 | send waits for a terminal or interrupted state
SEND_002 | 10.2 | send --async returns at once
SEND_003 | 10.2 | A bare message is a success; --stream falls back where there is no streaming
SEND_004 | 10.2 | Artifacts are rendered: text, data, and files by name, type and size
SEND_005 | 10.2 | --media-type belongs to the part flag just before it
SEND_006 | 10.2 | --text, --file and --data can be repeated and mixed, in order; --data - reads standard input
SKILL_001 | 14.1 | At most one agent skill is shipped
SKILL_002 | 14.2 | A shipped skill points to help and repeats no rules
TASK_CANCEL_001 | 10.4 | task cancel reports the state, can be repeated, and passes refusals on
TASK_GET_001 | 10.3 | task get shows state, artifacts, and --history
TASK_POLL_001 | 9.3 | task get --wait polls up to a terminal or interrupted state
TASK_POLL_002 | 9.3 | --poll-interval and --timeout are obeyed; a wait never spins
TASK_POLL_003 | 9.1 | Waits end in interrupted states; an unspecified state is neither
TASK_POLL_004 | 9.3 | Where a stream fails, polling carries the wait to the outcome
TX_001 | 13.1 | Without a preference the first interface of the card is used that the tool speaks
TX_002 | 13.1 | --transport is an ordered preference
TX_003 | 13.1 | The tenant of the interface is in every request, or nowhere
VER_001 | 13.2 | Every request has A2A-Version; below 1.0 on demand only; refusals are reported
""",
    """
AUTH_005 | 12.2 | auth login by device code
AUTH_006 | 12.2 | auth login by client credentials
AUTH_007 | 12.2 | Tokens are stored safely and attached by themselves
CARD_GET_002 | 10.1 | card get --validate checks the schema
CLI_002 | 7.1 | completion prints a script
CONFIG_002 | 8.3 | Flag, variable, local file, global file, built-in; config show names each source
CONFORM_001 | 7.1 | conformance checks a live agent
DOWNLOAD_001 | 7.1 | task download saves artifacts
OUT_007 | 7.2 | --debug shows the raw messages on stderr
PUSH_001 | 9.2 | task push-config creates, gets, lists and deletes
TASK_LIST_001 | 7.1 | task list pages and filters
TASK_SUBSCRIBE_001 | 9.2 | task subscribe joins the stream of a task
TASK_SUBSCRIBE_002 | 9.4 | A lost stream is joined again
TX_004 | 13.1 | At least two transports work
VER_003 | 13.3 | The card is asked before streaming, push and the extended card are used
""",
    """
AUTH_008 | 12.4 | No credential goes to an endpoint that declares no scheme for it
AUTH_009 | 12.3 | Mutual TLS
AUTH_010 | 12.3 | OpenID Connect
AUTH_011 | 12.3 | AUTH_REQUIRED in the middle of a task can be resolved
CARD_GET_003 | 10.1 | card get --extended
CARD_GET_004 | 10.1 | Signatures of cards are verified and reported
CARD_GET_005 | 10.1 | Entries of catalogs are accepted as agents
CHAT_001 | 8.1 | chat carries the context id, and the id of an interrupted task
DEMO_SERVER_001 | 7.1 | demo-server runs a local agent
PUSH_002 | 9.2 | The tool hosts a receiver for push notifications
TX_005 | 13.1 | gRPC is one of the transports
VER_002 | 13.3 | Extensions that the agent requires are declared
""",
)

REGISTRY = {
    name.strip(): RegistryRow(tier, f"§{section.strip()}", text.strip())
    for tier, lines in enumerate(_TIERS, 1)
    for name, section, text in (line.split("|") for line in lines.strip().splitlines())
}

NOT_APPLICABLE = {
    "SKILL_001": "No agent skill is shipped.",
    "SKILL_002": "No agent skill is shipped.",
}
NOT_MEASURED = {
    "AUTH_009": "The client has no option for a client certificate.",
    "CARD_GET_005": "Catalogs are not read.",
    "DEMO_SERVER_001": "There is no such command; `a2ad serve` serves the demo agent.",
    "PUSH_002": "There is no receiver.",
}
"""What there is no test for, and why."""

DEFAULTS = {
    "transport_server_preference_order": "--transport",
    "task_completion_wait_by_default": "--async",
    "output_human_readable_text": "--output json",
    "detail_level_concise": "--verbose",
    "protocol_version_highest_mutual": "--a2a-version",
    "transport_security_tls_on": "--insecure",
}
"""The six defaults of DEFAULT_001, and what overrides each."""

ERROR_CODES = (
    "USAGE",
    "INTERNAL",
    "CARD_INVALID",
    "CARD_NOT_FOUND",
    "UNREACHABLE",
    "CREDENTIALS_MISSING",
    "AUTH_FAILED",
    "TIMEOUT",
)
