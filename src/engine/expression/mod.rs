//! Expressions over the values of one record: which records count (`filter`), and fields
//! that are computed. A part of CEL, the Common Expression Language:
//!
//! | written | is |
//! |---|---|
//! | `temperature`, `io.rssi`, `field["switch:0.apower"]` | a field, by its name; `field.temperature` too |
//! | `label.site`, `label["site"]` · `device` · `event_ms` | a label · texts · milliseconds since 1970 |
//! | `has(field.t)`, `has(io.rssi)`, `has(label.site)`, `"switch:0.apower" in field` | whether it is there |
//! | `1`, `2.5`, `"text"`, `true` | all numbers are doubles: `1 / 2` is 0.5 |
//! | `+ - * / %` and `-x` | of numbers; texts do not grow |
//! | `== !=` | of anything; values of two types differ |
//! | `< <= > >=` | of two of the same type |
//! | `&& \|\| !`, `c ? a : b` | as usual; `false && …` is false whatever fails there |
//! | `mode in ["heat", "cool"]` | one of these |
//! | `name.contains("x")`, `startsWith`, `endsWith`, `size(name)` | of texts; in characters |
//! | `double(x)`, `int(x)` | of numbers and texts; `int` cuts towards zero |
//! | `math.abs`, `ceil`, `floor`, `round`, `trunc`, `sqrt`, `least`, `greatest` | of numbers |
//!
//! The parser is that of the `cel` crate; its tree becomes a smaller one of our own
//! (`compile.rs`), which is evaluated here. The crate's evaluator knows integers beside
//! doubles and refuses `temperature + 1`, builds lists and strings, and costs two to
//! five times as much; a test holds the two against each other where both have an answer.
//!
//! **Cost.** A text is at most [`TEXT_BYTES_MAX`] long and [`DEPTH_MAX`] levels deep. There
//! is no loop, no macro but `has`, no regular expression and nothing that makes a text or a
//! list, so every part of the text is evaluated at most once, and nothing is allocated.
//!
//! **Failure.** Nothing panics. A value that is not there, a wrong type, a division by zero
//! or a result that is no finite number is an [`EvaluationError`].

mod compile;
mod evaluate;

use thiserror::Error;

/// Longest text of an expression.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// Levels of an expression: of operators and calls in each other, and of brackets. A sum of
/// 32 terms has 32 levels; `&&` and `||` are balanced by the parser and have less.
pub const DEPTH_MAX: usize = 32;

/// A checked expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    root: compile::Node,
    variables: Vec<Variable>,
}

/// Something of a record that an expression refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// A field, by its name in the stream.
    Field(String),
    /// A label of the device.
    Label(String),
    /// The device's name.
    Device,
    /// The event time, in milliseconds since 1970.
    EventMs,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Datum<'v> {
    /// Any number, and the event time.
    Number(f64),
    /// A state, a label, the device.
    Text(&'v str),
    /// A state that is a truth value.
    Bool(bool),
}

/// The record that an expression is about.
pub trait Scope {
    /// The value of `variable`, the one of that place in [`Expression::variables`] (so that
    /// it may be looked up by the place alone); `None`: it is not there.
    fn get(&self, place: usize, variable: &Variable) -> Option<Datum<'_>>;
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{message}", place(*.line, *.column))]
pub struct ExpressionError {
    /// What is wrong.
    pub message: String,
    /// From 1; 0 where no place is known.
    pub line: usize,
    /// From 1, in characters; 0 where no place is known.
    pub column: usize,
}

/// Why an expression has no value for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// The record does not have the variable of this place in [`Expression::variables`].
    #[error("a value is not there")]
    Missing {
        /// Which one.
        place: usize,
    },
    /// An operator or function does not take what it got, or a filter is no truth value,
    /// or a field no number.
    #[error("a value has the wrong type")]
    WrongType,
    /// `/` or `%`.
    #[error("division by zero")]
    DivisionByZero,
    /// Beyond what a double can hold, or the root of something negative.
    #[error("not a finite number")]
    NotFinite,
    /// `double` or `int` of a text that is none.
    #[error("a text is no number")]
    NotNumber,
}

impl Expression {
    /// Reads and checks `text`.
    ///
    /// # Errors
    /// With the place, where it is known, for a text that is no CEL, or that says something
    /// beyond the part of it that is above.
    pub fn compile(text: &str) -> Result<Expression, ExpressionError> {
        let (root, variables) = compile::compile(text)?;
        Ok(Expression { root, variables })
    }

    /// What it refers to, each once, `has` included; in the order of the text.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Whether the record passes.
    ///
    /// # Errors
    /// When there is no answer; what is to happen then is the caller's business.
    pub fn filter(&self, scope: &dyn Scope) -> Result<bool, EvaluationError> {
        match self.evaluate(scope)? {
            Datum::Bool(passes) => Ok(passes),
            Datum::Number(_) | Datum::Text(_) => Err(EvaluationError::WrongType),
        }
    }

    /// The number that it computes, always finite.
    ///
    /// # Errors
    /// When there is none.
    pub fn number(&self, scope: &dyn Scope) -> Result<f64, EvaluationError> {
        match self.evaluate(scope)? {
            Datum::Number(number) => Ok(number),
            Datum::Bool(_) | Datum::Text(_) => Err(EvaluationError::WrongType),
        }
    }

    fn evaluate<'v>(&'v self, scope: &'v dyn Scope) -> Result<Datum<'v>, EvaluationError> {
        evaluate::evaluate(&self.root, &self.variables, scope)
    }
}

fn place(line: usize, column: usize) -> String {
    match (line, column) {
        (0, _) => String::new(),
        (1, column) => format!("at character {column}: "),
        (line, column) => format!("at line {line}, character {column}: "),
    }
}
