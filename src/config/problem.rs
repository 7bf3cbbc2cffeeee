//! What is wrong with a configuration, in words that let a person on the other
//! end of a slow link fix all of it in one round.

use core::fmt;

use super::raw::Place;

/// One problem, or one warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The document's name.
    pub file: String,
    /// Line, counted from 1; unknown in JSON and for what is missing altogether.
    pub line: Option<usize>,
    /// Column in characters, counted from 1.
    pub column: Option<usize>,
    /// Key path, such as `streams[0].windows[1].size`; empty for the document.
    pub path: String,
    /// The value that stands there, shortened.
    pub value: Option<String>,
    /// What is wrong: a sentence without a full stop.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n    hint: {hint}")?;
        }
        Ok(())
    }
}

/// A refused value: what is wrong with it, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Wrong {
    pub(super) fn new(message: impl Into<String>) -> Wrong {
        Wrong { message: message.into(), hint: None }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Wrong {
        Wrong { hint: Some(hint.into()), ..self }
    }
}

/// What a problem is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Spot {
    pub(super) path: String,
    pub(super) place: Option<Place>,
    pub(super) value: Option<String>,
}

/// Collects everything; order is that of finding, then that of the file.
#[derive(Clone, Debug)]
pub(super) struct Report {
    file: String,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Report {
    pub(super) fn new(file: &str) -> Report {
        Report { file: file.to_owned(), problems: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn problem(&mut self, spot: &Spot, wrong: Wrong) {
        let problem = self.build(spot, wrong);
        self.problems.push(problem);
    }

    pub(super) fn warn(&mut self, spot: &Spot, wrong: Wrong) {
        let warning = self.build(spot, wrong);
        self.warnings.push(warning);
    }

    /// Problems and warnings, in the order of the lines.
    pub(super) fn into_parts(mut self) -> (Vec<Problem>, Vec<Problem>) {
        self.problems.sort_by_key(|problem| (problem.line, problem.column));
        self.warnings.sort_by_key(|problem| (problem.line, problem.column));
        (self.problems, self.warnings)
    }

    fn build(&self, spot: &Spot, wrong: Wrong) -> Problem {
        Problem {
            file: self.file.clone(),
            line: spot.place.map(|place| place.line),
            column: spot.place.map(|place| place.column),
            path: spot.path.clone(),
            value: spot.value.clone(),
            message: wrong.message,
            hint: wrong.hint,
        }
    }
}

/// The word nearest to `word`, when it is near enough to be what was meant.
pub(super) fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let word = word.to_lowercase().replace('-', "_");
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(longer) = known.iter().find(|known| word.len() >= 4 && known.starts_with(&word)) {
        return Some(longer);
    }
    let candidates = known.into_iter().map(|known| (distance(&word, known), known));
    let (distance, best) = candidates.min_by_key(|(distance, _)| *distance)?;
    let length = best.chars().count().max(word.chars().count());
    (distance * 3 <= length).then_some(best)
}

/// Levenshtein's distance, with two rows.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_the_word_and_a_strange_word_finds_none() {
        let known = ["disorder", "idle_timeout", "scope", "size"];
        for (word, expected) in [
            ("disorders", Some("disorder")),
            ("idle-timeout", Some("idle_timeout")),
            ("sise", Some("size")),
            ("Scope", Some("scope")),
            ("idle", Some("idle_timeout")),
            ("s", None),
            ("colour", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
