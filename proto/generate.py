"""Make the package `a2a_proto` from the protos beside this file, or with --check tell whether it is stale.

Compiled in two steps. protoc first writes a descriptor set, because JSON names belong in the descriptor we share with
the SDK; the Python code is then made from that set.
"""

import argparse
import re
import sys
import sysconfig
import tempfile
from importlib.resources import files
from pathlib import Path

import google.api
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
GENERATED = PROTO.parent / "generated" / "a2a_proto"
SOURCES = ("a2a.proto", "a2a_v0_3.proto", "discovery.proto", "peers.proto")
# protoc emits top-level imports of sibling modules; they live in the package.
SIBLING_IMPORT = re.compile(r"^import (a2a_pb2|a2a_v0_3_pb2|discovery_pb2|peers_pb2) as", re.MULTILINE)
INIT = '"""Messages and gRPC services made from proto/ by `make gen`; never edited."""\n'


def main() -> int:
    """Write or check the package; the exit status says whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the committed package is stale")
    check = parser.parse_args().check
    made, found = generate(), committed()
    stale = sorted(name for name in made.keys() | found.keys() if made.get(name) != found.get(name))
    if check:
        for name in stale:
            print(f"stale: generated/a2a_proto/{name}; run `make gen` and commit the result", file=sys.stderr)
        return bool(stale)
    GENERATED.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in made:
            (GENERATED / name).write_text(made[name], encoding="utf-8")
        else:
            (GENERATED / name).unlink()
        print(f"generated/a2a_proto/{name}")
    return 0


def committed() -> dict[str, str]:
    """Return the package as it is, by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in GENERATED.glob("*") if path.is_file()}


def generate() -> dict[str, str]:
    """Return the package as it ought to be, by file name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        descriptors = out / "descriptors.binpb"
        describe(descriptors)
        run(
            f"--descriptor_set_in={descriptors}",
            f"--plugin=protoc-gen-mypy_grpc={Path(sysconfig.get_path('scripts')) / 'protoc-gen-mypy_grpc'}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_grpc_out=quiet,only_async:{out}",  # only grpc.aio is used
        )
        descriptors.unlink()
        modules = {path.name: path.read_text(encoding="utf-8") for path in out.iterdir()}
    rewritten = {name: SIBLING_IMPORT.sub(r"from a2a_proto import \1 as", text) for name, text in modules.items()}
    return rewritten | {"__init__.py": INIT, "py.typed": ""}


def describe(target: Path) -> None:
    """Write the descriptors of our protos and of all they import."""
    googleapis = Path(next(iter(google.api.__path__))).parent.parent
    run(
        f"-I{PROTO}",
        f"-I{googleapis}",
        f"-I{files('grpc_tools') / '_proto'}",
        "--include_imports",
        "--include_source_info",  # our comments become docstrings
        f"--descriptor_set_out={target}",
    )
    descriptors = FileDescriptorSet.FromString(target.read_bytes())
    unpack_field_behavior(descriptors)
    target.write_bytes(descriptors.SerializeToString(deterministic=True))


def unpack_field_behavior(descriptors: FileDescriptorSet) -> None:
    """Declare google.api.field_behavior as upstream does, unpacked.

    The PyPI copy has lost that, and every field it annotates would be serialized differently.
    """
    for file in descriptors.file:
        for extension in file.extension:
            if (file.package, extension.name) == ("google.api", "field_behavior"):
                extension.options.packed = False


def run(*arguments: str) -> None:
    """Run protoc over our protos."""
    if status := protoc.main(["protoc", *arguments, *SOURCES]):
        sys.exit(status)


if __name__ == "__main__":
    sys.exit(main())
