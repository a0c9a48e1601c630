// The official SDK for JavaScript: an agent that says the number of the turn, and what it was told.
import express from "express";
import { TaskState } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { agentCardHandler, jsonRpcHandler, UserBuilder } from "@a2a-js/sdk/server/express";

const port = Number(process.argv[2]);
const turns = new Map();
const executor = {
  async execute({ taskId: id, contextId, userMessage }, bus) {
    const turn = (turns.get(contextId) ?? 0) + 1;
    turns.set(contextId, turn);
    const value = `${turn}: ${userMessage.parts[0].content.value}`;
    const parts = [{ content: { $case: "text", value }, filename: "", mediaType: "text/plain" }];
    const artifact = { artifactId: "answer", name: "answer", description: "", parts, extensions: [] };
    const status = (state) => ({ state, timestamp: new Date().toISOString() });
    const [submitted, completed] = [TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_COMPLETED].map(status);
    const of = { taskId: id, contextId };
    bus.publish(AgentEvent.task({ id, contextId, status: submitted, history: [userMessage], artifacts: [] }));
    bus.publish(AgentEvent.artifactUpdate({ ...of, artifact, append: false, lastChunk: true }));
    bus.publish(AgentEvent.statusUpdate({ ...of, status: completed }));
    bus.finished();
  },
  async cancelTask() {},
};
const TEXT = ["text/plain"];
const skill = { id: "turns", name: "Turns", description: "Counts turns.", tags: ["turns"] };
const binding = { protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" };
const card = {
  name: "Turns",
  description: "Counts turns.",
  version: "1",
  capabilities: { streaming: true, pushNotifications: false, extensions: [] },
  defaultInputModes: TEXT,
  defaultOutputModes: TEXT,
  skills: [{ ...skill, examples: [], inputModes: TEXT, outputModes: TEXT, securityRequirements: [] }],
  supportedInterfaces: [{ ...binding, url: `http://127.0.0.1:${port}/` }],
  securitySchemes: {},
  securityRequirements: [],
  signatures: [],
};
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
const app = express();
app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
app.use("/", jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
app.listen(port, "127.0.0.1");
