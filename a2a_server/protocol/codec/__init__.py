"""ProtoJSON, compiled from descriptors (spec: JSON; design: §5).

1. `codec` reads a JSON text, and turns JSON values into messages and back, with the functions of a type.
2. `compiler` makes these functions, by source that `reader` and `writer` generate from a descriptor.
3. `dialect` holds the choices in which versions of the protocol differ.
4. `scalars`, `times` and `wellknown` convert single values, and the types of google.protobuf.
5. `leftovers` handles members that a generated reader does not know by name.
6. `sizes` bounds the values of a request before it is read.
7. `faults` collects what is wrong with a JSON value, with the path of each fault.
"""

from a2a_server.protocol.codec.codec import DEEPEST, Codec, JsonText, Memo, NotJson, loads, read_in_steps
from a2a_server.protocol.codec.dialect import Dialect

__all__ = ["DEEPEST", "Codec", "Dialect", "JsonText", "Memo", "NotJson", "loads", "read_in_steps"]
