/**
 * The official JavaScript client of 0.3 (@a2a-js/sdk 0.3.14), to be told what to call; see ../told.py.
 */

import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";

import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";

const TRANSPORTS = [JsonRpcTransportFactory, RestTransportFactory, GrpcTransportFactory];
const connections = new Map();

async function connect({ url, transport, token, extensions }) {
  const transports = TRANSPORTS.map((Factory) => new Factory());
  const factory = new ClientFactory({ transports, preferredTransports: [transport] });
  const serviceParameters = {};
  if (token) serviceParameters.Authorization = `Bearer ${token}`;
  if (extensions.length) serviceParameters["X-A2A-Extensions"] = extensions.join();
  return { client: await factory.createFromUrl(url), options: { serviceParameters } };
}

function sent({ parts, task, context, skill, wait, history, accepts, push }) {
  const message = { kind: "message", role: "user", messageId: randomUUID(), parts };
  if (task) message.taskId = task;
  if (context) message.contextId = context;
  const configuration = { blocking: wait };
  if (accepts.length) configuration.acceptedOutputModes = accepts;
  if (history !== null) configuration.historyLength = history;
  if (push) configuration.pushNotificationConfig = push;
  return { message, configuration, metadata: { skill } };
}

const CALLS = {
  card: async ({ client }) => client.agentCard,
  extended_card: ({ client, options }) => client.getAgentCard(options),
  send: ({ client, options }, told) => client.sendMessage(sent(told), options),
  get: ({ client, options }, { task, history }) =>
    client.getTask(history === null ? { id: task } : { id: task, historyLength: history }, options),
  cancel: ({ client, options }, { task }) => client.cancelTask({ id: task }, options),
  set_push: ({ client, options }, { task, config }) =>
    client.setTaskPushNotificationConfig({ taskId: task, pushNotificationConfig: config }, options),
  get_push: ({ client, options }, { task, config }) =>
    client.getTaskPushNotificationConfig({ id: task, pushNotificationConfigId: config }, options),
  list_push: ({ client, options }, { task }) => client.listTaskPushNotificationConfig({ id: task }, options),
  delete_push: ({ client, options }, { task, config }) =>
    client.deleteTaskPushNotificationConfig({ id: task, pushNotificationConfigId: config }, options),
};

const STREAMS = {
  stream: ({ client, options }, told) => client.sendMessageStream(sent(told), options),
  subscribe: ({ client, options }, { task }) => client.resubscribeTask({ id: task }, options),
};

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function answer({ id, on, call, with: details }) {
  try {
    if (call === "connect") {
      connections.set(on, await connect(details));
      say({ id, result: null });
      return;
    }
    const connection = connections.get(on);
    if (call in STREAMS) {
      for await (const item of STREAMS[call](connection, details)) say({ id, item });
      say({ id, result: null });
    } else {
      say({ id, result: (await CALLS[call](connection, details)) ?? null });
    }
  } catch (error) {
    const found = error.errorResponse?.error ?? {};
    say({ id, error: { type: error.constructor.name, message: error.message, code: found.code, data: found.data } });
  }
}

for await (const line of createInterface({ input: process.stdin })) void answer(JSON.parse(line));
process.exit(0);
