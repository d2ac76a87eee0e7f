"""The vendored protos are those everybody else uses, and generated/ is made from them (spec: MSGS-01, GRPC-01/02)."""

import subprocess
import sys
from pathlib import Path

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as sdk_a2a_v0_3_pb2
from a2a.types import a2a_pb2 as sdk_a2a_pb2
from google.api.annotations_pb2 import http
from google.api.field_behavior_pb2 import REQUIRED, field_behavior
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from a2a_proto import a2a_pb2, a2a_v0_3_pb2, discovery_pb2

ROOT = Path(__file__).parents[2]

IMPORT_GENERATED = "from a2a_proto import a2a_pb2, a2a_pb2_grpc, a2a_v0_3_pb2, a2a_v0_3_pb2_grpc, discovery_pb2_grpc"
IMPORT_SDK = "from a2a.types import a2a_pb2 as sdk; from a2a.compat.v0_3 import a2a_v0_3_pb2 as sdk_v0_3"
SAME_CLASSES = """
for ours, theirs in ((a2a_pb2, sdk), (a2a_v0_3_pb2, sdk_v0_3)):
    for name in ours.DESCRIPTOR.message_types_by_name:
        assert getattr(ours, name) is getattr(theirs, name), name
"""


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(a2a_pb2.DESCRIPTOR, sdk_a2a_pb2.DESCRIPTOR, id="1.0"),
        pytest.param(a2a_v0_3_pb2.DESCRIPTOR, sdk_a2a_v0_3_pb2.DESCRIPTOR, id="0.3"),
    ],
)
def test_the_compiled_file_is_the_sdks(ours: FileDescriptor, theirs: FileDescriptor) -> None:
    """The pool holds one file per name, so what is compared is what each module asked it to add."""
    source = Path(sys.modules[f"a2a_proto.{ours.name.removesuffix('.proto')}_pb2"].__file__ or "")
    sdk_source = next(
        Path(module.__file__ or "")
        for module in (sdk_a2a_pb2, sdk_a2a_v0_3_pb2)
        if module.DESCRIPTOR.name == theirs.name
    )
    assert added(source) == added(sdk_source)
    assert ours.serialized_pb == theirs.serialized_pb


def added(module: Path) -> str:
    """Return the literal that a generated module hands to the descriptor pool."""
    (line,) = (line for line in module.read_text("utf-8").splitlines() if line.startswith("DESCRIPTOR = "))
    return line


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param((IMPORT_GENERATED, IMPORT_SDK), id="ours first"),
        pytest.param((IMPORT_SDK, IMPORT_GENERATED), id="the SDK first"),
    ],
)
def test_one_process_has_one_set_of_classes(imports: tuple[str, str], tmp_path: Path) -> None:
    """From another folder: the package is installed, not found by luck."""
    program = "\n".join((*imports, SAME_CLASSES))
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, check=True)


