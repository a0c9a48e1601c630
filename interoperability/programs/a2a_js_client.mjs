// The official SDK for JavaScript. trying.py says what is tried and printed.
import { randomUUID } from "node:crypto";
import { Role, TaskState } from "@a2a-js/sdk";
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
} from "@a2a-js/sdk/client";

const { PARLEY_URL, KEY } = process.env;
const [ECHO, COUNTDOWN] = [`${PARLEY_URL}/echo`, `${PARLEY_URL}/countdown`];

async function client(url) {
  const fetchImpl = (target, options = {}) => {
    const headers = new Headers(options.headers);
    headers.set("Authorization", `Bearer ${KEY}`);
    return fetch(target, { ...options, headers });
  };
  const factory = new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
    }),
  );
  return factory.createFromUrl(`${url}/.well-known/agent-card.json`, "");
}

const text = (words) => ({ content: { $case: "text", value: words }, filename: "", mediaType: "text/plain" });
const EMPTY = { taskId: "", contextId: "", extensions: [], referenceTaskIds: [] };
const request = (part, fields = {}) => ({
  tenant: "",
  message: { ...EMPTY, messageId: randomUUID(), role: Role.ROLE_USER, parts: [part], ...fields },
});
const sent = async (url, part, fields) => (await client(url)).sendMessage(request(part, fields));
const named = (state) => TaskState[state];

const TRIED = {
  message: async () => {
    const { artifacts } = await sent(ECHO, text("Hello, Parley"));
    return artifacts.flatMap(({ parts }) => parts.map((part) => part.content.value)).join("");
  },
  stream: async () => {
    const pieces = [];
    for await (const { payload } of (await client(COUNTDOWN)).sendMessageStream(request(text("3"))))
      if (payload.$case === "artifactUpdate") pieces.push(payload.value.artifact.parts[0].content.value);
    return pieces;
  },
  "second turn": async () => {
    const { contextId } = await sent(ECHO, text("Hello, Parley"));
    return [contextId, (await sent(ECHO, text("Once more"), { contextId })).contextId];
  },
  question: async () => {
    const asked = await sent(COUNTDOWN, text("20000"));
    const answered = await sent(COUNTDOWN, text("2"), { taskId: asked.id, contextId: asked.contextId });
    const same = asked.id === answered.id ? "same task" : "another task";
    return [named(asked.status.state), named(answered.status.state), same];
  },
  cancel: async () => {
    const agent = await client(COUNTDOWN);
    for await (const { payload } of agent.sendMessageStream(request(text("10000"))))
      return named((await agent.cancelTask({ tenant: "", id: payload.value.id })).status.state);
  },
  file: async () => {
    const value = Buffer.from("The content of a file.");
    const task = await sent(ECHO, { content: { $case: "raw", value }, filename: "hello.txt", mediaType: "text/plain" });
    return Buffer.from(task.artifacts[0].parts[0].content.value).toString();
  },
};

for (const [tried, trying] of Object.entries(TRIED))
  try {
    console.log(JSON.stringify({ tried, got: await trying() }));
  } catch (error) {
    console.log(JSON.stringify({ tried, error: `${error.name}: ${error.message}` }));
  }
process.exit();
