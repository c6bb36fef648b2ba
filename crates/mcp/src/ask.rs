//! `ask_user_questions`: creates a question set and waits for an answer, in the files or in the client's own form,
//! until the first answer, the timeout or the client's disconnection.

use std::sync::atomic::Ordering;
use std::time::Duration;

use coven_domain::QuestionSetId;
use coven_domain::question::Question;
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use coven_interop::questions::{Limits, NewQuestionSet, QuestionError, Waited};
use rmcp::model::{
    CallToolResponse, ClientResult, ElicitRequest, InputRequest, InputRequiredResult, InputResponses, PingRequest,
    ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RequestHandle};
use rmcp::{ErrorData, RoleServer};

use crate::elicit::{self, FormReply};
use crate::progress::ProgressNotifier;
use crate::server::Server;
use crate::tool::AskArguments;
use crate::{reply, stdio};

/// Name of the only form in a result that requests input.
const FORM: &str = "questions";

impl Server {
    pub async fn ask(
        &self,
        arguments: AskArguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let questions: Vec<Question> = arguments.questions.into_iter().map(Question::from).collect();
        let here = || std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok());
        let new = NewQuestionSet {
            questions,
            call_id: (!arguments.non_blocking).then(|| uuid::Uuid::new_v4().to_string()),
            working_directory: here(),
            session: self.options.session.clone(),
        };
        let limits = Limits { max_sessions: self.options.questions.max_sessions };
        let id = match self.pending.folder().create(&new, &limits, clock::now()) {
            Ok(id) => id,
            Err(error) => return Ok(reply::error(error.to_string()).into()),
        };
        if arguments.non_blocking {
            self.clean_up();
            return Ok(reply::submitted(&id, new.questions.len()).into());
        }
        self.pending.abandon_on_disconnect(id);
        self.clean_up();
        match self.form_of(context) {
            Form::None => {}
            Form::Request => {
                let open = self.show_form(&new.questions, context).await;
                return Ok(self.wait_for(&id, &new.questions, open, context).await);
            }
            Form::Result => return Ok(form_result(&id, &new.questions).into()),
        }
        Ok(self.wait_for(&id, &new.questions, None, context).await)
    }

    /// Resumes a call: the client has sent it again with the user's reply to its form.
    pub async fn resume_call(
        &self,
        state: &str,
        responses: InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let unknown =
            || ErrorData::invalid_params("requestState: no pending question set of this client has this id", None);
        let id: QuestionSetId = state.parse().map_err(|_| unknown())?;
        if !self.pending.owns(&id) {
            return Err(unknown());
        }
        let questions = match self.pending.folder().read(&id) {
            Ok(set) => set.questions,
            Err(error) => return Ok(reply::error(error.to_string()).into()),
        };
        if let Some(result) = responses.get(FORM).and_then(|result| serde_json::from_value(result.clone()).ok()) {
            self.store_form_reply(&id, &questions, result);
        }
        Ok(self.wait_for(&id, &questions, None, context).await)
    }

    async fn wait_for(
        &self,
        id: &QuestionSetId,
        questions: &[Question],
        mut form: Option<RequestHandle<RoleServer>>,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        let call_id = self.pending.folder().read(id).ok().and_then(|set| set.call_id);
        let mut progress = ProgressNotifier::new(context, self.options.progress_every);
        let timeout = match self.options.questions.session_timeout {
            0 => None,
            millis => Some(Duration::from_millis(millis)),
        };
        let timed_out = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timed_out);
        let ended = self.pending.ended(id, call_id.as_deref());
        tokio::pin!(ended);
        let waited = loop {
            tokio::select! {
                biased;
                waited = &mut ended => break waited,
                () = context.ct.cancelled() => break Ok(Waited::Abandoned(None)),
                result = receive_form_result(&mut form) => {
                    form = None;
                    if let Some(result) = result {
                        self.store_form_reply(id, questions, result);
                    }
                }
                () = &mut timed_out => break self.time_out(id, call_id.as_deref()),
                () = progress.next() => {}
            }
        };
        match &waited {
            Ok(Waited::Answered(_) | Waited::Rejected(_) | Waited::TimedOut | Waited::Gone) => self.pending.disown(id),
            // Another process may already have abandoned it, which has the same effect.
            Ok(Waited::Abandoned(_)) | Err(_) => self.pending.abandon(id),
        }
        if let Some(form) = form {
            // This fails if the client has disconnected.
            let _ = form.cancel(Some("the questions were answered elsewhere".to_owned())).await;
        }
        match waited {
            Ok(waited) => reply::ended(id, questions, &waited).into(),
            Err(error) => reply::error(error.to_string()).into(),
        }
    }

    fn time_out(&self, id: &QuestionSetId, call_id: Option<&str>) -> Result<Waited, QuestionError> {
        match self.pending.folder().end_without_answer(id, QuestionSetState::TimedOut, clock::now()) {
            // Another process has just finished it.
            Ok(false) => Ok(self.pending.folder().outcome(id, call_id)?.unwrap_or(Waited::TimedOut)),
            Ok(true) => Ok(Waited::TimedOut),
            Err(QuestionError::NotFound { .. }) => Ok(Waited::Gone),
            Err(error) => Err(error),
        }
    }

    /// Stores the reply to the client's form in the files, for other readers. The first answer wins.
    fn store_form_reply(&self, id: &QuestionSetId, questions: &[Question], result: rmcp::model::ElicitResult) {
        let stored = match elicit::parse_reply(questions, &result, clock::now()) {
            FormReply::Answers(answers) => self.pending.folder().answer(id, answers, clock::now()),
            FormReply::Declined if self.is_too_soon(id) => return,
            FormReply::Declined => self.pending.folder().reject(id, None, clock::now()),
            FormReply::NoAnswer => return,
        };
        match stored {
            Ok(()) | Err(QuestionError::AlreadyFinished { .. } | QuestionError::NotFound { .. }) => {}
            // The set is still pending and can be answered elsewhere.
            Err(error) => stdio::note(format_args!("cannot store the reply to the form of question set {id}: {error}")),
        }
    }

    /// Returns whether the reply came faster than a user can respond.
    fn is_too_soon(&self, id: &QuestionSetId) -> bool {
        let asked_at = self.pending.folder().read(id).map(|set| set.created_at);
        asked_at.is_ok_and(|asked_at| clock::now().since(asked_at) < self.options.min_human_response)
    }

    fn form_of(&self, context: &RequestContext<RoleServer>) -> Form {
        let takes_forms = context
            .client_capabilities()
            .and_then(|capabilities| capabilities.elicitation)
            // A client that names no mode supports forms.
            .is_some_and(|offered| offered.form.is_some() || offered.url.is_none());
        let is_stateless = context
            .protocol_version()
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        match (takes_forms, is_stateless) {
            (false, _) => Form::None,
            (true, false) => Form::Request,
            (true, true) => Form::Result,
        }
    }

    async fn show_form(
        &self,
        questions: &[Question],
        context: &RequestContext<RoleServer>,
    ) -> Option<RequestHandle<RoleServer>> {
        self.use_up_request_zero(context).await;
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(elicit::form(questions)?));
        let sent = context.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        // If sending fails, the questions can still be answered in the files.
        sent.ok()
    }

    /// Sends a ping to use up request id 0. Version 1 of the TypeScript SDK treats id 0 as missing, so a form with that
    /// id could not be cancelled. Ids start at 0, and the ping's response is ignored.
    async fn use_up_request_zero(&self, context: &RequestContext<RoleServer>) {
        if !self.has_used_request_zero.swap(true, Ordering::Relaxed) {
            let ping = ServerRequest::PingRequest(PingRequest::default());
            // This fails if the client has disconnected, which ends the call anyway.
            let _ = context.peer.send_cancellable_request(ping, PeerRequestOptions::no_options()).await;
        }
    }

    /// Deletes expired question sets; only logs a set that cannot be deleted.
    fn clean_up(&self) {
        let folder = self.pending.folder().clone();
        let retention = Duration::from_millis(self.options.questions.retention_period);
        tokio::task::spawn_blocking(move || {
            for (id, why) in folder.clean_up(retention, clock::now()).failed {
                stdio::note(format_args!("cannot delete expired question set {id}: {why}"));
            }
        });
    }
}

/// How the client shows its own form.
enum Form {
    None,
    /// The server sends a request while the call is open.
    Request,
    /// The call returns, and the client repeats it with the answers. For protocol 2026-07-28, which has no server
    /// requests.
    Result,
}

fn form_result(id: &QuestionSetId, questions: &[Question]) -> InputRequiredResult {
    match elicit::form(questions) {
        Some(form) => {
            let request = InputRequest::Elicitation(ElicitRequest::new(form));
            InputRequiredResult::new(Some([(FORM.to_owned(), request)].into()), Some(id.to_string()))
        }
        None => InputRequiredResult::from_request_state(id.to_string()),
    }
}

/// Waits for the reply to the client's form; `None` if the client fails to show it.
async fn receive_form_result(form: &mut Option<RequestHandle<RoleServer>>) -> Option<rmcp::model::ElicitResult> {
    let Some(form) = form else { return std::future::pending().await };
    match (&mut form.rx).await {
        Ok(Ok(ClientResult::ElicitResult(result))) => Some(result),
        // The client returned an error or an unexpected result; the questions can still be answered in the files.
        _ => None,
    }
}
