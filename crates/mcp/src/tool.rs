//! The tools an agent is offered: names, descriptions, schemas, and what their arguments mean.

use std::sync::Arc;

use coven_domain::question::{Choice, Question};
use coven_harness::{Agent, agents};
use rmcp::ErrorData;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolName {
    AskUserQuestions,
    GetAnsweredQuestions,
    ListSessions,
    ReadSession,
    StartSession,
    SendInput,
}

impl ToolName {
    pub const ALL: [Self; 6] = [
        Self::AskUserQuestions,
        Self::GetAnsweredQuestions,
        Self::ListSessions,
        Self::ReadSession,
        Self::StartSession,
        Self::SendInput,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AskUserQuestions => "ask_user_questions",
            Self::GetAnsweredQuestions => "get_answered_questions",
            Self::ListSessions => "list_sessions",
            Self::ReadSession => "read_session",
            Self::StartSession => "start_session",
            Self::SendInput => "send_input",
        }
    }

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    /// Needs `mcp.allowControl`.
    pub const fn is_control(self) -> bool {
        matches!(self, Self::StartSession | Self::SendInput)
    }

    pub fn describe(self) -> Tool {
        let (title, text) = match self {
            Self::AskUserQuestions => (
                "Ask the user",
                "Asks the human one to five questions and waits for the answers. Use it when a decision is theirs: \
                 requirements, preferences, trade-offs. Each question has two to five options; \"Other\" with free text \
                 is always offered, so do not add it. Put (recommended) into the label of the option you would take. \
                 With nonBlocking the call returns an id at once; fetch the answers later with get_answered_questions.",
            ),
            Self::GetAnsweredQuestions => (
                "Get answers",
                "Fetches the answers to questions that were asked with nonBlocking; with blocking it waits for them.",
            ),
            Self::ListSessions => {
                ("List sessions", "Lists the sessions of coding agents that coven keeps, newest first.")
            }
            Self::ReadSession => (
                "Read a session",
                "Shows one session: its record, and what its terminal shows or the last messages of its conversation.",
            ),
            Self::StartSession => {
                ("Start a session", "Starts another coding agent in a session of its own, which runs on by itself.")
            }
            Self::SendInput => (
                "Send input",
                "Types into a session's terminal, or sends a prompt to an agent that is talked to over ACP.",
            ),
        };
        let annotations = match self {
            Self::AskUserQuestions => annotated(title, false, true),
            Self::GetAnsweredQuestions | Self::ListSessions | Self::ReadSession => annotated(title, true, false),
            Self::StartSession | Self::SendInput => annotated(title, false, true),
        };
        let input = match self {
            Self::AskUserQuestions => schema::<AskArguments>(),
            Self::GetAnsweredQuestions => schema::<FetchArguments>(),
            Self::ListSessions => schema::<ListArguments>(),
            Self::ReadSession => schema::<ReadArguments>(),
            Self::StartSession => schema::<StartArguments>(),
            Self::SendInput => schema::<InputArguments>(),
        };
        let tool = Tool::new(self.as_str(), text, Arc::new(input)).with_title(title).with_annotations(annotations);
        match self {
            Self::AskUserQuestions | Self::GetAnsweredQuestions => {
                tool.with_raw_output_schema(Arc::new(schema::<crate::reply::Outcome>()))
            }
            Self::ListSessions | Self::ReadSession | Self::StartSession | Self::SendInput => tool,
        }
    }
}

fn annotated(title: &str, is_read_only: bool, is_open_world: bool) -> ToolAnnotations {
    let hints = ToolAnnotations::with_title(title).read_only(is_read_only).open_world(is_open_world);
    if is_read_only { hints } else { hints.destructive(false) }
}

/// Without references: not every client follows them.
fn schema<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    plain(&mut schema);
    match schema {
        Value::Object(mut object) => {
            object.remove("title");
            object.remove("description");
            object
        }
        other => unreachable!("a struct has an object's schema, not {other}"),
    }
}

