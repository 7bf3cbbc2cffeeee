//! When a gateway has answered a document, and what its answer means for the exit code. Pure.

use serde_json::Value;

use crate::cli::EXIT_USAGE;

/// Exit code when something did not answer in time.
pub(super) const EXIT_SILENT: u8 = 3;
/// When a gateway said no.
pub(super) const EXIT_REFUSED: u8 = 1;

/// What became of a document or a command at one gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It runs; or was done.
    Accepted,
    /// Rejected or rolled back; or refused.
    Refused,
    /// No answer.
    Silent,
}

/// What a report says of the document with one of these hashes; `None`: nothing final. `before`: the report
/// that was there when the document was published, which cannot be an answer to it.
pub(super) fn verdict(payload: &[u8], before: Option<&[u8]>, hashes: &[String]) -> Option<(Outcome, Value)> {
    if before == Some(payload) {
        return None;
    }
    let report: Value = serde_json::from_slice(payload).ok()?;
    let outcome = match report["state"].as_str()? {
        "confirmed" | "unchanged" => Outcome::Accepted,
        "rejected" | "rolled_back" => Outcome::Refused,
        _ => return None,
    };
    // What the gateway could not even read has no hash.
    let unread = report["hash"].is_null() && report["version"].is_null() && outcome == Outcome::Refused;
    let ours = unread || hashes.iter().any(|hash| report["hash"] == **hash);
    ours.then_some((outcome, report))
}

/// One more than every version that this gateway has told of; 1 when it has told of none.
pub(super) fn next_version(report: &Value) -> u64 {
    // Of the history too: after a way back, what was refused later hides what was taken before.
    let history = report["history"].as_array().into_iter().flatten().map(|entry| &entry["version"]);
    let told = [&report["version"], &report["confirmed"]["version"]].into_iter().chain(history);
    let highest = told.filter_map(Value::as_u64).max();
    highest.map_or(1, |version| version.saturating_add(1))
}

/// Of everything that was asked for: what was refused counts before what is not known.
pub(super) fn exit_code(outcomes: impl IntoIterator<Item = Outcome>) -> u8 {
    let code = |outcome| match outcome {
        Outcome::Accepted => 0,
        Outcome::Silent => EXIT_SILENT,
        Outcome::Refused => EXIT_REFUSED,
    };
    outcomes.into_iter().map(code).filter(|code| *code != 0).min().unwrap_or(0)
}

const _: () = assert!(EXIT_SILENT != EXIT_USAGE && EXIT_REFUSED < EXIT_SILENT, "told apart, and the order of `min`");

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(report: &str, before: Option<&str>) -> Option<Outcome> {
        verdict(report.as_bytes(), before.map(str::as_bytes), &["aa".to_owned(), "ab".to_owned()])
            .map(|(outcome, _)| outcome)
    }

    #[test]
    fn only_a_final_report_of_our_document_is_an_answer() {
        let report = |state: &str, hash: &str| format!(r#"{{"state":"{state}","hash":"{hash}","version":2}}"#);
        for (state, expected) in [
            ("applied", None),
            ("trial", None),
            ("confirmed", Some(Outcome::Accepted)),
            ("unchanged", Some(Outcome::Accepted)),
            ("rejected", Some(Outcome::Refused)),
            ("rolled_back", Some(Outcome::Refused)),
            ("something_new", None),
        ] {
            assert_eq!(outcome(&report(state, "aa"), None), expected, "{state}");
            assert_eq!(outcome(&report(state, "bb"), None), None, "{state}, of another document");
        }
        assert_eq!(outcome(&report("rejected", "ab"), None), Some(Outcome::Refused), "as it was sent");
        for broken in ["", "7", "{}", r#"{"state":7}"#] {
            assert_eq!(outcome(broken, None), None, "{broken}");
        }
    }

    #[test]
    fn what_was_there_before_is_no_answer_and_what_could_not_be_read_is_one() {
        let old = r#"{"state":"confirmed","hash":"aa","at_ms":1}"#;
        let new = r#"{"state":"unchanged","hash":"aa","at_ms":2}"#;
        assert_eq!(outcome(old, Some(old)), None);
        assert_eq!(outcome(new, Some(old)), Some(Outcome::Accepted));
        assert_eq!(outcome(r#"{"state":"rejected","hash":null,"version":null}"#, Some(old)), Some(Outcome::Refused));
        assert_eq!(outcome(r#"{"state":"confirmed","hash":null}"#, Some(old)), None);
    }

    #[test]
    fn the_next_version_is_above_all_that_were_told() {
        let next = |report: &str| next_version(&serde_json::from_str(report).unwrap());
        assert_eq!(next("null"), 1);
        assert_eq!(next(r#"{"version":null,"confirmed":{"version":null}}"#), 1);
        assert_eq!(next(r#"{"version":3,"confirmed":{"version":9}}"#), 10);
        assert_eq!(next(r#"{"version":12,"confirmed":{"version":9}}"#), 13);
        assert_eq!(next(r#"{"version":null,"confirmed":{"version":null},"history":[{"version":6},{}]}"#), 7);
    }

    #[test]
    fn a_refusal_counts_before_silence_and_silence_before_success() {
        use Outcome::{Accepted, Refused, Silent};
        assert_eq!(exit_code([]), 0);
        assert_eq!(exit_code([Accepted, Accepted]), 0);
        assert_eq!(exit_code([Accepted, Silent]), 3);
        assert_eq!(exit_code([Silent, Refused, Accepted]), 1);
    }
}
