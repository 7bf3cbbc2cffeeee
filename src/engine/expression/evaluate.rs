//! The value of a tree for one record. Each node is looked at once at most.

use core::cmp::Ordering;

use super::compile::{Binary, Function, Node};
use super::{Datum, EvaluationError, Scope, Variable};

type Value<'v> = Result<Datum<'v>, EvaluationError>;

/// 2^63: beyond, `int` has no answer.
const INT_BOUND: f64 = 9_223_372_036_854_775_808.0;

/// The value of `node`. `variables` are those of its expression.
pub(super) fn evaluate<'v>(node: &'v Node, variables: &'v [Variable], scope: &'v dyn Scope) -> Value<'v> {
    let value = |node: &'v Node| evaluate(node, variables, scope);
    match node {
        Node::Number(number) => Ok(Datum::Number(*number)),
        Node::Text(text) => Ok(Datum::Text(text)),
        Node::Bool(truth) => Ok(Datum::Bool(*truth)),
        Node::Variable(place) => {
            let found = variables.get(*place).and_then(|variable| scope.get(*place, variable));
            match found.ok_or(EvaluationError::Missing { place: *place })? {
                Datum::Number(number) => finite(number),
                other @ (Datum::Text(_) | Datum::Bool(_)) => Ok(other),
            }
        }
        Node::Has(place) => {
            let found = variables.get(*place).and_then(|variable| scope.get(*place, variable));
            Ok(Datum::Bool(found.is_some()))
        }
        Node::Not(one) => Ok(Datum::Bool(!truth(value(one)?)?)),
        Node::Negate(one) => Ok(Datum::Number(-number(value(one)?)?)),
        Node::And(nodes) => logic(value(&nodes[0]), || value(&nodes[1]), false),
        Node::Or(nodes) => logic(value(&nodes[0]), || value(&nodes[1]), true),
        Node::Binary(operator, nodes) => binary(*operator, value(&nodes[0])?, value(&nodes[1])?),
        Node::If(nodes) => value(&nodes[if truth(value(&nodes[0])?)? { 1 } else { 2 }]),
        Node::In(one, others) => {
            let one = value(one)?;
            let mut found = false;
            for other in others {
                found |= value(other)? == one;
            }
            Ok(Datum::Bool(found))
        }
        Node::Call(function, nodes) => call(*function, nodes, value),
    }
}

/// `&&` and `||`: one side that is `decisive` decides, whatever is wrong with the other.
fn logic<'v>(left: Value<'v>, right: impl FnOnce() -> Value<'v>, decisive: bool) -> Value<'v> {
    let left = left.and_then(truth);
    if left == Ok(decisive) {
        return Ok(Datum::Bool(decisive));
    }
    let right = right().and_then(truth);
    match (left, right) {
        (_, Ok(right)) if right == decisive => Ok(Datum::Bool(decisive)),
        (left, right) => left.and(right).map(Datum::Bool),
    }
}

fn binary<'v>(operator: Binary, left: Datum<'v>, right: Datum<'v>) -> Value<'v> {
    match operator {
        Binary::Equal => Ok(Datum::Bool(left == right)),
        Binary::NotEqual => Ok(Datum::Bool(left != right)),
        Binary::Less => order(left, right).map(|order| Datum::Bool(order.is_lt())),
        Binary::LessEqual => order(left, right).map(|order| Datum::Bool(order.is_le())),
        Binary::Greater => order(left, right).map(|order| Datum::Bool(order.is_gt())),
        Binary::GreaterEqual => order(left, right).map(|order| Datum::Bool(order.is_ge())),
        Binary::Add => finite(number(left)? + number(right)?),
        Binary::Subtract => finite(number(left)? - number(right)?),
        Binary::Multiply => finite(number(left)? * number(right)?),
        Binary::Divide => finite(number(left)? / divisor(right)?),
        Binary::Remainder => finite(number(left)? % divisor(right)?),
    }
}

