"""Parts of the draft: nested as in the 0.3 proto, files with the media type's new name (spec: DRFT-02, CONF-55)."""

from __future__ import annotations

from typing import Final

from a2a_server.protocol.codec.leftovers import Leftovers
from a2a_server.protocol.dialects.files import FileForm
from a2a_server.protocol.dialects.foreign import IN_DRAFT_FILE, IN_DRAFT_PART
from a2a_server.protocol.dialects.parts import CONTENTS
from a2a_server.protocol.dialects.proto_parts import form_with

_ALSO: Final = {
    "file_with_uri": "fileWithUri",
    "file_with_bytes": "fileWithBytes",
    "mimeType": "mediaType",
    "mime_type": "mediaType",
}
_FILE: Final = FileForm("fileWithUri", "fileWithBytes", _ALSO, IN_DRAFT_FILE, media_type="mediaType")
_MEMBERS: Final = Leftovers({name: name for name in (*CONTENTS, "metadata")}, frozenset(), {}, IN_DRAFT_PART)

FORM: Final = form_with(_FILE, _MEMBERS)