/// What may be left out has no default that its own type refuses, and no number a format that only Rust knows: clients
/// warn of those.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is_foreign = |format: &Value| format.as_str().is_some_and(|format| format.starts_with("uint"));
            fields.retain(|key, value| match key.as_str() {
                "default" => !value.is_null(),
                "format" => !is_foreign(value),
                _ => true,
            });
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// The arguments of a call, or what is wrong with them and where.
pub fn arguments<T: DeserializeOwned>(given: Option<JsonObject>) -> Result<T, ErrorData> {
    let given = Value::Object(given.unwrap_or_default());
    serde_path_to_error::deserialize(given).map_err(|error| {
        let (place, problem) = (error.path().to_string(), error.inner());
        let text = if place == "." { problem.to_string() } else { format!("{place}: {problem}") };
        ErrorData::invalid_params(text, None)
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskArguments {
    /// One to five questions, shown together.
    #[schemars(length(min = 1, max = 5))]
    pub questions: Vec<AskedQuestion>,
    /// Return an id at once and do not wait for the answers.
    #[serde(default)]
    pub non_blocking: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskedQuestion {
    /// The whole question; markdown is shown as such.
    pub prompt: String,
    /// A word or two for the question, at best 12 characters.
    #[schemars(length(min = 1))]
    pub title: String,
    /// Two to five answers to choose from.
    #[schemars(length(min = 2, max = 5))]
    pub options: Vec<AskedOption>,
    /// Several options may be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AskedOption {
    /// A few words.
    pub label: String,
    /// What choosing it means.
    #[serde(default)]
    #[schemars(with = "String")]
    pub description: Option<String>,
}

impl From<AskedQuestion> for Question {
    fn from(asked: AskedQuestion) -> Self {
        let option = |option: AskedOption| Choice { description: option.description, label: option.label };
        Self {
            options: asked.options.into_iter().map(option).collect(),
            prompt: asked.prompt,
            title: asked.title,
            multi_select: asked.multi_select,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct FetchArguments {
    /// The id that ask_user_questions returned, or its beginning.
    pub session_id: String,
    /// Wait until there are answers.
    #[serde(default)]
    pub blocking: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListArguments {
    /// Only those in these states, separated by commas: created, running, completed, failed, killed, orphaned.
    #[serde(default)]
    #[schemars(with = "String")]
    pub status: Option<String>,
    /// 1 to 100; 20 if left out.
    #[serde(default)]
    #[schemars(with = "usize", range(min = 1, max = 100))]
    pub limit: Option<usize>,
    /// Archived ones too.
    #[serde(default)]
    pub archived: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadArguments {
    /// A session's id or its beginning.
    pub session_id: String,
    /// How many of a conversation's last messages: 1 to 200; 20 if left out.
    #[serde(default)]
    #[schemars(with = "usize", range(min = 1, max = 200))]
    pub messages: Option<usize>,
}

fn harness_description() -> String {
    format!("{}, or one of coven's config.", agents::ids(Agent::is_launchable).join(", "))
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct StartArguments {
    #[schemars(description = harness_description())]
    pub harness: String,
    /// What the agent is to do.
    #[serde(default)]
    #[schemars(with = "String")]
    pub prompt: Option<String>,
    /// The folder to work in; the server's own if left out.
    #[serde(default)]
    #[schemars(with = "String")]
    pub cwd: Option<String>,
    /// One line that names the session.
    #[serde(default)]
    #[schemars(with = "String")]
    pub title: Option<String>,
    /// Talk to it over ACP instead of giving it a terminal; the folder must be in a Git repository.
    #[serde(default)]
    pub acp: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct InputArguments {
    /// A session's id or its beginning.
    pub session_id: String,
    /// What to type, or the prompt.
    pub text: String,
    /// Press Enter behind it; true if left out.
    #[serde(default = "yes")]
    pub enter: bool,
}

const fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schemas_say_what_may_be_asked() {
        let tool = serde_json::to_value(ToolName::AskUserQuestions.describe()).expect("plain data");
        let questions = &tool["inputSchema"]["properties"]["questions"];
        assert_eq!((&questions["minItems"], &questions["maxItems"]), (&json!(1), &json!(5)));
        let question = &questions["items"];
        assert_eq!(question["required"], json!(["prompt", "title", "options"]));
        assert_eq!(question["properties"]["options"]["minItems"], 2);
        assert_eq!(question["properties"]["options"]["items"]["properties"]["description"]["type"], "string");
        assert_eq!(tool["inputSchema"]["required"], json!(["questions"]));
        assert_eq!(tool["outputSchema"]["type"], "object");
        let text = tool.to_string();
        assert!(!text.contains("$ref") && !text.contains("$defs") && !text.contains("null"), "{text}");
        assert!(!text.contains("uint"), "{text}");
    }

    #[test]
    fn what_a_result_leaves_out_is_not_required_of_it() {
        let tool = serde_json::to_value(ToolName::AskUserQuestions.describe()).expect("plain data");
        let outcome = &tool["outputSchema"];
        assert_eq!(outcome["required"], json!(["sessionId", "status", "answers"]));
        assert_eq!(outcome["properties"]["rejectionReason"]["type"], "string");
        let answer = &outcome["properties"]["answers"]["items"];
        assert_eq!(answer["required"], json!(["questionIndex", "selected"]));
    }

    #[test]
    fn every_tool_is_found_by_its_name() {
        for tool in ToolName::ALL {
            assert_eq!(ToolName::of(tool.as_str()), Some(tool));
            assert_eq!(tool.describe().name, tool.as_str());
        }
        assert_eq!(ToolName::of("nope"), None);
    }

    #[test]
    fn wrong_arguments_are_told_by_their_place() {
        let given = json!({"questions": [{"prompt": "P?", "title": "T", "options": [{"label": 7}]}]});
        let Value::Object(given) = given else { unreachable!("an object") };
        let error = arguments::<AskArguments>(Some(given)).expect_err("a label is text");
        assert!(error.message.starts_with("questions[0].options[0].label: "), "{}", error.message);
        let error = arguments::<AskArguments>(None).expect_err("nothing is asked");
        assert!(error.message.contains("missing field `questions`"), "{}", error.message);
    }
}
