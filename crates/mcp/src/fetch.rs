//! `get_answered_questions`: returns the status and answers of questions that were asked without waiting.

use coven_domain::QuestionSetId;
use coven_holder::clock;
use coven_interop::questions::{QuestionError, Waited};
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;

use crate::progress::ProgressNotifier;
use crate::reply;
use crate::server::Server;
use crate::tool::FetchArguments;

impl Server {
    pub async fn fetch(&self, arguments: FetchArguments, context: &RequestContext<RoleServer>) -> CallToolResult {
        match self.fetched(&arguments, context).await {
            Ok(result) => result,
            Err(error) => reply::error(error.to_string()),
        }
    }

    async fn fetched(
        &self,
        arguments: &FetchArguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, QuestionError> {
        let folder = self.pending.folder();
        let id = folder.find(&arguments.session_id)?;
        let set = folder.read(&id)?;
        if arguments.blocking && set.answers.is_none() {
            let waited = self.waited(&id, context).await?;
            let Some(waited) = waited else { return Ok(reply::status_result(&folder.read(&id)?)) };
            if let Waited::Answered(_) = waited {
                folder.mark_read(&id, clock::now())?;
            }
            return Ok(reply::ended(&id, &set.questions, &waited));
        }
        if set.answers.is_some() {
            folder.mark_read(&id, clock::now())?;
        }
        Ok(reply::status_result(&set))
    }

    /// Waits for the set to finish; `None` if the client cancelled the call. The set stays open, because others may
    /// wait for it.
    async fn waited(
        &self,
        id: &QuestionSetId,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<Waited>, QuestionError> {
        let mut progress = ProgressNotifier::new(context, self.options.progress_every);
        let ended = self.pending.ended(id, None);
        tokio::pin!(ended);
        loop {
            tokio::select! {
                biased;
                waited = &mut ended => return waited.map(Some),
                () = context.ct.cancelled() => return Ok(None),
                () = progress.next() => {}
            }
        }
    }
}
