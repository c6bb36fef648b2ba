//! Targets with one planted defect each, for testing the fuzzer itself.

use std::hint::black_box;

use crate::Target;

pub const TARGETS: &[Target] = &[
    Target { name: "planted_panic", run: panics, words: &["boom"] },
    Target { name: "planted_hang", run: hangs, words: &["boom"] },
    Target { name: "planted_memory", run: grows, words: &["boom"] },
];

fn is_hit(data: &[u8]) -> bool {
    data.windows(4).any(|piece| piece == b"boom")
}

fn panics(data: &[u8]) {
    assert!(!is_hit(data), "the planted defect");
}

fn hangs(data: &[u8]) {
    while is_hit(black_box(data)) {
        std::thread::yield_now();
    }
}

fn grows(data: &[u8]) {
    if is_hit(data) {
        let memory = vec![1u8; 300 << 20];
        black_box(&memory);
    }
}
