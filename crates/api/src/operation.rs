//! Operations on the wire: work that a request starts and that continues without it.

use coven_domain::operation::{OperationKind, OperationState};
use coven_domain::{OperationId, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::error::{ErrorCode, ErrorDetail};
#[cfg(feature = "schema")]
use crate::schema::{DateTime, Id, StringEnumSchema};

/// Work that a request started. It continues when the client disconnects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Operation {
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub id: OperationId,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<OperationKind>"))]
    pub kind: OperationKind,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<OperationState>"))]
    pub status: OperationState,
    /// The id of the record that the operation is about.
    pub subject: Option<String>,
    pub progress: OperationProgress,
    /// The records that the operation made or changed, once it has completed: those that its kind names.
    #[cfg_attr(feature = "schema", schemars(with = "Option<OperationResult>"))]
    pub result: Option<ResultJson>,
    /// Why the operation failed or was cancelled.
    pub error: Option<ErrorDetail>,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub updated_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperationProgress {
    pub done: u64,
    /// Null while the number of steps is not known.
    pub total: Option<u64>,
    pub message: String,
}

/// The result of an operation: of `task.approve` a task, of `task.add` the first page of
/// `GET /api/v1/tasks?operation=` this operation, of `migrate.run` and `retention.run` their
/// reports.
#[cfg(feature = "schema")]
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum OperationResult {
    Task(Box<crate::task::TaskRecord>),
    Tasks(crate::List<crate::task::TaskRecord>),
    Migration(crate::migrate::MigrateResponse),
    Retention(crate::retention::RetentionResponse),
}

/// A result as JSON text. It is rendered once, when the operation completes, and passed on unparsed.
#[derive(Debug, Clone)]
pub struct ResultJson(Box<RawValue>);

impl ResultJson {
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }
}

impl PartialEq for ResultJson {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Serialize for ResultJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ResultJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not as `RawValue`: the payload of an event is buffered, and a raw value cannot be read from a buffer.
        let value = serde_json::Value::deserialize(deserializer)?;
        to_raw_value(&value).map(Self).map_err(serde::de::Error::custom)
    }
}

impl From<&coven_domain::operation::Operation> for Operation {
    fn from(operation: &coven_domain::operation::Operation) -> Self {
        let result = operation.result.clone().and_then(|text| RawValue::from_string(text).ok());
        Self {
            id: operation.id,
            kind: operation.kind,
            status: operation.state,
            subject: operation.subject.clone(),
            progress: OperationProgress {
                done: operation.progress.done,
                total: operation.progress.total,
                message: operation.progress.message.clone(),
            },
            result: result.map(ResultJson),
            error: operation.error.as_ref().map(|error| ErrorDetail {
                code: ErrorCode::from_word(&error.code).unwrap_or(ErrorCode::Internal),
                message: error.message.clone(),
                details: error.details.clone(),
            }),
            created_at: operation.created_at,
            updated_at: operation.updated_at,
            ended_at: operation.ended_at,
        }
    }
}

/// `GET /api/v1/operations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListOperationsQuery {
    /// One or more statuses, separated by commas.
    pub status: Option<String>,
    /// One or more kinds, separated by commas.
    pub kind: Option<String>,
    /// The id of the record that the operations are about.
    pub subject: Option<String>,
    /// 1 to 1000; 100 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

/// `GET /api/v1/operations/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GetOperationQuery {
    /// Answer when the operation has ended.
    pub wait: Option<bool>,
    /// With `wait`: answer also when `updated_at` is later than this, to follow the progress.
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub since: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_passed_on_as_it_was_written() {
        let text = r#"{"id":"173b747a-549b-4b6b-ae62-f1b0c3f21b86","kind":"migrate.run","status":"completed","subject":null,"progress":{"done":3,"total":3,"message":"renaming"},"result":{"z":1,"a":[2]},"error":null,"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.001Z","ended_at":"2026-01-01T00:00:00.001Z"}"#;
        let operation: Operation = serde_json::from_str(text).expect("an operation");
        let value: serde_json::Value = operation.result.as_ref().expect("a result").parse().expect("JSON");
        assert_eq!(value, json!({ "z": 1, "a": [2] }));
        let buffered: Operation = serde_json::from_value(serde_json::from_str(text).expect("JSON")).expect("the same");
        assert_eq!(buffered, operation);
    }
}
