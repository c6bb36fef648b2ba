//! Runs every target on its committed corpus and on a fixed number of mutations.

use std::sync::atomic::{AtomicBool, Ordering};

use coven_fuzz::{Dice, TARGETS, corpus, mutated, target};

const MUTATIONS: usize = 150;

static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

#[track_caller]
fn run(name: &str) {
    let report = std::panic::take_hook();
    // A panic in a task of the target would otherwise be lost.
    std::panic::set_hook(Box::new(move |info| {
        HAS_PANICKED.store(true, Ordering::SeqCst);
        report(info);
    }));
    let target = target(name).expect("a target");
    let corpus = corpus::inputs(name);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    let inputs: Vec<Vec<u8>> = corpus.iter().map(|(_, input)| input.clone()).collect();
    for (file, input) in &corpus {
        (target.run)(input);
        assert!(!HAS_PANICKED.load(Ordering::SeqCst), "a thread panicked on corpus/{name}/{file}");
    }
    let mut dice = Dice::new(7);
    for nth in 0..MUTATIONS {
        let base = dice.pick(&inputs).expect("the corpus is not empty");
        (target.run)(&mutated(base, &inputs, target.words, &mut dice));
        assert!(!HAS_PANICKED.load(Ordering::SeqCst), "a thread panicked on mutation {nth} of {name}");
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn every_target_is_tested_here() {
            let tested = [$(stringify!($name)),*];
            let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(known, tested);
        }
    };
}

targets! {
    journal log holder_frames attach_frames acp_lines mcp_lines workflow template config conversation questions legacy
    keyframe screen
}
