//! Everything at one moment.

use coven_domain::query::StatePage;
use serde::{Deserialize, Serialize};

use crate::SessionRecord;
use crate::list::ListKey;
use crate::question::QuestionSetRecord;
use crate::routes::ReadState;
use crate::task::TaskRecord;
use crate::workflow::{AgentRecord, WorkflowRecord};

/// `GET /state`: read in one transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateResponse {
    /// The last event whose change is in here. Follow `/events?since=` this; of pages, that of the first one.
    pub event_number: u64,
    pub sessions: Vec<SessionRecord>,
    /// Those that were not deleted.
    pub tasks: Vec<TaskRecord>,
    pub agents: Vec<AgentRecord>,
    pub workflows: Vec<WorkflowRecord>,
    pub questions: Vec<QuestionSetRecord>,
    /// The `cursor` of the next page; null on the last page and where no `limit` was given.
    pub next: Option<String>,
}

impl From<StatePage> for StateResponse {
    fn from(page: StatePage) -> Self {
        let list = ListKey::of::<ReadState>(&StateQuery::default());
        let terminals = page.questions.into_iter().map(QuestionSetRecord::from);
        Self {
            event_number: page.event_number,
            sessions: page.sessions.iter().map(SessionRecord::from).collect(),
            tasks: page.tasks.into_iter().map(TaskRecord::from).collect(),
            agents: page.agents.into_iter().map(AgentRecord::from).collect(),
            workflows: page.workflows.iter().map(WorkflowRecord::from).collect(),
            questions: terminals.chain(page.question_sets.into_iter().map(QuestionSetRecord::from)).collect(),
            next: page.next.map(|place| list.cursor(place)),
        }
    }
}

/// Without either parameter, everything is sent at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StateQuery {
    /// Rows of all kinds together, 1 to 1000. A page of long rows may have fewer.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}
