//! Random bytes and randomly damaged files: every reader returns a result or an error and never panics.

use coven_domain::conversation::{ConversationId, Line};
use coven_interop::conversations::{ConversationError, Filter};

use crate::fixture::{Fixture, NOW, exchange, id};

const CASES: u64 = 4000;

/// Random numbers that are the same in every run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    fn byte(&mut self) -> u8 {
        // Prefer bytes that have a meaning in JSON lines.
        match self.below(3) {
            0 => b"{}[]\":,\\\n\r\t 0\0\x7f\xff\xc3u"[self.below(18)],
            _ => self.below(256) as u8,
        }
    }
}

fn random_bytes(rng: &mut Rng) -> Vec<u8> {
    let len = rng.below(600);
    (0..len).map(|_| rng.byte()).collect()
}

/// Returns a sound file with some bytes changed, removed, duplicated or inserted.
fn damaged(rng: &mut Rng, sound: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for _ in 0..=rng.below(6) {
        let (at, len) = (rng.below(bytes.len()), rng.below(80));
        let end = bytes.len().min(at + len);
        match rng.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.splice(at..at, random_bytes(rng)).for_each(drop),
            3 => {
                let copy = bytes[at..end].to_vec();
                let to = rng.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.byte();
                }
            }
        }
    }
    bytes
}

/// Reads the conversation in every way. Returns whether it loaded.
fn read_in_every_way(fixture: &Fixture, id: &ConversationId, case: u64) -> bool {
    let listed = fixture.all.list(&Filter::default()).expect("readable folder");
    assert_eq!(listed.conversations.len() + listed.broken.len(), 1, "case {case}");
    let last = fixture.all.load_last(id, 3).expect("readable");
    match fixture.all.load(id) {
        Ok(loaded) => {
            let turns = &loaded.transcript.turns;
            assert!(turns.ends_with(&last.turns), "case {case}");
            let context = loaded.transcript.context();
            assert!(context.turns(turns).count() <= turns.len());
            true
        }
        Err(ConversationError::Damaged { damage, count, .. }) => {
            assert!(!damage.is_empty() && count >= damage.len(), "case {case}");
            false
        }
        Err(error) => panic!("case {case}: {error}"),
    }
}

#[test]
fn chat_11_and_12_readers_never_panic_on_damaged_files() {
    let fixture = Fixture::new();
    let id = id("damaged");
    let source = fixture.with_exchanges("source", 2);
    let mut lines = exchange("What is \"it\"?\n", "é 日本 🦀 \u{7}");
    fixture.append(&source, &mut lines).expect("saved");
    fixture.append(&source, &mut [Line::Clear { timestamp: NOW }]).expect("saved");
    let sound = fixture.bytes(&source);
    fixture.all.delete(&source).expect("not in use");
    let (mut loaded, mut refused) = (0, 0);
    for case in 1..=CASES {
        let mut rng = Rng(case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bytes = if case.is_multiple_of(4) { random_bytes(&mut rng) } else { damaged(&mut rng, &sound) };
        fixture.put(&id, &bytes);
        match read_in_every_way(&fixture, &id, case) {
            true => loaded += 1,
            false => refused += 1,
        }
        // Appends sync to disk, which is slow: try them only sometimes.
        if case.is_multiple_of(10) {
            fixture.exchange(&id, "any file", "can be appended to");
            fixture.all.recover(&id, NOW).expect("always recoverable");
            let again = fixture.load(&id);
            assert_eq!(again.notices, [], "case {case}");
            let texts: Vec<&str> = again.transcript.turns.iter().map(|turn| turn.content.as_str()).collect();
            assert!(texts.ends_with(&["any file", "can be appended to"]), "case {case}");
            assert_eq!(fixture.all.summary(&id).expect("sound").turn_count, texts.len() as u64, "case {case}");
        }
        fixture.all.delete(&id).expect("not in use");
    }
    assert!(loaded > CASES / 10 && refused > CASES / 10, "both must occur: {loaded} loaded, {refused} refused");
}
