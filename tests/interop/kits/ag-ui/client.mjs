/**
 * AG-UI's agent for agents elsewhere (@ag-ui/a2a, on @a2a-js/sdk 0.2), to be told what to say; see ../../test_kits.py.
 */

import { createInterface } from "node:readline";

import { A2AClient } from "@a2a-js/sdk/client";
import { A2AAgent } from "@ag-ui/a2a";

const talks = new Map();

/** Artifacts pass through as they are; messages become the agent's words. */
function pieceOf({ type, event, delta }) {
  if (type === "TEXT_MESSAGE_CONTENT") return delta;
  if (type !== "RAW" || event.kind !== "artifact-update") return "";
  return event.artifact.parts.map(({ text }) => text).join("");
}

async function run({ agent }, text) {
  const pieces = [];
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  await agent.runAgent({}, { onEvent: ({ event }) => void pieces.push(pieceOf(event)) });
  return pieces.filter(Boolean);
}

const CALLS = {
  connect: async (_, { url, on }) => {
    const a2aClient = new A2AClient(url);
    talks.set(on, { a2aClient, agent: new A2AAgent({ a2aClient }) });
    return [null];
  },
  card: async ({ a2aClient }) => [(await a2aClient.getAgentCard()).description],
  say: async (talk, { text }) => [{ text: (await run(talk, text)).join(""), state: "" }],
  stream: async (talk, { text }) => [null, ...(await run(talk, text))],
};

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function answer({ id, on, call, with: details }) {
  try {
    const [result, ...items] = await CALLS[call](talks.get(on), { ...details, on });
    for (const item of items) say({ id, item });
    say({ id, result });
  } catch (error) {
    say({ id, error: { type: error.constructor.name, message: error.message } });
  }
}

for await (const line of createInterface({ input: process.stdin })) void answer(JSON.parse(line));
process.exit(0);
