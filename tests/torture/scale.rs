//! Short, as a part of all tests, or long, when `TIDEGATE_TORTURE=full` asks for it.

/// How often: `short` or `long`.
pub(crate) fn rounds(short: u64, long: u64) -> u64 {
    match std::env::var("TIDEGATE_TORTURE") {
        Ok(word) if word == "full" => long,
        Ok(word) => panic!("TIDEGATE_TORTURE is {word:?}; the only word is \"full\""),
        Err(_) => short,
    }
}
