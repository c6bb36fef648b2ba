//! Checks that the numbered chunks of the stub model's slow answer are complete and in order.

/// Returns the number after each `chunk`.
pub fn numbers(text: &str) -> Vec<u32> {
    let words: Vec<&str> = text.split_whitespace().collect();
    // An agent's own text may precede the first chunk without a space.
    let pairs = words.windows(2).filter(|pair| pair[0].ends_with("chunk"));
    pairs.filter_map(|pair| pair[1].parse().ok()).collect()
}

/// Returns what is wrong with the answer, or `None` if it has the chunks 1 to `count` in order.
pub fn flaw(text: &str, count: u32) -> Option<String> {
    let seen = numbers(text);
    if seen == (1..=count).collect::<Vec<_>>() {
        return None;
    }
    let missing: Vec<u32> = (1..=count).filter(|number| !seen.contains(number)).collect();
    let mut twice: Vec<u32> =
        (1..=count).filter(|number| seen.iter().filter(|one| *one == number).count() > 1).collect();
    twice.dedup();
    Some(match (missing.is_empty(), twice.is_empty()) {
        (true, true) => format!("the chunks are in the order {seen:?}"),
        _ => format!("of {count} chunks, missing: {missing:?}, repeated: {twice:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_answer_has_no_flaw() {
        assert_eq!(flaw("A warning.chunk 1 \nchunk 2 \nchunk 3", 3), None);
    }

    #[test]
    fn missing_and_repeated_chunks_are_reported() {
        let flaw = flaw("chunk 1 \nchunk 1 \nchunk 3 \n", 3).expect("incomplete answer");
        assert_eq!(flaw, "of 3 chunks, missing: [2], repeated: [1]");
    }

    #[test]
    fn a_wrong_order_is_reported() {
        assert_eq!(flaw("chunk 2 chunk 1", 2).as_deref(), Some("the chunks are in the order [2, 1]"));
    }
}
