"""Write what is installed beside this interpreter as an SBOM, in CycloneDX 1.6: python sbom.py FILE.

It has no time and no random number, so that the same packages make the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

PRODUCT = "a2ad"


def sbom(installed: Iterable[Distribution]) -> dict[str, Any]:
    found = {_name(each.name): each for each in installed}
    refs = {name: _purl(name, each.version) for name, each in sorted(found.items())}
    described = {name: _component(refs[name], found[name]) for name in refs}
    product = described.pop(PRODUCT)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**product, "type": "application"}},
        "components": list(described.values()),
        "dependencies": [{"ref": ref, "dependsOn": _needed(found[name], refs)} for name, ref in refs.items()],
    }


def _component(ref: str, each: Distribution) -> dict[str, Any]:
    told = {"type": "library", "bom-ref": ref, "name": each.name, "version": each.version, "purl": ref}
    metadata = each.metadata
    if "License-Expression" in metadata:
        return {**told, "licenses": [{"expression": metadata["License-Expression"]}]}
    if "License" in metadata and len(metadata["License"]) <= _LONGEST_LICENSE:  # others paste the whole text
        return {**told, "licenses": [{"license": {"name": metadata["License"]}}]}
    return told


def _needed(each: Distribution, refs: Mapping[str, str]) -> list[str]:
    """What is there of what it asks for."""
    asked = {_name(match[0]) for line in each.requires or () if (match := re.match(r"[A-Za-z0-9._-]+", line))}
    return sorted(refs[name] for name in asked if name in refs)


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


_LONGEST_LICENSE = 100


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(sbom(distributions()), indent=1, sort_keys=True) + "\n", "utf-8")
