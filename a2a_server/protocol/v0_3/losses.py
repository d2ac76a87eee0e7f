"""What a message loses when it goes to the other version and comes back (spec: LMAP-02).

The tests show every one of them, and that there are no others; `docs/protocol-0.3.md` repeats the table.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Way = Literal["1.0 → 0.3 → 1.0", "0.3 → 1.0 → 0.3"]

FORTH: Final[Way] = "1.0 → 0.3 → 1.0"
BACK: Final[Way] = "0.3 → 1.0 → 0.3"


class Loss(NamedTuple):
    way: Way
    what: str
    becomes: str


LOSSES: Final = (
    Loss(FORTH, "`Part.media_type` `application/json` on data", "absent: data is that anyway"),
    Loss(FORTH, "`Part.raw` that happens to be base64 text", "with `raw_files`: the bytes it stands for"),
    Loss(
        FORTH, "metadata named `x-a2a-compat` or `data_part_compat`", "read as ours where it looks so; replaced by ours"
    ),
    Loss(FORTH, "empty `metadata` on a part or message of which something is kept there", "absent"),
    Loss(FORTH, "numbers of states and roles that have no name", "unspecified, which 0.3's JSON calls `unknown`"),
    Loss(FORTH, "`history_length` 0", "absent: 0.3's 0 means all"),
    Loss(FORTH, "an empty `configuration`", "absent: it says the same"),
    Loss(FORTH, "`tenant` of requests and push configs", "absent: 0.3 has it in the path or from the caller"),
    Loss(FORTH, "`task_id` of a push config inside a send", "absent: it is the message's"),
    Loss(FORTH, "`CancelTaskRequest.metadata`", "absent"),
    Loss(FORTH, "empty ids where 0.3 has resource names", "refused as malformed"),
    Loss(FORTH, "a slash in the id of a push config that is to be made", "refused: 0.3 makes a name of the id"),
    Loss(FORTH, "a comma in the scheme of such a config", "refused: it is no name of a scheme"),
    Loss(FORTH, "`authentication` without scheme and credentials", "absent, as 0.3 clients mean it"),
    Loss(FORTH, "`supported_interfaces` that speak another version", "absent: a 0.3 card names 0.3 interfaces only"),
    Loss(FORTH, "the tenant of an interface, and a patch in its version", "absent"),
    Loss(FORTH, "a second interface at the same URL", "absent: 0.3 allows one transport for one URL"),
    Loss(FORTH, "a gRPC interface written `host:port`", "written as a URL"),
    Loss(FORTH, "absent `capabilities` and capabilities that are absent", "present and false"),
    Loss(FORTH, "`documentation_url` and `icon_url` that are present and empty", "absent"),
    Loss(FORTH, "card signatures", "absent: what was signed is the other form"),
    Loss(FORTH, "`OAuthFlows.device_code`", "absent; the scheme stays"),
    Loss(FORTH, "`AuthorizationCodeOAuthFlow.pkce_required`", "absent"),
    Loss(BACK, "`file_with_bytes` that is not base64 text", "base64 text of the same bytes, unless `raw_files`"),
    Loss(BACK, "`file_with_bytes` that happens to be base64 text", "with `raw_files`: the bytes it stands for"),
    Loss(BACK, "`final`", "what the caller says of the stream"),
    Loss(BACK, "an empty `configuration`", "absent: it says the same"),
    Loss(BACK, "`authentication.schemes` but the first that can be served", "absent, unless kept by the caller"),
    Loss(BACK, "`authentication` without schemes and credentials", "absent"),
    Loss(BACK, "a push config's id in one of three places", "in all three"),
    Loss(BACK, "`%2f` in a resource name, and `%25` where it need not stand", "`%2F`, `%`"),
    Loss(BACK, "`parent` with `/pushNotificationConfigs` behind the task", "the task alone"),
    Loss(BACK, "a patch in `protocol_version`", "`.0`"),
    Loss(BACK, "a `protocol_version` that is not 0.3", "refused: no interface speaks 0.3"),
    Loss(BACK, "an absent `preferred_transport`", "`JSONRPC`, as 0.3 says"),
    Loss(BACK, "`additional_interfaces` without the main one, or with it further down", "with it, in front"),
    Loss(BACK, "a gRPC interface written `host:port`", "written as a URL"),
    Loss(BACK, "absent `capabilities`", "present and false"),
    Loss(BACK, "card signatures", "absent: what was signed is the other form"),
)
