"""What a message loses when it goes through older JSON and comes back (spec: LMAP-02).

The tests show every one of them, and that there are no others; `docs/protocol-0.3.md` repeats the tables. Of these the
draft has what is about parts, metadata and push configs.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Loss(NamedTuple):
    what: str
    becomes: str


FROM_1_0: Final = (
    Loss("times", "to the millisecond, as in 1.0's JSON"),
    Loss("absent objects that 1.0 requires, and values that hold nothing", "empty objects and null, as in 1.0's JSON"),
    Loss("`Part.mediaType` `application/json` on data", "absent: data is that anyway"),
    Loss("`Part.raw` that happens to be base64 text", "the proto's, with `raw_files`: the bytes it stands for"),
    Loss("a part without content", "the schema's: an empty text"),
    Loss("empty `metadata` on what something is kept in", "absent"),
    Loss(
        "metadata named `x-a2a-compat` or `data_part_compat` where something could be kept",
        "read as ours where it looks so; replaced by ours",
    ),
    Loss("numbers of states and roles that have no name", "unspecified"),
    Loss("`tenant`; `taskId` of a push config inside a send", "absent: said elsewhere"),
    Loss("an empty `configuration`", "absent: it says the same"),
    Loss("a slash in the id of a push config that is to be made", "refused by the proto, which makes a name of it"),
    Loss("`authentication` without scheme and credentials", "absent"),
    Loss("the page token of push configs", "JSON-RPC: absent, and pages cannot be asked for"),
    Loss("all of a list of tasks but the tasks", "absent"),
    Loss(
        "the place of the extension of input requests among a message's extensions, as clients of it have it",
        "the last",
    ),
)
"""From 1.0 and back."""

FROM_OLDER: Final = (
    Loss("`final`", "what the end of the stream says"),
    Loss("missing `kind`, other spellings of states and names", "as they are written"),
    Loss("`fileWithBytes` that is not base64 text", "base64 text of the same bytes, unless `raw_files`"),
    Loss("a configuration that says no more than none would", "absent"),
    Loss("`authentication.schemes` but the first", "absent; webhooks use all of them"),
    Loss("`authentication` without schemes and credentials", "absent"),
    Loss("a push config's id in one of its places", "in all that the spelling has"),
    Loss("`metadata` of get, resubscribe and of requests about push configs", "ignored"),
    Loss("members with empty texts, empty lists, false and null", "absent, where 0.3 does not require them"),
    Loss("times without a zone, or with another", "in UTC"),
)
"""From 0.3 and back."""