def test_generated_is_fresh() -> None:
    check = [sys.executable, str(ROOT / "proto" / "generate.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.req("MSGS-01")
def test_every_message_has_the_specified_fields() -> None:
    table = (Path(__file__).parent / "messages_v1.txt").read_text("utf-8")
    _, *specified = table.strip().split("\n\n")
    assert sorted(specified) == sorted(map(written, a2a_pb2.DESCRIPTOR.message_types_by_name.values()))


def written(message: Descriptor) -> str:
    fields = sorted(message.fields, key=lambda field: field.number)
    return "\n".join((message.name, *(f"  {written_field(field)}" for field in fields)))


def written_field(field: FieldDescriptor) -> str:
    words = [field.name, str(field.number), written_type(field)]
    oneof = field.containing_oneof
    if oneof and oneof.name.startswith("_"):  # how protobuf models `optional`
        words.append("optional")
    elif oneof:
        words.append(f"in {oneof.name}")
    if REQUIRED in field.GetOptions().Extensions[field_behavior]:
        words.append("required")
    return " ".join(words)


def written_type(field: FieldDescriptor) -> str:
    message, enum = field.message_type, field.enum_type
    if message and message.GetOptions().map_entry:
        key, value = (written_type(message.fields_by_name[name]) for name in ("key", "value"))
        return f"map<{key},{value}>"
    scalar = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()  # type: ignore[arg-type]
    name = message.name if message else enum.name if enum else scalar
    return f"{name}[]" if field.is_repeated else name


@pytest.mark.req("MSGS-01")
def test_every_json_name_is_the_camel_case_of_the_fields() -> None:
    for message in a2a_pb2.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            first, *rest = field.name.split("_")
            assert field.json_name == first + "".join(word.capitalize() for word in rest)


@pytest.mark.req("MSGS-01")
def test_the_enums_have_the_specified_numbers() -> None:
    states = ["SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED", "REJECTED", "AUTH_REQUIRED"]
    assert a2a_pb2.TaskState.items() == [
        (f"TASK_STATE_{name}", number) for number, name in enumerate(["UNSPECIFIED", *states])
    ]
    assert a2a_pb2.Role.items() == [("ROLE_UNSPECIFIED", 0), ("ROLE_USER", 1), ("ROLE_AGENT", 2)]


@pytest.mark.req("GRPC-01")
def test_the_service_has_the_eleven_rpcs() -> None:
    service = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
    assert service.full_name == "lf.a2a.v1.A2AService"
    assert {method.name: method.server_streaming for method in service.methods} == {
        "SendMessage": False,
        "SendStreamingMessage": True,
        "GetTask": False,
        "ListTasks": False,
        "CancelTask": False,
        "SubscribeToTask": True,
        "CreateTaskPushNotificationConfig": False,
        "GetTaskPushNotificationConfig": False,
        "ListTaskPushNotificationConfigs": False,
        "DeleteTaskPushNotificationConfig": False,
        "GetExtendedAgentCard": False,
    }
    assert not any(method.client_streaming for method in service.methods)


@pytest.mark.req("GRPC-02")
def test_push_configs_are_created_from_themselves_and_deleted_to_nothing() -> None:
    methods = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods_by_name
    create, delete = (methods[f"{verb}TaskPushNotificationConfig"] for verb in ("Create", "Delete"))
    assert create.input_type is create.output_type
    assert create.output_type.full_name == "lf.a2a.v1.TaskPushNotificationConfig"
    assert delete.output_type.full_name == "google.protobuf.Empty"


def test_every_rpc_has_a_plain_and_a_tenant_route() -> None:
    services = (
        a2a_pb2.DESCRIPTOR.services_by_name["A2AService"],
        *discovery_pb2.DESCRIPTOR.services_by_name.values(),
    )
    for service in services:
        for method in service.methods:
            plain, tenant = routes(method)
            assert tenant == f"/{{tenant}}{plain}"


STATUS, UPDATE = a2a_pb2.TaskStatus.DESCRIPTOR, a2a_pb2.TaskStatusUpdateEvent.DESCRIPTOR


def routes(method: MethodDescriptor) -> list[str]:
    rule = method.GetOptions().Extensions[http]
    return [getattr(binding, binding.WhichOneof("pattern") or "") for binding in (rule, *rule.additional_bindings)]


def test_the_older_service_has_its_ten_rpcs() -> None:
    service = a2a_v0_3_pb2.DESCRIPTOR.services_by_name["A2AService"]
    assert service.full_name == "a2a.v1.A2AService"
    assert {method.name: method.server_streaming for method in service.methods} == {
        "SendMessage": False,
        "SendStreamingMessage": True,
        "GetTask": False,
        "CancelTask": False,
        "TaskSubscription": True,
        "CreateTaskPushNotificationConfig": False,
        "GetTaskPushNotificationConfig": False,
        "ListTaskPushNotificationConfig": False,
        "DeleteTaskPushNotificationConfig": False,
        "GetAgentCard": False,
    }


def test_a_status_holds_what_is_written_by_hand() -> None:
    """`domain/pieces.py` writes statuses that say nothing but when; a member that is added must not vanish there."""
    fields = {kind.name: [field.name for field in kind.fields] for kind in (STATUS, UPDATE)}
    assert fields == {
        "TaskStatus": ["state", "message", "timestamp"],
        "TaskStatusUpdateEvent": ["task_id", "context_id", "status", "metadata"],
    }


def test_discovery_answers_the_card_at_the_well_known_address() -> None:
    (method,) = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"].methods
    assert method.output_type is a2a_pb2.AgentCard.DESCRIPTOR
    assert routes(method)[0] == "/.well-known/agent-card.json"


def test_what_0_2_asks_stands_for_what_1_0_has() -> None:
    services = discovery_pb2.DESCRIPTOR.services_by_name
    meant = {
        method.name: method
        for service in (services["Discovery"], a2a_pb2.DESCRIPTOR.services_by_name["A2AService"])
        for method in service.methods
    }
    for method in services["OldDiscovery"].methods:
        assert method.input_type is meant[method.name].input_type
        assert method.output_type is meant[method.name].output_type
