"""Messages of a card that have the same members under the same numbers in both versions.

They travel as bytes. What only one version knows (PKCE, the device flow) is then an unknown field of the other, and
discarded. A test compares the descriptors.
"""

from __future__ import annotations

from google.protobuf.message import Message


def carry(source: Message, target: Message) -> None:
    """Fill the empty `target`, which is present afterwards even if `source` is empty."""
    known = type(source)()
    known.CopyFrom(source)
    known.DiscardUnknownFields()  # they would get a meaning
    target.MergeFromString(known.SerializeToString())  # of nothing, too, which makes it present
    target.DiscardUnknownFields()
