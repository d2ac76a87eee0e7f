/**
 * The official JavaScript client of 1.0 (@a2a-js/sdk 1.3.0), to be told what to call; see ../../clients/told.py.
 */

import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";

import { AgentCard, Message, SendMessageRequest, StreamResponse, Task } from "@a2a-js/sdk";
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";

const TRANSPORTS = [JsonRpcTransportFactory, RestTransportFactory, GrpcTransportFactory];
const connections = new Map();

function connect({ url, transport }) {
  const transports = TRANSPORTS.map((Factory) => new Factory());
  return new ClientFactory({ transports, preferredTransports: [transport] }).createFromUrl(url);
}

/** Parts come as 0.3 has them; those of the tests are texts. */
function sent({ parts, task, context, skill, wait }) {
  const texts = parts.map(({ text }) => ({ text }));
  const message = { role: "ROLE_USER", messageId: randomUUID(), parts: texts, taskId: task, contextId: context };
  return SendMessageRequest.fromJSON({ message, configuration: { returnImmediately: !wait }, metadata: { skill } });
}

const CALLS = {
  card: async (client) => AgentCard.toJSON(await client.getAgentCard()),
  send: async (client, told) => {
    const answer = await client.sendMessage(sent(told));
    return "status" in answer ? Task.toJSON(answer) : Message.toJSON(answer);
  },
};

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function answer({ id, on, call, with: details }) {
  try {
    if (call === "connect") {
      connections.set(on, await connect(details));
      say({ id, result: null });
    } else if (call === "stream") {
      const stream = connections.get(on).sendMessageStream(sent(details));
      for await (const item of stream) say({ id, item: StreamResponse.toJSON(item) });
      say({ id, result: null });
    } else {
      say({ id, result: await CALLS[call](connections.get(on), details) });
    }
  } catch (error) {
    say({ id, error: { type: error.constructor.name, message: error.message } });
  }
}

for await (const line of createInterface({ input: process.stdin })) void answer(JSON.parse(line));
process.exit(0);
