/** Verifies and signs cards with the official JavaScript SDK of 1.0; see ../../test_signed_cards.py. */

import { readFileSync } from "node:fs";

import { AgentCard, generateAgentCardSignature, verifyAgentCardSignature } from "@a2a-js/sdk";
import * as jose from "jose";

const [, , call, url] = process.argv;

if (call === "verify") {
  const card = await (await fetch(`${url}/.well-known/agent-card.json`)).json();
  const verify = verifyAgentCardSignature(async (kid, jku) => {
    const { keys } = await (await fetch(jku)).json();
    const key = keys.find((each) => each.kid === kid);
    return jose.importJWK(key, key.alg);
  });
  console.debug = () => {};
  await verify(card);
  console.log("verified");
} else {
  const { publicKey, privateKey } = await jose.generateKeyPair(url, { extractable: true });
  const sign = generateAgentCardSignature(privateKey, { alg: url, kid: "theirs", typ: "JOSE" });
  const card = AgentCard.toJSON(AgentCard.fromJSON(JSON.parse(readFileSync(0, "utf8"))));
  const keys = [{ ...(await jose.exportJWK(publicKey)), kid: "theirs" }];
  console.log(JSON.stringify({ card: await sign(card), jwks: { keys } }));
}
