//! Where records of their own begin in a payload: JSON Pointers in which `*` stands for any
//! key or index.

use crate::engine::spec::RecordsPattern;

/// The places of one stream, and the walk that looks for them.
#[derive(Clone, Debug)]
pub(super) struct Places {
    patterns: Vec<RecordsPattern>,
    /// The payload's own record is one.
    whole: bool,
    /// How deep the walk is.
    depth: usize,
    /// The keys down to the present place; only with patterns. Those behind `depth` are spare.
    path: Vec<String>,
    /// The last pattern that was reached.
    reached: Option<usize>,
}

/// The patterns that fit so far, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Alive(u8);

impl Alive {
    /// None does.
    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl Places {
    /// Of the patterns of a stream, at most `limits::RECORD_PATTERNS_MAX`.
    pub(super) fn new(patterns: &[RecordsPattern]) -> Places {
        Places {
            whole: patterns.is_empty() || patterns.iter().any(|pattern| pattern.steps.is_empty()),
            patterns: patterns.iter().filter(|pattern| !pattern.steps.is_empty()).cloned().collect(),
            depth: 0,
            path: Vec::new(),
            reached: None,
        }
    }

    /// Back to the top; whether a record begins there.
    pub(super) fn start(&mut self) -> bool {
        self.depth = 0;
        self.reached = None;
        self.whole
    }

    /// All of them: the walk begins.
    pub(super) fn all(&self) -> Alive {
        let bits = (1_u16 << self.patterns.len()) - 1;
        Alive(u8::try_from(bits).expect("RECORD_PATTERNS_MAX is 8"))
    }

    /// One level down.
    pub(super) fn step(&mut self, alive: Alive, key: &str) -> Alive {
        if alive.is_none() {
            return alive;
        }
        let mut next = 0;
        for (index, pattern) in self.patterns.iter().enumerate().filter(|(index, _)| alive.0 >> index & 1 == 1) {
            let fits = match pattern.steps.get(self.depth) {
                Some(Some(step)) => **step == *key,
                Some(None) => true,
                None => false,
            };
            next |= u8::from(fits) << index;
        }
        if next != 0 {
            if self.path.len() == self.depth {
                self.path.push(String::new());
            }
            self.path[self.depth].clear();
            self.path[self.depth].push_str(key);
            self.depth += 1;
        }
        Alive(next)
    }

    /// One level up, from a place with `alive`.
    pub(super) fn back(&mut self, alive: Alive) {
        if !alive.is_none() {
            self.depth -= 1;
        }
    }

    /// Whether a record begins at the present place.
    pub(super) fn is_reached(&mut self, alive: Alive) -> bool {
        if alive.is_none() {
            return false;
        }
        let ends = |index: &usize| alive.0 >> index & 1 == 1 && self.patterns[*index].steps.len() == self.depth;
        let reached = (0..self.patterns.len()).find(ends);
        self.reached = reached.or(self.reached);
        reached.is_some()
    }

    /// What the `*` of the pattern met that was reached last.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        let steps = self.reached.filter(|_| self.depth > 0).map_or(&[][..], |reached| &self.patterns[reached].steps);
        steps.iter().zip(&self.path).filter(|(step, _)| step.is_none()).map(|(_, key)| key.as_str())
    }
}
