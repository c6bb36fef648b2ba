//! The MCP server; dispatches every call to the module of its tool.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use crate::pending::{PendingSets, Waking};
use crate::tool::{ToolName, arguments};
use crate::{Options, reply};

pub struct Server {
    pub options: Options,
    pub pending: Arc<PendingSets>,
    pub has_used_request_zero: AtomicBool,
    /// Runs as long as the server.
    _waking: Option<Waking>,
}

const INSTRUCTIONS: &str = "Use ask_user_questions whenever a decision belongs to the user. They answer in coven, \
                            often in another terminal, and may take a while. The session tools show the other coding \
                            agents running here.";

impl Server {
    /// Must be called within a Tokio runtime.
    pub fn new(options: Options) -> Self {
        let pending = PendingSets::new(options.folder.clone());
        let _waking = pending.wake();
        Self { options, pending, has_used_request_zero: AtomicBool::new(false), _waking }
    }

    fn tools(&self) -> impl Iterator<Item = ToolName> {
        ToolName::ALL.into_iter().filter(|tool| self.options.may_control || !tool.is_control())
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("coven", self.options.version).with_title("coven"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools().map(ToolName::describe).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().find(|tool| tool.as_str() == name).map(ToolName::describe)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::of(&request.name) else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None));
        };
        if tool.is_control() && !self.options.may_control {
            let text = format!("{} is not allowed here; set mcp.allowControl in coven's config to true", tool.as_str());
            return Ok(reply::error(text).into());
        }
        let given = request.arguments;
        let result = match tool {
            ToolName::AskUserQuestions => match request.request_state {
                Some(state) => {
                    return self.resume_call(&state, request.input_responses.unwrap_or_default(), &context).await;
                }
                None => return self.ask(arguments(given)?, &context).await,
            },
            ToolName::GetAnsweredQuestions => self.fetch(arguments(given)?, &context).await,
            ToolName::ListSessions => self.list_sessions(arguments(given)?).await,
            ToolName::ReadSession => self.read_session(arguments(given)?).await,
            ToolName::StartSession => self.start_session(arguments(given)?).await,
            ToolName::SendInput => self.send_input(arguments(given)?).await,
        };
        Ok(result.into())
    }
}
