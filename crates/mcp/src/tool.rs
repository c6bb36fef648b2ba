//! The tools for agents: names, descriptions, schemas and arguments.

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

    /// Returns whether the tool needs `mcp.allowControl`.
    pub const fn is_control(self) -> bool {
        matches!(self, Self::StartSession | Self::SendInput)
    }

    pub fn describe(self) -> Tool {
        let (title, text) = match self {
            Self::AskUserQuestions => (
                "Ask the user",
                "Asks the user one to five questions and waits for the answers. Use it when a decision belongs to the \
                 user: requirements, preferences, trade-offs. Each question has two to five options; \"Other\" with \
                 free text is always offered, so do not add it. Add (recommended) to the label of the option that you \
                 would choose. With nonBlocking, the call returns an id immediately; fetch the answers later with \
                 get_answered_questions.",
            ),
            Self::GetAnsweredQuestions => (
                "Get answers",
                "Returns the answers to questions asked with nonBlocking; with blocking, waits for them.",
            ),
            Self::ListSessions => ("List sessions", "Lists coven's sessions of coding agents, newest first."),
            Self::ReadSession => (
                "Read a session",
                "Returns one session: its record, and the screen of its terminal or its last messages. \
                 Pass `next` as cursor to get the earlier messages.",
            ),
            Self::StartSession => {
                ("Start a session", "Starts another coding agent in a separate session, which keeps running.")
            }
            Self::SendInput => {
                ("Send input", "Types into a session's terminal, or sends a prompt to an agent that uses ACP.")
            }
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
                tool.with_raw_output_schema(Arc::new(schema::<crate::reply::QuestionSetResult>()))
            }
            Self::ListSessions | Self::ReadSession | Self::StartSession | Self::SendInput => tool,
        }
    }
}

fn annotated(title: &str, is_read_only: bool, is_open_world: bool) -> ToolAnnotations {
    let hints = ToolAnnotations::with_title(title).read_only(is_read_only).open_world(is_open_world);
    if is_read_only { hints } else { hints.destructive(false) }
}

/// Returns the schema without references, because some clients do not resolve them.
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
        other => unreachable!("the schema of a struct is an object, not {other}"),
    }
}

/// Removes `null` defaults of optional fields and number formats specific to Rust, because clients warn about them.
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

/// Parses the arguments of a call; the error names the wrong argument.
pub fn arguments<T: DeserializeOwned>(given: Option<JsonObject>) -> Result<T, ErrorData> {
    let given = Value::Object(given.unwrap_or_default());
    serde_path_to_error::deserialize(given).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.inner());
        let text = if path == "." { problem.to_string() } else { format!("{path}: {problem}") };
        ErrorData::invalid_params(text, None)
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskArguments {
    /// One to five questions, shown together.
    #[schemars(length(min = 1, max = 5))]
    pub questions: Vec<AskedQuestion>,
    /// Return an id immediately instead of waiting for the answers.
    #[serde(default)]
    pub non_blocking: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskedQuestion {
    /// The full question; Markdown is rendered.
    pub prompt: String,
    /// Short label for the question, ideally at most 12 characters.
    #[schemars(length(min = 1))]
    pub title: String,
    /// Two to five answers to choose from.
    #[schemars(length(min = 2, max = 5))]
    pub options: Vec<AskedOption>,
    /// Allow several options to be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AskedOption {
    /// Short text of the option.
    pub label: String,
    /// Consequence of choosing this option.
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
    /// Id that ask_user_questions returned, or a prefix of it.
    pub session_id: String,
    /// Wait until there are answers.
    #[serde(default)]
    pub blocking: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListArguments {
    /// Only sessions in these states, separated by commas: created, running, completed, failed, killed, orphaned.
    #[serde(default)]
    #[schemars(with = "String")]
    pub status: Option<String>,
    /// Only running sessions whose agent does one of these, separated by commas: permission, question, working, idle,
    /// limited, unknown.
    #[serde(default)]
    #[schemars(with = "String")]
    pub activity: Option<String>,
    /// Maximum number of sessions: 1 to 100. Default: 20.
    #[serde(default)]
    #[schemars(with = "usize", range(min = 1, max = 100))]
    pub limit: Option<usize>,
    /// Include archived sessions.
    #[serde(default)]
    pub archived: bool,
    /// The `next` of the previous page.
    #[serde(default)]
    #[schemars(with = "String")]
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadArguments {
    /// Session id or a unique prefix.
    pub session_id: String,
    /// Number of messages of an ACP session: 1 to 200. Default: 20.
    #[serde(default, alias = "messages")]
    #[schemars(with = "usize", range(min = 1, max = 200))]
    pub limit: Option<usize>,
    /// The `next` of the previous page, to get the earlier messages.
    #[serde(default)]
    #[schemars(with = "String")]
    pub cursor: Option<String>,
}

fn harness_description() -> String {
    format!("{}, or a harness from coven's config.", agents::ids(Agent::is_launchable).join(", "))
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct StartArguments {
    #[schemars(description = harness_description())]
    pub harness: String,
    /// Task for the agent.
    #[serde(default)]
    #[schemars(with = "String")]
    pub prompt: Option<String>,
    /// Folder to work in. Default: the server's working folder.
    #[serde(default)]
    #[schemars(with = "String")]
    pub cwd: Option<String>,
    /// One-line title of the session.
    #[serde(default)]
    #[schemars(with = "String")]
    pub title: Option<String>,
    /// Use ACP instead of a terminal; the folder must be in a Git repository.
    #[serde(default)]
    pub acp: bool,
    /// Start it even if a limit of coven's config is reached; otherwise it waits in a queue.
    #[serde(default)]
    pub now: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct InputArguments {
    /// Session id or a unique prefix.
    pub session_id: String,
    /// Text to type, or the prompt.
    pub text: String,
    /// Press Enter after the text. Default: true.
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
    fn the_input_schema_limits_questions_and_options() {
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
    fn optional_fields_of_a_result_are_not_required() {
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
    fn wrong_arguments_are_reported_with_their_path() {
        let given = json!({"questions": [{"prompt": "P?", "title": "T", "options": [{"label": 7}]}]});
        let Value::Object(given) = given else { unreachable!("an object") };
        let error = arguments::<AskArguments>(Some(given)).expect_err("a label that is a number");
        assert!(error.message.starts_with("questions[0].options[0].label: "), "{}", error.message);
        let error = arguments::<AskArguments>(None).expect_err("missing questions");
        assert!(error.message.contains("missing field `questions`"), "{}", error.message);
    }
}
