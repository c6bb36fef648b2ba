//! Latency of ^C: for an idle agent, and for an agent that floods its terminal while a viewer watches.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use serde_json::json;

use super::websocket::{Frame, LiveClient};
use crate::bench::coven::{Coven, Session};
use crate::bench::report::Row;
use crate::bench::stats::{Spread, median};
use crate::bench::{Bench, BenchResult, micros};

const INTERRUPT: &str = "\u{3}";
/// Pause between two keys, so that the flood is at full speed for each.
const PAUSE: Duration = Duration::from_millis(2);

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("control");
    let listener = UnixListener::bind(&path)?;
    let home = Coven::started(bench, json!({ "compressFinished": false }))?;
    let session = home.launch(&bench.program(&["interruptible", &path.to_string_lossy()]))?;
    let mut agent = Agent { control: BufReader::new(listener.accept()?.0) };
    let mut keyboard = LiveClient::open(&home)?;
    let (mut idle, mut flooded) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let keys = bench.scale(200, 20);
        idle.push(interrupts(&mut keyboard, &session, &mut agent, keys)?);
        let mut viewer = LiveClient::open(&home)?;
        viewer.watch(&session, "bytes")?;
        let close = viewer.closer()?;
        let viewing = std::thread::spawn(move || follow(viewer));
        agent.send("flood")?;
        flooded.push(interrupts(&mut keyboard, &session, &mut agent, keys)?);
        agent.send("quiet")?;
        close.shutdown(Shutdown::Both)?;
        viewing.join().expect("the viewer does not panic");
    }
    home.kill(&session)?;
    Ok(vec![
        Row::anchor("wire: ^C until an idle agent receives it, p50 in µs", Spread::of(&idle)),
        Row::anchor("wire: ^C until a flooding agent receives it, p50 in µs", Spread::of(&flooded)),
        Row::at_most("wire: ^C during a flood / idle", Spread::ratio(&flooded, &idle), 2.0),
    ])
}

/// Returns the median time until the agent receives a ^C, in µs.
fn interrupts(keyboard: &mut LiveClient, session: &Session, agent: &mut Agent, keys: usize) -> BenchResult<f64> {
    let mut times = Vec::with_capacity(keys);
    for _ in 0..keys {
        std::thread::sleep(PAUSE);
        let start = Instant::now();
        keyboard.input(session, INTERRUPT)?;
        agent.expect("interrupted")?;
        times.push(micros(start.elapsed()));
    }
    Ok(median(&times))
}

/// Reads and acknowledges until the connection is closed.
fn follow(mut viewer: LiveClient) {
    while let Ok(frame) = viewer.next() {
        let acknowledged = match frame {
            Frame::Output { end, .. } => viewer.ack(end),
            Frame::Control { .. } => Ok(()),
        };
        if acknowledged.is_err() {
            return;
        }
    }
}

/// The benchmark's side of `interruptible`.
struct Agent {
    control: BufReader<UnixStream>,
}

impl Agent {
    fn send(&mut self, word: &str) -> BenchResult<()> {
        Ok(writeln!(self.control.get_mut(), "{word}")?)
    }

    fn expect(&mut self, word: &str) -> BenchResult<()> {
        let mut line = String::new();
        self.control.read_line(&mut line)?;
        if line.trim() == word { Ok(()) } else { Err(format!("the agent answered {line:?}").into()) }
    }
}
