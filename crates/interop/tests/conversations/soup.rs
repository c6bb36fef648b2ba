//! Files of random bytes and files with random damage: whatever is in them, readers say something sensible and none panics.

use coven_domain::conversation::{ConversationId, Line};
use coven_interop::conversations::{ConversationError, Filter};

use crate::stand::{NOW, Stand, exchange, id};

const CASES: u64 = 4000;

/// The same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }

    fn byte(&mut self) -> u8 {
        // Mostly what means something to a reader of JSON lines.
        match self.below(3) {
            0 => b"{}[]\":,\\\n\r\t 0\0\x7f\xff\xc3u"[self.below(18)],
            _ => self.below(256) as u8,
        }
    }
}

fn rubbish(dice: &mut Dice) -> Vec<u8> {
    let len = dice.below(600);
    (0..len).map(|_| dice.byte()).collect()
}

/// A sound file with some bytes changed, lost, doubled or moved.
fn damaged(dice: &mut Dice, sound: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for _ in 0..=dice.below(6) {
        let (at, len) = (dice.below(bytes.len()), dice.below(80));
        let end = bytes.len().min(at + len);
        match dice.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.splice(at..at, rubbish(dice)).for_each(drop),
            3 => {
                let again = bytes[at..end].to_vec();
                let to = dice.below(bytes.len());
                bytes.splice(to..to, again);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = dice.byte();
                }
            }
        }
    }
    bytes
}

/// Every way to read it; true if it could be loaded.
fn read_in_every_way(stand: &Stand, id: &ConversationId, case: u64) -> bool {
    let listed = stand.all.list(&Filter::default()).expect("a folder");
    assert_eq!(listed.conversations.len() + listed.broken.len(), 1, "case {case}");
    let last = stand.all.load_last(id, 3).expect("readable");
    match stand.all.load(id) {
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
fn chat_11_and_12_no_file_whatsoever_makes_a_reader_panic() {
    let stand = Stand::new();
    let id = id("soup");
    let source = stand.with_exchanges("source", 2);
    let mut lines = exchange("What is \"it\"?\n", "é 日本 🦀 \u{7}");
    stand.append(&source, &mut lines).expect("saved");
    stand.append(&source, &mut [Line::Clear { timestamp: NOW }]).expect("saved");
    let sound = stand.bytes(&source);
    stand.all.delete(&source).expect("nobody uses it");
    let (mut loaded, mut refused) = (0, 0);
    for case in 1..=CASES {
        let mut dice = Dice(case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bytes = if case.is_multiple_of(4) { rubbish(&mut dice) } else { damaged(&mut dice, &sound) };
        stand.put(&id, &bytes);
        match read_in_every_way(&stand, &id, case) {
            true => loaded += 1,
            false => refused += 1,
        }
        // Syncs cost: not every time.
        if case.is_multiple_of(10) {
            stand.exchange(&id, "whatever is there", "can be appended to");
            stand.all.recover(&id, NOW).expect("always possible");
            let again = stand.load(&id);
            assert_eq!(again.notices, [], "case {case}");
            let texts: Vec<&str> = again.transcript.turns.iter().map(|turn| turn.content.as_str()).collect();
            assert!(texts.ends_with(&["whatever is there", "can be appended to"]), "case {case}");
            assert_eq!(stand.all.summary(&id).expect("sound").turn_count, texts.len() as u64, "case {case}");
        }
        stand.all.delete(&id).expect("nobody uses it");
    }
    assert!(loaded > CASES / 10 && refused > CASES / 10, "{loaded} loaded, {refused} refused: both are tried");
}
