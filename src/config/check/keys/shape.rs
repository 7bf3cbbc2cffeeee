//! What the value of a key may be, as far as it can be said of the value alone.
//!
//! From this the JSON Schema is made ([`crate::config::schema`]). Bounds come from the
//! checker's own constants; that its words and texts are these is tested (tests/schema).

use core::ops::RangeInclusive;

use crate::model::time::Span;

use super::Section;

/// The kinds of values.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer {
        /// The least.
        min: usize,
        /// The most; `usize::MAX`: any.
        max: usize,
        /// What is counted; empty where that is no count.
        unit: &'static str,
    },
    /// A finite number.
    Number {
        /// The least; with `above`, what it has to be above.
        min: f64,
        /// The most.
        max: f64,
        /// `min` itself is too low.
        above: bool,
    },
    /// A text of some form.
    Text(&'static Form),
    /// One of these words, which have a blank between them.
    Words(&'static str),
    /// The same, for words that are listed elsewhere.
    Known(fn() -> Vec<&'static str>),
    /// A length of time with its unit.
    Duration {
        /// The least, in milliseconds.
        min_ms: u64,
        /// The most, in milliseconds.
        max_ms: u64,
    },
    /// The same, perhaps negative; how long, other keys say.
    Offset,
    /// Bytes with their unit.
    Size {
        /// The least, in bytes.
        min: u64,
        /// The most, in bytes.
        max: u64,
    },
    /// Any of these.
    AnyOf(&'static [Shape]),
    /// A list.
    List {
        /// What each item is.
        item: &'static Shape,
        /// The fewest.
        min: usize,
        /// The most; `usize::MAX`: any number.
        max: usize,
        /// No item comes twice.
        unique: bool,
    },
    /// A single one, or a list.
    OneOrMore {
        /// What each is.
        item: &'static Shape,
        /// The fewest in the list.
        min: usize,
        /// The most in it.
        max: usize,
    },
    /// A table whose keys are names of the user's own.
    Map {
        /// What a name is.
        name: &'static Form,
        /// What each value is.
        value: &'static Shape,
        /// The fewest.
        min: usize,
        /// The most; `usize::MAX`: any number.
        max: usize,
    },
    /// A table with these keys.
    Table(&'static Section),
    /// The same; a preset may have the rest of it.
    Part(&'static Section),
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The fewest characters.
    pub min: usize,
    /// The most characters; the checker counts bytes. `usize::MAX`: any number.
    pub max: usize,
    /// A regular expression that finds something in it, in what ECMA 262 and Rust have in
    /// common; empty: any.
    pub pattern: &'static str,
}

/// One of several ways in which the keys of a table go together.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// These are there.
    pub with: &'static [&'static str],
    /// These are not.
    pub without: &'static [&'static str],
    /// These, which are [`Shape::Part`], are complete: no preset adds to them.
    pub whole: &'static [&'static str],
}

/// A case without parts.
pub(super) const fn case(with: &'static [&'static str], without: &'static [&'static str]) -> Case {
    Case { with, without, whole: &[] }
}

pub(super) const fn integer(range: &RangeInclusive<usize>, unit: &'static str) -> Shape {
    Shape::Integer { min: *range.start(), max: *range.end(), unit }
}

pub(super) const fn duration(range: &RangeInclusive<Span>) -> Shape {
    Shape::Duration { min_ms: range.start().as_millis(), max_ms: range.end().as_millis() }
}

pub(super) const fn size(range: &RangeInclusive<u64>) -> Shape {
    Shape::Size { min: *range.start(), max: *range.end() }
}

pub(super) const fn list(item: &'static Shape, min: usize, max: usize) -> Shape {
    Shape::List { item, min, max, unique: false }
}

pub(super) const fn set(item: &'static Shape, min: usize, max: usize) -> Shape {
    Shape::List { item, min, max, unique: true }
}

pub(super) const fn map(name: &'static Form, value: &'static Shape, min: usize, max: usize) -> Shape {
    Shape::Map { name, value, min, max }
}

pub(super) const fn one_or_more(item: &'static Shape, max: usize) -> Shape {
    Shape::OneOrMore { item, min: 1, max }
}
