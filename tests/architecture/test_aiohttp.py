"""Only public names of aiohttp are used, so that any version below the next major one will do (spec: DOOR-12)."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import abc, hdrs, web

ROOT = Path(__file__).parents[2]
HOMES = {"a2a_server": ROOT / "a2a_server", "a2a_gateway": ROOT / "gateway" / "a2a_gateway"}
PUBLIC = {
    "aiohttp": set(aiohttp.__all__) | {"abc", "hdrs", "web"},
    "aiohttp.web": set(web.__all__),
    "aiohttp.abc": {name for name, value in vars(abc).items() if getattr(value, "__module__", "") == abc.__name__},
    "aiohttp.hdrs": {name for name in vars(hdrs) if name.isupper()},
}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for package, home in HOMES.items():
        for path in sorted(home.rglob("*.py")):
            tree = ast.parse(path.read_text())
            if any(module.partition(".")[0] == "aiohttp" for module, _ in _imports(tree)):
                yield ".".join((package, *path.relative_to(home).with_suffix("").parts)), tree


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The modules and names that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


MODULES = dict(_modules())


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_") and name not in {"_replace", "_asdict"}  # of any tuple


@pytest.mark.req("DOOR-12")
def test_public_modules_and_names_are_imported() -> None:
    assert "a2a_gateway.http.connection" in MODULES
    found = [
        f"{name}: {module}.{imported}"
        for name, tree in MODULES.items()
        for module, imported in _imports(tree)
        if module.partition(".")[0] == "aiohttp" and imported not in PUBLIC.get(module, set()) | {""}
    ]
    assert not found


@pytest.mark.req("DOOR-12")
def test_nothing_private_of_anybody_is_touched_where_aiohttp_is_used() -> None:
    """What is private belongs to `self`; `web._x` and `request._x` are aiohttp's."""
    found = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and ast.unparse(node.value) not in {"self", "cls"}
    ]
    found += [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "setattr", "delattr", "hasattr", "vars"}
        if any(isinstance(part, ast.Constant) and _is_private(str(part.value)) for part in node.args)
    ]
    assert not found


@pytest.mark.req("DOOR-12")
def test_classes_made_from_those_of_aiohttp_have_nothing_private() -> None:
    """Whatever they called so might be, or become, the name of something in aiohttp itself."""
    heirs, found = set[str](), []
    for name, tree in MODULES.items():
        module = importlib.import_module(name.removesuffix(".__init__"))
        for node in tree.body:
            if not isinstance(node, ast.ClassDef) or not _is_heir(vars(module)[node.name]):
                continue
            heirs.add(node.name)
            names = [part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)]
            names += [part.name for part in ast.walk(node) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            names += [
                part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            ]
            found += [f"{name}.{node.name}: {own}" for own in names if _is_private(own)]
    assert {"CatchAllResource", "Reply", "StreamReply"} <= heirs
    assert not found


def _is_heir(kind: type) -> bool:
    """Whether a class has a base of aiohttp that is more than an interface."""
    modules = {base.__module__ for base in inspect.getmro(kind)}
    return any(module.partition(".")[0] == "aiohttp" for module in modules - {abc.__name__})