fn order(left: Datum<'_>, right: Datum<'_>) -> Result<Ordering, EvaluationError> {
    match (left, right) {
        (Datum::Number(left), Datum::Number(right)) => left.partial_cmp(&right).ok_or(EvaluationError::NotFinite),
        (Datum::Text(left), Datum::Text(right)) => Ok(left.cmp(right)),
        (Datum::Bool(left), Datum::Bool(right)) => Ok(left.cmp(&right)),
        (Datum::Number(_) | Datum::Text(_) | Datum::Bool(_), _) => Err(EvaluationError::WrongType),
    }
}

fn call<'v>(function: Function, nodes: &'v [Node], value: impl Fn(&'v Node) -> Value<'v>) -> Value<'v> {
    let first = value(nodes.first().ok_or(EvaluationError::WrongType)?)?;
    let second = || value(nodes.get(1).ok_or(EvaluationError::WrongType)?).and_then(text);
    match function {
        Function::Contains => Ok(Datum::Bool(text(first)?.contains(second()?))),
        Function::StartsWith => Ok(Datum::Bool(text(first)?.starts_with(second()?))),
        Function::EndsWith => Ok(Datum::Bool(text(first)?.ends_with(second()?))),
        Function::Size => Ok(Datum::Number(text(first)?.chars().count() as f64)),
        Function::Double => converted(first).map(Datum::Number),
        Function::Int => {
            let whole = converted(first)?.trunc();
            if whole.abs() < INT_BOUND { Ok(Datum::Number(whole)) } else { Err(EvaluationError::NotFinite) }
        }
        Function::Abs => Ok(Datum::Number(number(first)?.abs())),
        Function::Ceil => Ok(Datum::Number(number(first)?.ceil())),
        Function::Floor => Ok(Datum::Number(number(first)?.floor())),
        Function::Round => Ok(Datum::Number(number(first)?.round())),
        Function::Trunc => Ok(Datum::Number(number(first)?.trunc())),
        Function::Sqrt => finite(number(first)?.sqrt()),
        Function::Least | Function::Greatest => {
            let mut best = number(first)?;
            for other in nodes.iter().skip(1) {
                let other = number(value(other)?)?;
                best = if function == Function::Least { best.min(other) } else { best.max(other) };
            }
            Ok(Datum::Number(best))
        }
    }
}

fn converted(value: Datum<'_>) -> Result<f64, EvaluationError> {
    match value {
        Datum::Number(number) => Ok(number),
        Datum::Text(text) => {
            let number: f64 = text.trim_ascii().parse().map_err(|_| EvaluationError::NotNumber)?;
            if number.is_finite() { Ok(number) } else { Err(EvaluationError::NotFinite) }
        }
        Datum::Bool(_) => Err(EvaluationError::WrongType),
    }
}

fn finite<'v>(number: f64) -> Value<'v> {
    if number.is_finite() { Ok(Datum::Number(number)) } else { Err(EvaluationError::NotFinite) }
}

fn divisor(value: Datum<'_>) -> Result<f64, EvaluationError> {
    match number(value)? {
        0.0 => Err(EvaluationError::DivisionByZero),
        divisor => Ok(divisor),
    }
}

fn number(value: Datum<'_>) -> Result<f64, EvaluationError> {
    match value {
        Datum::Number(number) => Ok(number),
        Datum::Text(_) | Datum::Bool(_) => Err(EvaluationError::WrongType),
    }
}

fn truth(value: Datum<'_>) -> Result<bool, EvaluationError> {
    match value {
        Datum::Bool(truth) => Ok(truth),
        Datum::Number(_) | Datum::Text(_) => Err(EvaluationError::WrongType),
    }
}

fn text(value: Datum<'_>) -> Result<&str, EvaluationError> {
    match value {
        Datum::Text(text) => Ok(text),
        Datum::Number(_) | Datum::Bool(_) => Err(EvaluationError::WrongType),
    }
}
