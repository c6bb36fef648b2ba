//! Timestamps: milliseconds since the Unix epoch, formatted as ISO 8601 UTC with milliseconds.

use std::fmt;
use std::io::Write as _;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns this time minus `ago`.
    pub fn before(self, ago: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the time elapsed since `earlier`, or zero if the clock went back in between.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns this time plus `time`.
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns this time, or `floor` if the clock has gone back behind it.
    pub fn not_before(self, floor: Timestamp) -> Self {
        self.max(floor)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        write!(f, "{moment:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>().map(|moment| Self(moment.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Lists contain thousands of timestamps: serialize each in one call instead of one per date component.
        let mut text = [0; 32];
        let mut rest = &mut text[..];
        match write!(rest, "{self}") {
            Ok(()) => {
                let length = 32 - rest.len();
                serializer.serialize_str(std::str::from_utf8(&text[..length]).map_err(ser::Error::custom)?)
            }
            Err(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_round_trips_with_milliseconds() {
        let moment = Timestamp::from_millis(1_763_238_189_007);
        assert_eq!(moment.to_string(), "2025-11-15T20:23:09.007Z");
        assert_eq!(moment.to_string().parse::<Timestamp>().expect("parses its own output"), moment);
        assert_eq!(Timestamp::from_millis(1_000).to_string(), "1970-01-01T00:00:01.000Z");
    }

    #[test]
    fn a_clock_that_goes_back_never_gives_a_negative_duration() {
        let (earlier, later) = (Timestamp::from_millis(5), Timestamp::from_millis(9));
        assert_eq!(earlier.since(later), Duration::ZERO);
        assert_eq!(earlier.not_before(later), later);
    }
}
