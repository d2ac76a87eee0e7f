"""Whether the server that is tested is a compiled one (`make test-compiled`)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def origin(module: str) -> str:
    """The file that Python takes for a module."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return spec.origin


COMPILED = Path(origin("a2a_server.operations.rpc.send")).suffix == ".so"
