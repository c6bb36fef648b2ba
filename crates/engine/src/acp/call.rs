//! Runs the client calls of an agent (files and terminals) concurrently and answers them.

use std::sync::Arc;

use coven_acp::{Call, CallKind, RpcError};
use serde_json::{Value, json};

use super::super::Engine;
use super::{AcpSession, files, new_effects};
use crate::blocking::blocking;
use crate::runtime;

/// Maximum length of a permission request's title.
const TITLE_CHARS: usize = 200;

impl Engine {
    pub(super) fn spawn_client_call(self: &Arc<Self>, acp: &Arc<AcpSession>, call: Call) {
        let (engine, acp) = (self.clone(), acp.clone());
        // Ends with the ACP session.
        runtime::spawn(async move {
            // Waiting for an exit is unlimited. Other calls hold a permit until their answer is stored.
            let _turn = match call.kind {
                CallKind::WaitForExit { .. } => None,
                _ => tokio::select! {
                    turn = acp.calls.acquire() => turn.ok(),
                    () = acp.ending() => return,
                },
            };
            if let Some((title, tool_call)) = question(&acp, &call).await {
                let mut connection = tokio::select! {
                    connection = acp.connection() => connection,
                    () = acp.ending() => return,
                };
                let mut effects = new_effects();
                if !connection.is_over {
                    connection.machine.ask_before(&call, &title, tool_call, &mut effects);
                    engine.commit_with_retry(&acp, &mut connection, effects).await;
                }
                return;
            }
            let (outcome, shown) = tokio::select! {
                done = async {
                    acp.outbox.has_room().await;
                    // The terminal's output is part of the history and cannot be read after a release.
                    let before = engine.shown(&acp, &call.kind, ReplyOrder::Before).await;
                    let outcome = engine.run_client_call(&acp, &call.kind).await;
                    (outcome, before.or(engine.shown(&acp, &call.kind, ReplyOrder::After).await))
                } => done,
                () = acp.ending() => return,
                () = engine.stopped() => return,
            };
            let mut connection = tokio::select! {
                connection = acp.connection() => connection,
                () = acp.ending() => return,
            };
            if connection.is_over {
                return;
            }
            let mut effects = new_effects();
            if let Some((terminal, output)) = shown {
                connection.machine.terminal_shown(&terminal, &output, &mut effects);
            }
            connection.machine.reply(&call, outcome, &mut effects);
            engine.commit_with_retry(&acp, &mut connection, effects).await;
        });
    }

    /// Resumes calls that an earlier daemon did not answer.
    pub(super) async fn resume_client_calls(self: &Arc<Self>, acp: &Arc<AcpSession>) {
        let open = acp.connection().await.machine.open_calls();
        for call in open {
            self.spawn_client_call(acp, call);
        }
    }

    /// Returns the output of the call's terminal if the history keeps it.
    async fn shown(&self, acp: &AcpSession, kind: &CallKind, when: ReplyOrder) -> Option<(String, Value)> {
        let terminal = match (kind, when) {
            (CallKind::ReleaseTerminal { terminal }, ReplyOrder::Before)
            | (CallKind::WaitForExit { terminal } | CallKind::KillTerminal { terminal }, ReplyOrder::After) => terminal,
            _ => return None,
        };
        Some((terminal.clone(), self.terminal_output(acp.id, terminal).await.ok()?))
    }

    async fn run_client_call(self: &Arc<Self>, acp: &AcpSession, kind: &CallKind) -> Result<Value, RpcError> {
        let root = acp.root.clone();
        match kind {
            CallKind::Read { path, line, limit } => {
                let (path, line, limit) = (path.clone(), *line, *limit);
                blocking(move || files::read(&root, &path, line, limit))
                    .await
                    .map(|content| json!({ "content": content }))
            }
            CallKind::Write { path, content } => {
                let (path, content) = (path.clone(), content.clone());
                blocking(move || files::write(&root, &path, &content)).await.map(|()| json!({}))
            }
            CallKind::CreateTerminal { terminal, command, args, env, cwd, output_limit } => {
                let argv = std::iter::once(command.clone()).chain(args.iter().cloned()).collect();
                let limit = *output_limit;
                self.create_terminal(acp, terminal, argv, env, cwd.as_deref(), limit)
                    .await
                    .map(|()| json!({ "terminalId": terminal }))
            }
            CallKind::TerminalOutput { terminal } => self.terminal_output(acp.id, terminal).await,
            CallKind::WaitForExit { terminal } => self.terminal_exit(acp.id, terminal).await,
            CallKind::KillTerminal { terminal } => self.kill_terminal(acp.id, terminal).await.map(|()| json!({})),
            CallKind::ReleaseTerminal { terminal } => self.release_terminal(acp.id, terminal).await.map(|()| json!({})),
        }
    }
}

/// Returns title and details of the permission request that a call needs. `None` for most calls.
async fn question(acp: &AcpSession, call: &Call) -> Option<(String, Value)> {
    let (path, verb, kind) = match &call.kind {
        _ if call.is_permitted => return None,
        CallKind::Read { path, .. } => (path.clone(), "read", "read"),
        CallKind::Write { path, .. } => (path.clone(), "write", "edit"),
        _ => return None,
    };
    let (root, asked) = (acp.root.clone(), path.clone());
    // An invalid path fails later, when it is used.
    let is_gits_own = blocking(move || files::is_gits_own(&root, &asked)).await.unwrap_or(false);
    is_gits_own.then(|| {
        let title = coven_domain::text::one_line(&format!("{verb} {path} in Git's own folder"), TITLE_CHARS);
        let mut detail =
            json!({ "title": title, "kind": kind, "locations": [{ "path": path }], "rawInput": { "path": path } });
        if let CallKind::Write { content, .. } = &call.kind {
            detail["content"] = json!([{ "type": "diff", "path": path, "newText": content }]);
        }
        (title, detail)
    })
}

#[derive(Debug, Clone, Copy)]
enum ReplyOrder {
    Before,
    After,
}
