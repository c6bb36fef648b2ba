//! `ask_user_questions`: makes a question set and waits for it, in the files and in the client's own form, until the first
//! answer, the end of patience or the end of the client.

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

use crate::elicit::{self, Said};
use crate::progress::Progress;
use crate::server::Server;
use crate::tool::AskArguments;
use crate::{reply, stdio};

/// The name of the one form in a result that wants input.
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
        let id = match self.asked.folder().create(&new, &limits, clock::now()) {
            Ok(id) => id,
            Err(error) => return Ok(reply::error(error.to_string()).into()),
        };
        if arguments.non_blocking {
            self.clean_up();
            return Ok(reply::submitted(&id, new.questions.len()).into());
        }
        self.asked.own(id);
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

    /// The client comes back with what the human said in its form.
    pub async fn go_on(
        &self,
        state: &str,
        said: InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let unknown = || ErrorData::invalid_params("requestState: nothing was asked under it", None);
        let id: QuestionSetId = state.parse().map_err(|_| unknown())?;
        if !self.asked.owns(&id) {
            return Err(unknown());
        }
        let questions = match self.asked.folder().read(&id) {
            Ok(set) => set.questions,
            Err(error) => return Ok(reply::error(error.to_string()).into()),
        };
        if let Some(said) = said.get(FORM).and_then(|said| serde_json::from_value(said.clone()).ok()) {
            self.take(&id, &questions, said);
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
        let call_id = self.asked.folder().read(id).ok().and_then(|set| set.call_id);
        let mut progress = Progress::new(context, self.options.progress_every);
        let patience = match self.options.questions.session_timeout {
            0 => None,
            millis => Some(Duration::from_millis(millis)),
        };
        let out_of_patience = async {
            match patience {
                Some(patience) => tokio::time::sleep(patience).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(out_of_patience);
        let ended = self.asked.ended(id, call_id.as_deref());
        tokio::pin!(ended);
        let waited = loop {
            tokio::select! {
                biased;
                waited = &mut ended => break waited,
                () = context.ct.cancelled() => break Ok(Waited::Abandoned(None)),
                said = said_in(&mut form) => {
                    form = None;
                    if let Some(said) = said {
                        self.take(id, questions, said);
                    }
                }
                () = &mut out_of_patience => break self.time_out(id, call_id.as_deref()),
                () = progress.next() => {}
            }
        };
        match &waited {
            Ok(Waited::Answered(_) | Waited::Rejected(_) | Waited::TimedOut | Waited::Gone) => self.asked.disown(id),
            // Somebody else may have given it up already, which is as good.
            Ok(Waited::Abandoned(_)) | Err(_) => self.asked.abandon(id),
        }
        if let Some(form) = form {
            // Fails where the client has gone.
            let _ = form.cancel(Some("the questions were answered elsewhere".to_owned())).await;
        }
        match waited {
            Ok(waited) => reply::ended(id, questions, &waited).into(),
            Err(error) => reply::error(error.to_string()).into(),
        }
    }

    fn time_out(&self, id: &QuestionSetId, call_id: Option<&str>) -> Result<Waited, QuestionError> {
        match self.asked.folder().settle(id, QuestionSetState::TimedOut, clock::now()) {
            // Somebody ended it in the last moment.
            Ok(false) => Ok(self.asked.folder().outcome(id, call_id)?.unwrap_or(Waited::TimedOut)),
            Ok(true) => Ok(Waited::TimedOut),
            Err(QuestionError::NotFound { .. }) => Ok(Waited::Gone),
            Err(error) => Err(error),
        }
    }

    /// Brings what was said in the client's form into the files, where everybody sees it. The first answer has won.
    fn take(&self, id: &QuestionSetId, questions: &[Question], said: rmcp::model::ElicitResult) {
        let taken = match elicit::said(questions, &said, clock::now()) {
            Said::Answers(answers) => self.asked.folder().answer(id, answers, clock::now()),
            Said::No if self.is_too_soon(id) => return,
            Said::No => self.asked.folder().reject(id, None, clock::now()),
            Said::Nothing => return,
        };
        match taken {
            Ok(()) | Err(QuestionError::AlreadyFinished { .. } | QuestionError::NotFound { .. }) => {}
            // Still pending, and still to be answered elsewhere.
            Err(error) => stdio::note(format_args!("the client's form for {id} could not be taken: {error}")),
        }
    }

    /// No human can have said it yet.
    fn is_too_soon(&self, id: &QuestionSetId) -> bool {
        let asked_at = self.asked.folder().read(id).map(|set| set.created_at);
        asked_at.is_ok_and(|asked_at| clock::now().since(asked_at) < self.options.human_needs)
    }

    fn form_of(&self, context: &RequestContext<RoleServer>) -> Form {
        let takes_forms = context
            .client_capabilities()
            .and_then(|capabilities| capabilities.elicitation)
            // Who names no mode means forms.
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
        // A client that cannot take it leaves the files.
        sent.ok()
    }

    /// The first line of the TypeScript SDK takes a 0 for no number, so a form of that number could not be taken back.
    /// Requests count from 0, and nobody waits for this one.
    async fn use_up_request_zero(&self, context: &RequestContext<RoleServer>) {
        if !self.has_used_request_zero.swap(true, Ordering::Relaxed) {
            let ping = ServerRequest::PingRequest(PingRequest::default());
            // Fails where the client has gone, which ends the call anyway.
            let _ = context.peer.send_cancellable_request(ping, PeerRequestOptions::no_options()).await;
        }
    }

    /// Sets that ended long ago go. What cannot be removed is told and stops nothing.
    fn clean_up(&self) {
        let folder = self.asked.folder().clone();
        let retention = Duration::from_millis(self.options.questions.retention_period);
        tokio::task::spawn_blocking(move || {
            for (id, why) in folder.clean_up(retention, clock::now()).failed {
                stdio::note(format_args!("an expired question set could not be removed: {why}: {id}"));
            }
        });
    }
}

/// How the client shows a form of its own.
enum Form {
    None,
    /// The server asks while the call is open.
    Request,
    /// The call returns and comes again with the answers: protocol 2026-07-28, which knows no requests of a server.
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

/// What the human said in the client's form; none where the client has nothing to say.
async fn said_in(form: &mut Option<RequestHandle<RoleServer>>) -> Option<rmcp::model::ElicitResult> {
    let Some(form) = form else { return std::future::pending().await };
    match (&mut form.rx).await {
        Ok(Ok(ClientResult::ElicitResult(said))) => Some(said),
        // An error of the client, or something else altogether: the files are left.
        _ => None,
    }
}
