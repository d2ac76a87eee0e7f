"""The scratch proto, compiled when the tests run: nothing of it exists when the gateway is written."""

import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

import google.api
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

HERE = Path(__file__).parent
GOOGLEAPIS = Path(next(iter(google.api.__path__))).parent.parent


def compiled(folder: Path, name: str) -> FileDescriptor:
    """Compile a proto file and load it, with all it imports, into a pool of its own."""
    with tempfile.TemporaryDirectory() as out:
        target = Path(out) / "set.binpb"
        paths = [f"-I{folder}", f"-I{GOOGLEAPIS}", f"-I{files('grpc_tools') / '_proto'}"]
        assert protoc.main(["protoc", *paths, "--include_imports", f"--descriptor_set_out={target}", name]) == 0
        described = FileDescriptorSet.FromString(target.read_bytes())
    pool = DescriptorPool()
    for file in described.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool.FindFileByName(name)


@cache
def scratch() -> FileDescriptor:
    return compiled(HERE, "scratch.proto")


def library() -> ServiceDescriptor:
    return scratch().services_by_name["Library"]


def kind(name: str) -> type[Message]:
    return GetMessageClass(scratch().message_types_by_name[name])


def of_source(folder: Path, rpcs: str, types: str = "") -> ServiceDescriptor:
    """Compile a service of these RPCs, whose messages are `Thing` and the given types."""
    (folder / "small.proto").write_text(
        f"""
        syntax = "proto3";
        package small;
        import "google/api/annotations.proto";
        message Part {{ string id = 1; }}
        message Thing {{
          string id = 1;
          Part part = 2;
          repeated string ids = 3;
          map<string, string> labels = 4;
          Thing inner = 5;
        }}
        {types}
        service Small {{ {rpcs} }}
        """,
        encoding="utf-8",
    )
    return compiled(folder, "small.proto").services_by_name["Small"]
