//! Lists: a page of 20 out of 100,000 sessions: the first one, a deep one by cursor, a deep one by offset.

use std::time::Instant;

use coven_api::routes::{CreateSession, Endpoint, ListSessions};
use serde_json::json;

use super::coven::Coven;
use super::http::Connection;
use super::pattern::Random;
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, ledger, micros};

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let count = bench.scale(100_000, 5000);
    let home = Coven::new(bench, json!({}))?;
    ledger::add_sessions(&home.home().join("coven.db"), count)?;
    home.start()?;
    let mut connection = home.connect()?;
    let cursors = walk(&mut connection)?;

    let first = format!("{}?limit=20", ListSessions::ROUTE.path);
    let deep = format!("{first}&offset={}", count - 1000);
    let mut change = home.request(&["/bin/true".to_owned()]);
    change["detach"] = json!(true);
    let mut random = Random::new(1);
    let mut medians: [Vec<f64>; 4] = Default::default();
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 4] = Default::default();
        for _ in 0..bench.scale(100, 20) {
            // A change invalidates the daemon's cached page; otherwise a cached
            // page would be compared with an uncached one.
            connection.post(CreateSession::ROUTE.path, &change)?;
            let cursor = &cursors[random.below(cursors.len() as u64) as usize];
            let paths = [first.clone(), format!("{first}&cursor={cursor}"), deep.clone(), first.clone()];
            for (path, times) in paths.iter().zip(&mut times) {
                let start = Instant::now();
                connection.get(path)?;
                times.push(micros(start.elapsed()));
            }
        }
        for (medians, times) in medians.iter_mut().zip(&times) {
            medians.push(median(times));
        }
    }

    let [head, keyset, offset, again] = medians;
    Ok(vec![
        Row::anchor(format!("list: first page of 20 of {count}, µs"), Spread::of(&head)),
        Row::anchor("list: first page again, nothing changed, µs", Spread::of(&again)),
        Row::anchor("list: page at a cursor, any depth, µs", Spread::of(&keyset)),
        Row::anchor(format!("list: page at offset {}, µs", count - 1000), Spread::of(&offset)),
        Row::at_most("list: cursor at any depth / first page", Spread::ratio(&keyset, &head), 2.0),
        Row::at_most(format!("list: offset {} / first page", count - 1000), Spread::ratio(&offset, &head), 40.0),
    ])
}

/// Walks the whole list in large pages and returns their cursors.
fn walk(connection: &mut Connection) -> BenchResult<Vec<String>> {
    let mut cursors: Vec<String> = Vec::new();
    loop {
        let from = cursors.last().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = connection.get_json(&format!("{}?limit=1000{from}", ListSessions::ROUTE.path))?;
        match page["next"].as_str() {
            Some(next) => cursors.push(next.to_owned()),
            None => break,
        }
    }
    match cursors.is_empty() {
        true => Err("the session list has only one page".into()),
        false => Ok(cursors),
    }
}
