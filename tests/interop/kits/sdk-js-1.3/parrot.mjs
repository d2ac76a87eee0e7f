/**
 * An agent of the official JavaScript SDK (@a2a-js/sdk 1.3.0) that does over gRPC what ../../servers/parrot.py does.
 *
 * Prints HOST:PORT when it is open.
 */

import { randomUUID } from "node:crypto";

import { AgentCard, Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { A2AService, UserBuilder, grpcService } from "@a2a-js/sdk/server/grpc";
import { Server, ServerCredentials } from "@grpc/grpc-js";

const CARD = {
  name: "Parrot",
  capabilities: { streaming: true },
  supportedInterfaces: [{ url: "127.0.0.1:1", protocolBinding: "GRPC", protocolVersion: "1.0" }],
};

class Turn {
  constructor({ taskId, contextId, userMessage, task }, bus) {
    Object.assign(this, { ids: { taskId, contextId }, userMessage, task, bus });
    this.text = userMessage.parts[0].content.value;
  }

  begin() {
    const { taskId: id, contextId } = this.ids;
    const status = { state: "TASK_STATE_SUBMITTED" };
    const history = [Message.toJSON(this.userMessage)];
    this.bus.publish(AgentEvent.task(Task.fromJSON({ id, contextId, status, history })));
  }

  say(text, append, lastChunk) {
    const artifact = { artifactId: "words", parts: [{ text }] };
    this.bus.publish(
      AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON({ ...this.ids, artifact, append, lastChunk })),
    );
  }

  end(state, text) {
    const message = { ...this.ids, messageId: randomUUID(), role: "ROLE_AGENT", parts: [{ text }] };
    const status = { state: `TASK_STATE_${state}`, message: text ? message : undefined };
    this.bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ ...this.ids, status })));
    this.bus.finished();
  }
}

class Parrot {
  async execute(context, bus) {
    const turn = new Turn(context, bus);
    if (turn.task) {
      turn.say(`${turn.text} it is`, false, true);
      return turn.end("COMPLETED");
    }
    turn.begin();
    if (turn.text === "a car") return turn.end("INPUT_REQUIRED", "What colour?");
    if (turn.text === "trouble") return turn.end("FAILED", "Out of words.");
    const words = turn.text.split(" ");
    words.forEach((word, number) => turn.say(`${word} `, number > 0, number === words.length - 1));
    return turn.end("COMPLETED");
  }

  async cancelTask() {}
}

const requestHandler = new DefaultRequestHandler(AgentCard.fromJSON(CARD), new InMemoryTaskStore(), new Parrot());
const server = new Server();
server.addService(A2AService, grpcService({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  process.stdout.write(`127.0.0.1:${port}\n`);
});
