//! Cold start: time of a complete run of the command line, from fork to exit.

use std::process::{Command, Stdio};
use std::time::Instant;

use coven_api::routes::{CreateSession, Endpoint};
use serde_json::json;

use super::coven::Coven;
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, micros};

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let home = Coven::started(bench, json!({}))?;
    let mut connection = home.connect()?;
    for number in 0..100 {
        let mut request = home.request(&["/bin/true".to_owned()]);
        request["detach"] = json!(true);
        request["title"] = json!(format!("session number {number}"));
        connection.post(CreateSession::ROUTE.path, &request)?;
    }

    let mut commands = [Command::new("/bin/true"), home.command(&["--version"]), home.command(&["sessions", "--json"])];
    let mut medians: [Vec<f64>; 3] = Default::default();
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..bench.scale(100, 10) {
            for (command, times) in commands.iter_mut().zip(&mut times) {
                times.push(run(command)?);
            }
        }
        for (medians, times) in medians.iter_mut().zip(&times) {
            medians.push(median(times));
        }
    }

    let [base, version, sessions] = medians;
    Ok(vec![
        Row::anchor("start: /bin/true, µs", Spread::of(&base)),
        Row::anchor("start: coven --version, µs", Spread::of(&version)),
        Row::anchor("start: coven sessions --json, µs", Spread::of(&sessions)),
        Row::at_most("start: coven --version / true", Spread::ratio(&version, &base), 2.0),
        Row::at_most("start: coven sessions --json, 100 sessions / true", Spread::ratio(&sessions, &base), 3.0),
    ])
}

fn run(command: &mut Command) -> BenchResult<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status()?;
    let took = micros(start.elapsed());
    match status.success() {
        true => Ok(took),
        false => Err(format!("{command:?} ended with {status}").into()),
    }
}
