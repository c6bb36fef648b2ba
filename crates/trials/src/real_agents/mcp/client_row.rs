//! Results of a trial with an SDK client.

use serde::Serialize;

use super::super::report::{Check, Row};
use super::sdk_client::SdkClient;

#[derive(Debug, Serialize)]
pub struct ClientRow {
    pub client: &'static str,
    pub version: Check,
    pub protocol: Check,
    pub answer: Check,
    pub slow_human: Check,
    pub given_up: Check,
    pub cancelled: Check,
    pub killed: Check,
    pub form_accepted: Check,
    pub form_declined: Check,
    pub form_closed: Check,
    pub answered_elsewhere: Check,
    pub fetched_later: Check,
    pub bad_call: Check,
    pub limit: Option<&'static str>,
    /// The client's last error output, if a check failed.
    pub last_lines: Option<String>,
}

impl ClientRow {
    pub fn new(sdk: &SdkClient) -> Self {
        Self {
            client: sdk.name,
            version: Check::NotReached,
            protocol: Check::NotReached,
            answer: Check::NotReached,
            slow_human: Check::NotReached,
            given_up: Check::NotReached,
            cancelled: Check::NotReached,
            killed: Check::NotReached,
            form_accepted: Check::NotReached,
            form_declined: Check::NotReached,
            form_closed: Check::NotReached,
            answered_elsewhere: Check::NotReached,
            fetched_later: Check::NotReached,
            bad_call: Check::NotReached,
            limit: sdk.limit,
            last_lines: None,
        }
    }

    pub fn not_installed(sdk: &SdkClient, reason: String) -> Self {
        Self { protocol: Check::NotInstalled(reason), ..Self::new(sdk) }
    }
}

impl Row for ClientRow {
    fn agent(&self) -> &'static str {
        self.client
    }

    fn checks(&self) -> Vec<(&'static str, &Check)> {
        vec![
            ("version", &self.version),
            ("protocol", &self.protocol),
            ("answer", &self.answer),
            ("slow human", &self.slow_human),
            ("gives up", &self.given_up),
            ("cancel", &self.cancelled),
            ("kill -9", &self.killed),
            ("form accepted", &self.form_accepted),
            ("form declined", &self.form_declined),
            ("form closed", &self.form_closed),
            ("answered elsewhere", &self.answered_elsewhere),
            ("fetched later", &self.fetched_later),
            ("bad call", &self.bad_call),
        ]
    }

    fn notes(&self) -> Option<&'static str> {
        self.limit
    }

    fn evidence(&self) -> Option<&str> {
        self.last_lines.as_deref()
    }
}
