"""Handles members that a generated reader does not find by name: snake_case, null, unknown (JSON-03, -04, GEN-06)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.descriptor import Descriptor

from a2a_server.protocol.codec.dialect import Complaint, Dialect, choice, is_nullable
from a2a_server.protocol.codec.faults import Faults, with_fault


def clash(faults: Faults | None, path: str, other: str, members: str) -> Faults:
    """Add the fault that two members of one oneof are given."""
    return with_fault(faults, path, f"can't be given together with {other}; only one of {members} may be")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Finds the members that a generated reader has left, because it looks only for the names it would write."""

    names: Mapping[str, str]
    """Other name → written name."""
    nullable: frozenset[str]
    rivals: Mapping[str, tuple[str, ...]]
    """Member → all members of its oneof."""
    foreign: Mapping[str, Complaint] = field(default_factory=dict)
    """Members of other dialects, and why they are refused."""

    @classmethod
    def of(cls, kind: Descriptor, dialect: Dialect) -> Leftovers:
        written = {field: dialect.member(field) for field in dialect.fields(kind)}
        names = {other: name for field, name in written.items() for other in dialect.also(field)}
        oneofs = {field: oneof for field in written if (oneof := choice(field))}
        return cls(
            {other: name for other, name in names.items() if other not in written.values()},
            frozenset(name for field, name in written.items() if is_nullable(field)),
            {
                written[field]: tuple(written[rival] for rival in oneof.fields if rival in written)
                for field, oneof in oneofs.items()
            },
            dialect.foreign.get(kind.full_name, {}),
        )

    def __call__(self, value: dict[str, object], faults: Faults | None) -> tuple[dict[str, object], Faults | None]:
        """Return members under the names that are written, without null and unknown ones."""
        found: dict[str, object] = {}
        given: dict[str, str] = {}
        for other, item in value.items():
            name = self.names.get(other)
            if name is None:
                if other in self.foreign and item is not None:
                    faults = self._refuse(other, value, faults)
                continue
            first = name if name in value else given.setdefault(name, other)
            if first != other:
                faults = with_fault(faults, f".{name}", f"is given twice, as {first} and as {other}")
            elif item is not None or name in self.nullable:
                found[name] = item
                faults = self._compare(name, value, faults)
        return found, faults

    def _refuse(self, other: str, value: dict[str, object], faults: Faults | None) -> Faults | None:
        complaint = self.foreign[other]
        said = complaint if isinstance(complaint, str) else complaint(value)
        return with_fault(faults, f".{other}", said) if said else faults

    def _compare(self, name: str, value: dict[str, object], faults: Faults | None) -> Faults | None:
        """Add a fault if another member of the same oneof has been read before."""
        rivals = self.rivals.get(name, ())
        for rival in rivals:
            if rival in value and (value[rival] is not None or rival in self.nullable):
                return clash(faults, f".{name}", rival, ", ".join(rivals))
        return faults
