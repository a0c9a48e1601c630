// What is reduced of what an agent does on its way: its thoughts, and the tools that it calls.
import { addStep, change, learn, workOf } from "./reducer.js";

learn({
  agent_thought: (state, { taskId, text, at }) => addStep(state, taskId, { kind: "thought", at, text }),
  agent_tool_call: (state, { taskId, callId, name, value, at }) =>
    addStep(state, taskId, { kind: "tool", at, callId, name, value }),
  agent_tool_result(state, { taskId, callId, value, isError }) {
    const work = workOf(state, taskId);
    if (!work) return;
    const steps = work.steps.map((step) => (step.callId === callId ? { ...step, result: value, isError } : step));
    change(state, work.key, { steps });
  },
});
