//! What may be asked about samples, as one line on the control socket.
//!
//! ```text
//! quarantine list
//! quarantine show STREAM [REASON]
//! quarantine replay [STREAM [REASON]]
//! quarantine replay-again [STREAM [REASON]]      also those in doubt
//! ```
//!
//! STREAM is percent-encoded outside `[A-Za-z0-9._~-]`, so that it is one word.

use std::fmt;

use crate::model::ids::{Name, push_escaped};
use crate::model::record::RejectReason;

/// One question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// What is kept, in numbers.
    List,
    /// The samples themselves.
    Show(Selection),
    /// Have them taken in. `again`: also those of a replay that was interrupted.
    Replay {
        /// Which.
        selection: Selection,
        /// Somebody has decided that those in doubt were not taken in.
        again: bool,
    },
}

/// Some of the rings; by default all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// Of this stream.
    pub stream: Option<Name>,
    /// And this reason.
    pub reason: Option<RejectReason>,
}

impl Selection {
    pub(super) fn has(&self, (stream, reason): &(Name, RejectReason)) -> bool {
        self.stream.as_ref().is_none_or(|wanted| wanted == stream) && self.reason.is_none_or(|wanted| wanted == *reason)
    }

    fn parse(words: &[&str]) -> Result<Selection, String> {
        let stream = words.first().map(|word| unescaped(word).ok_or_else(|| format!("\"{word}\" is no stream's name")));
        let reason = words.get(1).map(|word| reason(word).ok_or_else(|| format!("there is no reason \"{word}\"")));
        Ok(Selection { stream: stream.transpose()?, reason: reason.transpose()? })
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(stream) = &self.stream else { return Ok(()) };
        f.write_str(" ")?;
        push_escaped(f, stream.as_str())?;
        self.reason.map_or(Ok(()), |reason| write!(f, " {}", reason.as_str()))
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Query::List => f.write_str("quarantine list"),
            Query::Show(selection) => write!(f, "quarantine show{selection}"),
            Query::Replay { selection, again: false } => write!(f, "quarantine replay{selection}"),
            Query::Replay { selection, again: true } => write!(f, "quarantine replay-again{selection}"),
        }
    }
}

impl Query {
    /// The known forms, for whoever asks for something else.
    pub const KNOWN: &str = "quarantine list, quarantine show STREAM [REASON], quarantine replay [STREAM [REASON]]";

    /// From the words after `quarantine`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(words: &[&str]) -> Result<Query, String> {
        match words {
            ["list"] => Ok(Query::List),
            ["show", rest @ ..] if (1..=2).contains(&rest.len()) => Ok(Query::Show(Selection::parse(rest)?)),
            [word @ ("replay" | "replay-again"), rest @ ..] if rest.len() <= 2 => {
                Ok(Query::Replay { selection: Selection::parse(rest)?, again: *word == "replay-again" })
            }
            _ => Err(format!("known: {}", Query::KNOWN)),
        }
    }
}

/// The reason of that name.
pub fn reason(word: &str) -> Option<RejectReason> {
    RejectReason::ALL.into_iter().find(|reason| reason.as_str() == word)
}

/// A name that [`push_escaped`] has escaped.
pub(super) fn unescaped(text: &str) -> Option<Name> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    Name::new(std::str::from_utf8(&bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Query, String> {
        let words: Vec<&str> = line.split(' ').collect();
        Query::parse(&words[1..])
    }

    #[test]
    fn a_query_is_read_as_it_was_written() {
        let of = |stream: &str, reason| Selection { stream: Name::new(stream), reason };
        for query in [
            Query::List,
            Query::Show(of("a b/ü%@", None)),
            Query::Show(of("s", Some(RejectReason::NotJson))),
            Query::Replay { selection: Selection::default(), again: false },
            Query::Replay { selection: of(&"ü".repeat(32), Some(RejectReason::BadAvailability)), again: true },
        ] {
            let line = query.to_string();
            assert_eq!(parse(&line), Ok(query), "{line}");
            assert!(line.len() < 256, "{line}");
        }
    }

    #[test]
    fn a_wrong_one_says_what_is_wrong() {
        for (line, why) in [
            ("quarantine ", "known: quarantine list"),
            ("quarantine show", "known: quarantine list"),
            ("quarantine show s not_json 3", "known: quarantine list"),
            ("quarantine show s no_reason", "no reason \"no_reason\""),
            ("quarantine show s%2", "no stream's name"),
            ("quarantine replay %0A", "no stream's name"),
        ] {
            let refused = parse(line).expect_err("wrong");
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }
}
