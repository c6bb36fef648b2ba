// Reports to coven what Pi is doing. It never makes Pi wait, and it ignores its own failures.
import { spawn } from "node:child_process"

let queue = Promise.resolve()
let reported
let failure
let isRetrying = false

// Calls run one after the other, so that they arrive in order.
function report(event, payload) {
  queue = queue
    .then(() => new Promise((done) => {
      const child = spawn(coven, ["hook", "pi", event], { stdio: ["pipe", "ignore", "ignore"] })
      child.on("error", done)
      child.on("close", done)
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    }))
    .catch(() => {})
}

function change(event, payload = {}) {
  const key = event + JSON.stringify(payload)
  if (key !== reported) report(event, payload)
  reported = key
}

function errorOf(messages) {
  const last = messages?.at(-1)
  return last?.stopReason === "error" ? String(last.errorMessage ?? "the model failed").slice(0, 2000) : undefined
}

export default function (pi) {
  if (!process.env.COVEN_SESSION_ID || !process.env.COVEN_HOME) return
  const on = (event, handler) =>
    pi.on(event, (payload, context) => {
      try {
        handler(payload, context)
      } catch {}
    })
  on("session_start", (_, { sessionManager }) =>
    report("session_start", { id: sessionManager.getSessionId(), file: sessionManager.getSessionFile() }))
  on("input", () => (isRetrying = false))
  on("agent_start", () => {
    // A retry that fails again reports its start, too.
    if (!isRetrying) change("working")
  })
  on("after_provider_response", ({ status }) => {
    if (status < 400) change("working")
  })
  on("agent_end", ({ messages }) => {
    failure = errorOf(messages)
    isRetrying = failure !== undefined
    if (failure) change("failed", { error: failure })
  })
  on("agent_settled", () => {
    isRetrying = false
    change("settled", { error: failure })
    failure = undefined
  })
  on("ui_prompt_start", ({ kind, title }) => change("prompt_start", { kind, title }))
  on("ui_prompt_end", () => change("prompt_end"))
}
