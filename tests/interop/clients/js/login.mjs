/**
 * The official JavaScript client of 0.3, which logs in when it is refused: URL, transport, client id, client secret.
 *
 * It knows nothing but these. The challenge leads to the resource's metadata, that to the authorization server, and its
 * metadata to where tokens are granted. Prints what the client was answered, and how often it has logged in.
 */

import { randomUUID } from "node:crypto";

import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
  createAuthenticatingFetchWithRetry,
} from "@a2a-js/sdk/client";

const [url, transport, clientId, clientSecret] = process.argv.slice(2);
const Factory = transport === "JSONRPC" ? JsonRpcTransportFactory : RestTransportFactory;

let token = "";
let logins = 0;

async function json(address, options) {
  const response = await fetch(address, options);
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  return response.json();
}

async function login(challenge) {
  const [, metadata] = /resource_metadata="([^"]+)"/.exec(challenge);
  const resource = await json(metadata);
  const issuer = resource.authorization_servers[0];
  const { token_endpoint } = await json(`${issuer}/.well-known/openid-configuration`);
  const granted = await json(token_endpoint, {
    method: "POST",
    body: new URLSearchParams({ grant_type: "client_credentials", scope: resource.scopes_supported.join(" ") }),
    headers: { Authorization: `Basic ${btoa(`${clientId}:${clientSecret}`)}` },
  });
  logins += 1;
  return granted.access_token;
}

const authenticating = createAuthenticatingFetchWithRetry(fetch, {
  headers: async () => (token ? { Authorization: `Bearer ${token}` } : {}),
  shouldRetryWithHeaders: async (_, response) => {
    if (response.status !== 401) return undefined;
    return { Authorization: `Bearer ${await login(response.headers.get("WWW-Authenticate"))}` };
  },
  onSuccessfulRetry: async (headers) => {
    token = headers.Authorization.replace("Bearer ", "");
  },
});

const factory = new ClientFactory({
  transports: [new Factory({ fetchImpl: authenticating })],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl: fetch }),
});
const client = await factory.createFromUrl(url);
const message = { kind: "message", role: "user", messageId: randomUUID(), parts: [{ kind: "text", text: "hello" }] };
const task = await client.sendMessage({ message, configuration: { blocking: true } });
const again = await client.getTask({ id: task.id });
process.stdout.write(JSON.stringify({ state: again.status.state, logins, schemes: client.agentCard?.securitySchemes }));
