"""Call an agent over gRPC: python examples/call.py "Hello!" [--skill ID] [--task ID] [--context ID] [--file PATH]."""

import argparse
import asyncio
import mimetypes
import uuid
from pathlib import Path

import grpc

from a2a_proto import a2a_pb2 as pb
from a2a_proto.a2a_pb2_grpc import A2AServiceStub

METADATA = (("a2a-version", "1.0"),)

mimetypes.add_type("text/markdown", ".md")  # not every system knows it


def request_of(args: argparse.Namespace) -> pb.SendMessageRequest:
    message = pb.Message(message_id=str(uuid.uuid4()), role=pb.ROLE_USER, task_id=args.task, context_id=args.context)
    if args.text:
        message.parts.add(text=args.text)
    for path in args.file:
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        message.parts.add(raw=path.read_bytes(), filename=path.name, media_type=kind)
    request = pb.SendMessageRequest(message=message)
    if args.skill:
        request.metadata["skill"] = args.skill
    return request


async def call(args: argparse.Namespace) -> None:
    request = request_of(args)
    async with grpc.aio.insecure_channel(args.server) as channel:
        agent = A2AServiceStub(channel)
        if args.stream:
            async for event in agent.SendStreamingMessage(request, metadata=METADATA):
                print(event)
        else:
            print(await agent.SendMessage(request, metadata=METADATA))


def main() -> None:
    parser = argparse.ArgumentParser(description="Send one message to an A2A agent.")
    parser.add_argument("text", nargs="?", default="", help="the message")
    parser.add_argument("--skill", default="", help="the skill to run")
    parser.add_argument("--stream", action="store_true", help="print events as they come")
    parser.add_argument("--task", default="", help="the task to continue")
    parser.add_argument("--context", default="", help="the conversation to go on with")
    parser.add_argument("--file", action="append", default=[], type=Path, help="a file to send along")
    parser.add_argument("--server", default="127.0.0.1:50051", help="host:port")
    try:
        asyncio.run(call(parser.parse_args()))
    except grpc.aio.AioRpcError as error:
        parser.exit(1, f"{error.code().name}: {error.details()}\n")


if __name__ == "__main__":
    main()
