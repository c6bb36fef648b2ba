// Reports to coven what OpenCode is doing, and hands answers from the inbox to OpenCode. It never makes OpenCode wait, and
// it ignores its own failures.
import { spawn } from "node:child_process"

// A refused retry reports "busy" for a moment first.
const RETRY_HOLD_MS = 2000
const MAX_TEXT = 16384

const statuses = new Map() // of each session that is not idle
const subagents = new Set()
const waiting = new Map() // request id to the `coven hook` that waits for its answer
let conversation
let failure
let reported
let queue = Promise.resolve()

function call(event, payload, waits) {
  try {
    const words = ["hook", "opencode", event, ...(waits ? ["wait"] : [])]
    const child = spawn(coven, words, { stdio: ["pipe", waits ? "pipe" : "ignore", "ignore"] })
    child.on("error", () => {})
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
    return child
  } catch {
    return undefined
  }
}

// Calls run one after the other, so that they arrive in order.
function inOrder(step) {
  queue = queue.then(step).catch(() => {})
}

function report(event, payload) {
  inOrder(() => new Promise((done) => {
    const child = call(event, payload)
    if (!child) return done()
    child.on("error", done)
    child.on("close", done)
  }))
}

function currentStatus() {
  const all = [...statuses.values()]
  return all.find((status) => status.type === "retry") ?? all[0] ?? { type: "idle" }
}

// Reports the status of all sessions together: a subagent has a session of its own.
function statusChanged() {
  inOrder(() => new Promise((done) => {
    const { type, message, next } = currentStatus()
    // The request matters more than the work of other subagents.
    if (waiting.size > 0 && type !== "idle") return done()
    const key = type + (message ?? "")
    if (key === reported) return done()
    reported = key
    const child = call("status", { conversation, status: { type, message, next }, error: type === "idle" ? failure : undefined })
    if (!child) return done()
    child.on("error", done)
    child.on("close", done)
  }))
}

function setStatus(session, status) {
  const before = statuses.get(session)
  clearTimeout(before?.timer)
  if (status.type === "idle") {
    statuses.delete(session)
    if (statuses.size === 0) for (const id of [...waiting.keys()]) forget(id)
  } else if (status.type === "busy" && before?.type === "retry") {
    before.timer = setTimeout(() => resumed(session), RETRY_HOLD_MS)
    before.timer.unref?.()
    return
  } else {
    if (!subagents.has(session)) conversation = session
    if (status.type === "busy" && !before) failure = undefined
    statuses.set(session, status)
  }
  statusChanged()
}

function resumed(session) {
  clearTimeout(statuses.get(session)?.timer)
  statuses.set(session, { type: "busy" })
  statusChanged()
}

function forget(id) {
  const known = waiting.has(id)
  const child = waiting.get(id)
  waiting.delete(id)
  child?.kill("SIGTERM")
  return known
}

function shortened(value) {
  return JSON.parse(JSON.stringify(value, (_, it) => (typeof it === "string" && it.length > MAX_TEXT ? it.slice(0, MAX_TEXT) : it)))
}

function ask(event, request, answer) {
  waiting.set(request.id, undefined)
  if (statuses.get(request.sessionID)?.type === "retry") resumed(request.sessionID)
  reported = undefined
  inOrder(() => {
    if (!waiting.has(request.id)) return
    const child = call(event, { ...shortened(request), conversation }, true)
    if (!child) return
    waiting.set(request.id, child)
    let output = ""
    child.stdout.on("error", () => {})
    child.stdout.on("data", (data) => (output += data))
    child.on("close", () => {
      if (waiting.get(request.id) !== child || !output.trim()) return
      try {
        const decision = JSON.parse(output)
        waiting.delete(request.id)
        Promise.resolve(answer(decision)).catch(() => {})
      } catch {}
      statusChanged()
    })
  })
}

function settled(event, reply) {
  if (forget(reply.requestID)) report(event, reply)
  statusChanged()
}

export const Coven = async ({ client }) => {
  if (!process.env.COVEN_SESSION_ID || !process.env.COVEN_HOME) return {}
  const post = (url, requestID, body) =>
    client._client.post({ url, path: { requestID }, body, headers: { "Content-Type": "application/json" } })
  const on = {
    "session.created": ({ info }) => info.parentID && subagents.add(info.id),
    "session.status": ({ sessionID, status }) => setStatus(sessionID, status),
    "session.deleted": ({ info }) => setStatus(info.id, { type: "idle" }),
    "session.error": ({ sessionID, error }) => {
      if (!subagents.has(sessionID) && error) failure = shortened(error)
    },
    "permission.asked": (request) =>
      ask("permission.asked", request, ({ reply }) => post("/permission/{requestID}/reply", request.id, { reply })),
    "permission.replied": (reply) => settled("permission.replied", reply),
    "question.asked": (request) =>
      ask("question.asked", request, ({ answers }) =>
        answers
          ? post("/question/{requestID}/reply", request.id, { answers })
          : post("/question/{requestID}/reject", request.id, {})),
    "question.replied": (reply) => settled("question.replied", reply),
    "question.rejected": (reply) => settled("question.rejected", reply),
    "server.instance.disposed": () => {
      for (const id of [...waiting.keys()]) forget(id)
    },
  }
  report("started", {})
  return {
    event: async ({ event }) => {
      try {
        on[event.type]?.(event.properties)
      } catch {}
    },
  }
}
