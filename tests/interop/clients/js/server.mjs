/**
 * An agent of the official JavaScript SDK, of 0.3 (@a2a-js/sdk 0.3.14) or 1.0 (1.3.0) as its argument says, on all doors.
 *
 * What it does depends on what is said. Prints its URL when it is open.
 */

import { once } from "node:events";
import { randomUUID } from "node:crypto";
import { argv, stdout } from "node:process";

import * as current from "@a2a-js/sdk-1.0";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import express from "express";

const CARD = {
  name: "Parrot",
  description: "Says it again.",
  version: "1.2.3",
  capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
  supportsAuthenticatedExtendedCard: true,
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [{ id: "talk", name: "Talk", description: "Says it again.", tags: ["test"] }],
};
const DIALECTS = {
  0.3: {
    sdk: "@a2a-js/sdk",
    partsOf: (message) => message.parts,
    bytesOf: ({ file }) => file?.bytes,
    state: (name) => name,
    role: "agent",
    event: (kind, value) => ({ kind, ...value }),
    again: (task) => task,
    card: ([first, ...others]) => ({
      ...CARD,
      protocolVersion: "0.3.0",
      url: first.url,
      preferredTransport: first.transport,
      additionalInterfaces: others,
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
    }),
  },
  "1.0": {
    sdk: "@a2a-js/sdk-1.0",
    partsOf: (message) => current.Message.toJSON(message).parts,
    bytesOf: ({ raw }) => raw,
    state: (name) => `TASK_STATE_${name.toUpperCase().replace("-", "_")}`,
    role: "ROLE_AGENT",
    event: (kind, value) => EVENTS[kind](value),
    again: (task) => AgentEvent.task(task),
    card: (doors) =>
      current.AgentCard.fromJSON({
        ...CARD,
        supportedInterfaces: doors.map(({ url, transport }) => ({
          url,
          protocolBinding: transport,
          protocolVersion: "1.0",
        })),
        securitySchemes: {
          token: { httpAuthSecurityScheme: { scheme: "bearer" } },
          login: { oauth2SecurityScheme: { flows: { clientCredentials: { tokenUrl: "https://example.com/token" } } } },
        },
      }),
  },
};
const dialect = DIALECTS[argv[2]];
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = await import(`${dialect.sdk}/server`);
const { agentCardHandler, jsonRpcHandler, restHandler } = await import(`${dialect.sdk}/server/express`);
const { A2AService, grpcService } = await import(`${dialect.sdk}/server/grpc`);

const EVENTS = {
  message: (value) => AgentEvent.message(current.Message.fromJSON(value)),
  task: (value) => AgentEvent.task(current.Task.fromJSON(value)),
  "status-update": (value) => AgentEvent.statusUpdate(current.TaskStatusUpdateEvent.fromJSON(value)),
  "artifact-update": (value) => AgentEvent.artifactUpdate(current.TaskArtifactUpdateEvent.fromJSON(value)),
};

class Turn {
  constructor({ taskId, contextId, userMessage, task, context }, bus) {
    const parts = dialect.partsOf(userMessage);
    Object.assign(this, { ids: { taskId, contextId }, task, bus, parts, text: parts[0].text, user: context.user });
  }

  publish(kind, value) {
    this.bus.publish(dialect.event(kind, value));
  }

  /** 1.0 wants every turn to begin with the task. */
  begin() {
    const { taskId: id, contextId } = this.ids;
    if (this.task) return this.bus.publish(dialect.again(this.task));
    this.publish("task", { id, contextId, status: { state: dialect.state("submitted") } });
  }

  message(text) {
    const parts = [{ kind: "text", text }];
    return { kind: "message", messageId: randomUUID(), role: dialect.role, contextId: this.ids.contextId, parts };
  }

  reply(text) {
    this.publish("message", this.message(text));
    this.bus.finished();
  }

  say(text, append, lastChunk) {
    this.give([{ kind: "text", text }], append, lastChunk);
  }

  give(parts, append, lastChunk) {
    const artifact = { artifactId: "words", parts };
    this.publish("artifact-update", { ...this.ids, artifact, append, lastChunk });
  }

  become(state, { text, final = true } = {}) {
    const message = text && { ...this.message(text), ...this.ids };
    this.publish("status-update", { ...this.ids, status: { state: dialect.state(state), message }, final });
    if (final) this.bus.finished();
  }
}

class Parrot {
  waiting = new Map();

  async execute(context, bus) {
    const turn = new Turn(context, bus);
    if (turn.text === "no task") return turn.reply("none it is");
    if (turn.text === "who") return turn.reply(turn.user.userName);
    turn.begin();
    if (turn.task) {
      turn.say(`${turn.text} it is`, false, true);
      return turn.become("completed");
    }
    if (turn.text === "a car") return turn.become("input-required", { text: "What colour?" });
    if (turn.text === "wait") return this.wait(turn);
    if (turn.text === "mirror") return this.mirror(turn);
    const words = turn.text.split(" ");
    words.forEach((word, number) => turn.say(word, number > 0, number === words.length - 1));
    return turn.become("completed");
  }

  /** Give all parts back, and say what the bytes of files are. */
  mirror(turn) {
    const bytes = turn.parts.map(dialect.bytesOf).filter((found) => found);
    const told = bytes.map((found) => ({ kind: "text", text: Buffer.from(found, "base64").toString("hex") }));
    turn.give([...turn.parts, ...told], false, true);
    turn.become("completed");
  }

  async cancelTask(task) {
    this.waiting.get(task)();
  }

  async wait(turn) {
    turn.become("working", { final: false });
    await new Promise((resolve) => this.waiting.set(turn.ids.taskId, resolve));
    turn.become("canceled");
  }
}

const app = express();
const http = app.listen(0, "127.0.0.1");
await once(http, "listening");
const url = `http://127.0.0.1:${http.address().port}`;
const grpc = new Server();
const port = await new Promise((resolve, reject) => {
  grpc.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, at) => (error ? reject(error) : resolve(at)));
});
const card = dialect.card([
  { transport: "JSONRPC", url: `${url}/jsonrpc` },
  { transport: "HTTP+JSON", url: `${url}/rest` },
  { transport: "GRPC", url: `127.0.0.1:${port}` },
]);
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Parrot());
const user = (header = "nobody") => ({ isAuthenticated: true, userName: header });
const options = { requestHandler, userBuilder: async ({ headers }) => user(headers.authorization) };
const userBuilder = async ({ metadata }) => user(metadata.get("authorization")[0]);
grpc.addService(A2AService, grpcService({ requestHandler, userBuilder }));
app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
app.use("/jsonrpc", jsonRpcHandler(options));
app.use("/rest", restHandler(options));
stdout.write(`${url}\n`);
