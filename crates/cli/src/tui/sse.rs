//! Reads server-sent events from a byte stream, in pieces cut anywhere.

/// One event of the stream. Comments, which only keep the line open, are none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamEvent {
    pub kind: String,
    pub data: String,
}

#[derive(Debug, Default)]
pub struct EventReader {
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
    event: StreamEvent,
}

impl EventReader {
    /// The events that `bytes` complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        self.rest.extend_from_slice(bytes);
        let mut events = Vec::new();
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            self.line(line, &mut events);
        }
        events
    }

    fn line(&mut self, line: &str, events: &mut Vec<StreamEvent>) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if event != StreamEvent::default() {
                events.push(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.kind = value.to_owned(),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, ids and retry times are of no use here: after a break the list is read anew.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        ": hello\n\nid: 7\nevent: session.killed\ndata: {\"a\":\ndata: \"é\"}\n\nevent: gap\r\ndata:\r\n\r\nevent: cut";

    fn expected() -> Vec<StreamEvent> {
        vec![
            StreamEvent { kind: "session.killed".into(), data: "{\"a\":\n\"é\"}".into() },
            StreamEvent { kind: "gap".into(), data: String::new() },
        ]
    }

    #[test]
    fn whole_events_are_read() {
        assert_eq!(EventReader::default().push(STREAM.as_bytes()), expected());
    }

    #[test]
    fn pieces_may_be_cut_anywhere() {
        for cut in 0..STREAM.len() {
            let mut reader = EventReader::default();
            let (first, second) = STREAM.as_bytes().split_at(cut);
            let mut events = reader.push(first);
            events.extend(reader.push(second));
            assert_eq!(events, expected(), "cut at {cut}");
        }
    }
}
