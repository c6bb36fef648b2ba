//! Settings of notifications: which needs are announced, how, and when not.

use coven_domain::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MINUTES_PER_DAY: u32 = 24 * 60;

string_enum! {
    /// What a notification is about.
    #[derive(JsonSchema)]
    pub enum NotificationKind {
        /// An agent waits for an approval.
        Permission = "permission",
        /// An agent waits for an answer.
        Question = "question",
        /// A program waits for a line at its terminal.
        Input = "input",
        /// The work of a task is ready for review.
        Review = "review",
        /// A task cannot continue alone.
        Blocked = "blocked",
        /// An agent finished more than a minute of work.
        Idle = "idle",
        /// An agent reached a quota or a rate limit.
        Limited = "limited",
    }
}

/// How coven notifies the user of what needs them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NotificationsConfig {
    /// Show a desktop notification with the program `notify-send`.
    pub desktop: bool,
    /// Ring the terminal bell in the session browser, the chat, the answer screen and `inbox --follow`.
    pub bell: bool,
    /// Program and arguments that get each notification as JSON on standard input, e.g. a script that sends it to a phone.
    pub command: Vec<String>,
    /// What to announce. Default: `permission`, `question`, `input`, `review`, `blocked`.
    pub on: Vec<NotificationKind>,
    /// Local times between which nothing is announced. What still waits at the end is announced then.
    pub quiet_hours: Option<QuietHours>,
}

impl Default for NotificationsConfig {
    fn default() -> Self {
        use NotificationKind::{Blocked, Input, Permission, Question, Review};
        let on = vec![Permission, Question, Input, Review, Blocked];
        Self { desktop: true, bell: true, command: Vec::new(), on, quiet_hours: None }
    }
}

/// A part of every day; it may contain midnight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// First minute, `HH:MM`.
    #[schemars(regex(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub from: String,
    /// The minute after the last one, `HH:MM`.
    #[schemars(regex(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub to: String,
}

impl QuietHours {
    /// Returns what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        for time in [&self.from, &self.to] {
            if minute_of_day(time).is_none() {
                return Err(format!("{time:?} is not a time such as 22:00"));
            }
        }
        if self.from == self.to {
            return Err(format!("from and to are both {}; remove quietHours to be notified at any time", self.from));
        }
        Ok(())
    }

    /// Returns the number of minutes until the end; `None` if `now` is outside. `now` is a local time, `HH:MM`.
    pub fn minutes_left(&self, now: &str) -> Option<u32> {
        let [from, to, now] = [&self.from, &self.to, now].map(minute_of_day);
        let (from, to, now) = (from?, to?, now?);
        let after = |start: u32, end: u32| (end + MINUTES_PER_DAY - start) % MINUTES_PER_DAY;
        (after(from, now) < after(from, to)).then(|| after(now, to))
    }
}

/// Parses `HH:MM`.
fn minute_of_day(time: &str) -> Option<u32> {
    let (hour, minute) = time.split_once(':')?;
    let number = |text: &str, limit: u32| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|number| is_number && *number < limit)
    };
    Some(number(hour, 24)? * 60 + number(minute, 60)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(from: &str, to: &str) -> QuietHours {
        QuietHours { from: from.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn quiet_hours_may_contain_midnight() {
        let night = hours("22:00", "07:00");
        assert_eq!(night.minutes_left("22:00"), Some(540));
        assert_eq!(night.minutes_left("00:30"), Some(390));
        assert_eq!(night.minutes_left("06:59"), Some(1));
        for waking in ["07:00", "12:00", "21:59"] {
            assert_eq!(night.minutes_left(waking), None, "{waking}");
        }
        let noon = hours("12:00", "13:30");
        assert_eq!((noon.minutes_left("12:45"), noon.minutes_left("13:30")), (Some(45), None));
    }

    #[test]
    fn times_that_do_not_exist_are_refused() {
        for bad in ["24:00", "7:00", "07:60", "0700", "", "ab:cd", "+7:00", "07:00:00"] {
            assert!(hours(bad, "07:00").check().expect_err(bad).contains("is not a time"), "{bad}");
        }
        assert!(hours("07:00", "07:00").check().is_err());
        assert_eq!(hours("22:00", "07:00").check(), Ok(()));
    }
}
