/**
 * A receiver of webhooks with the official JavaScript SDK (@a2a-js/sdk 1.3.0), to be told what to do; see ../hook.py.
 *
 * Bodies of 1.0 are read by its StreamResponse, those of 0.3 by the function that it has for receivers. With `jwks`,
 * signatures are verified by jose, which the SDK brings.
 */

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

import { StreamResponse, taskStateToJSON } from "@a2a-js/sdk";
import { legacyPushNotificationToV1StreamResponse } from "@a2a-js/sdk/compat/v0_3";
import { createRemoteJWKSet, jwtVerify } from "jose";

const JUDGES = {
  "1.0": (body) => {
    const event = StreamResponse.fromJSON(body);
    const again = StreamResponse.toJSON(event);
    if (Object.keys(again).join() !== Object.keys(body).join()) throw new Error(`read as ${JSON.stringify(again)}`);
    return event;
  },
  0.3: legacyPushNotificationToV1StreamResponse,
};
const receivers = new Map();

function part({ content }) {
  const { $case, value } = content;
  return $case === "raw" ? ["file", Buffer.from(value).toString("base64")] : [$case, value];
}

function found({ payload }) {
  const { $case: kind, value } = payload;
  const { artifact, artifacts = artifact ? [artifact] : [], status } = value;
  const state = status ? taskStateToJSON(status.state).replace("TASK_STATE_", "").replaceAll("_", "-").toLowerCase() : "";
  const asked = (status?.message?.parts ?? []).map(({ content }) => content.value);
  const parts = artifacts.flatMap(({ parts }) => parts.map(part));
  return { kind, task: value.id ?? value.taskId, state, parts, asked };
}

async function verify({ headers }, body, { jwks, url }) {
  const [, token] = headers.authorization.split(" ");
  const { payload } = await jwtVerify(token, createRemoteJWKSet(new URL(jwks)), { audience: url, algorithms: ["ES256"] });
  if (payload.bodySha256 !== createHash("sha256").update(body).digest("hex")) throw new Error("another body");
  return { signed: payload.taskId };
}

async function take(on, request, body) {
  const told = { number: Number(request.headers["a2a-event-number"]) };
  try {
    if (request.headers["x-a2a-notification-token"] !== on.token) return { ...told, status: 401 };
    const signed = on.jwks ? await verify(request, body, on) : {};
    return { ...told, status: 204, ...found(on.judge(JSON.parse(body))), ...signed };
  } catch (error) {
    return { ...told, status: 400, fault: String(error) };
  }
}

function connect({ judge }) {
  const on = { judge: JUDGES[judge], arrived: [], tell: (told) => on.arrived.push(told) };
  return on;
}

function listen(on, { token, jwks }) {
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    const told = await take(on, request, body);
    on.tell(told);
    response.writeHead(told.status).end();
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      Object.assign(on, { token, jwks, url: `http://127.0.0.1:${server.address().port}/hook` });
      resolve(on.url);
    });
  });
}

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function answer({ id, on, call, with: details }) {
  try {
    if (call === "connect") receivers.set(on, connect(details));
    const receiver = receivers.get(on);
    if (call === "received") {
      receiver.tell = (item) => say({ id, item });
      receiver.arrived.forEach(receiver.tell);
    } else {
      say({ id, result: call === "listen" ? await listen(receiver, details) : null });
    }
  } catch (error) {
    say({ id, error: { type: error.constructor.name, message: error.message } });
  }
}

for await (const line of createInterface({ input: process.stdin })) void answer(JSON.parse(line));
process.exit(0);
