//! The numbered pieces of the stub model's slow answer: whether they are all there, once, in order.

/// The number behind each `chunk`.
pub fn numbers(text: &str) -> Vec<u32> {
    let words: Vec<&str> = text.split_whitespace().collect();
    // What an agent says of itself may stand right before the first.
    let pairs = words.windows(2).filter(|pair| pair[0].ends_with("chunk"));
    pairs.filter_map(|pair| pair[1].parse().ok()).collect()
}

/// Nothing if the answer has the pieces 1 to `count`; else what is wrong with it.
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
        (true, true) => format!("the pieces came in the order {seen:?}"),
        _ => format!("of {count} pieces missing {missing:?}, more than once {twice:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_answer_has_no_flaw() {
        assert_eq!(flaw("A warning.chunk 1 \nchunk 2 \nchunk 3", 3), None);
    }

    #[test]
    fn what_is_missing_and_what_is_doubled_is_told() {
        let flaw = flaw("chunk 1 \nchunk 1 \nchunk 3 \n", 3).expect("it is not whole");
        assert_eq!(flaw, "of 3 pieces missing [2], more than once [1]");
    }

    #[test]
    fn a_wrong_order_is_told() {
        assert_eq!(flaw("chunk 2 chunk 1", 2).as_deref(), Some("the pieces came in the order [2, 1]"));
    }
}
