//! A text becomes a tree in which everything is allowed and every name is a number.

use cel::common::ast::{CallExpr, Expr, IdedExpr, ListExpr, LiteralValue, SelectExpr, operators};
use cel::parser::PrattParser;

use super::{DEPTH_MAX, ExpressionError, TEXT_BYTES_MAX, Variable};

/// Integers up to here are doubles without a loss.
const EXACT_MAX: u64 = 1 << 53;

/// One part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Number(f64),
    Text(String),
    Bool(bool),
    /// By its place in the list of variables.
    Variable(usize),
    Has(usize),
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Binary(Binary, Box<[Node; 2]>),
    If(Box<[Node; 3]>),
    In(Box<Node>, Vec<Node>),
    Call(Function, Vec<Node>),
}

/// Operators that need both of their operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Contains,
    StartsWith,
    EndsWith,
    Size,
    Double,
    Int,
    Abs,
    Ceil,
    Floor,
    Round,
    Trunc,
    Sqrt,
    Least,
    Greatest,
}

const BINARY: &[(&str, Binary)] = &[
    (operators::EQUALS, Binary::Equal),
    (operators::NOT_EQUALS, Binary::NotEqual),
    (operators::LESS, Binary::Less),
    (operators::LESS_EQUALS, Binary::LessEqual),
    (operators::GREATER, Binary::Greater),
    (operators::GREATER_EQUALS, Binary::GreaterEqual),
    (operators::ADD, Binary::Add),
    (operators::SUBSTRACT, Binary::Subtract),
    (operators::MULTIPLY, Binary::Multiply),
    (operators::DIVIDE, Binary::Divide),
    (operators::MODULO, Binary::Remainder),
];

/// Name, function, operands from and to; a text before the point is the first of them.
const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("contains", Function::Contains, 2, 2),
    ("startsWith", Function::StartsWith, 2, 2),
    ("endsWith", Function::EndsWith, 2, 2),
    ("size", Function::Size, 1, 1),
    ("double", Function::Double, 1, 1),
    ("int", Function::Int, 1, 1),
    ("math.abs", Function::Abs, 1, 1),
    ("math.ceil", Function::Ceil, 1, 1),
    ("math.floor", Function::Floor, 1, 1),
    ("math.round", Function::Round, 1, 1),
    ("math.trunc", Function::Trunc, 1, 1),
    ("math.sqrt", Function::Sqrt, 1, 1),
    ("math.least", Function::Least, 1, 8),
    ("math.greatest", Function::Greatest, 1, 8),
];

/// `text` as a tree, and what it refers to.
pub(super) fn compile(text: &str) -> Result<(Node, Vec<Variable>), ExpressionError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(nowhere(format!("is {} bytes long, at most {TEXT_BYTES_MAX}", text.len())));
    }
    check_brackets(text)?;
    let tree = parse(text)?;
    let mut compiler = Compiler { text, variables: Vec::new() };
    let root = compiler.node(&tree, 1)?;
    Ok((root, compiler.variables))
}

/// The parser recurses: what is deep is refused before. Brackets in texts count too, which
/// is harmless.
fn check_brackets(text: &str) -> Result<(), ExpressionError> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(at_byte(text, at, format!("more than {DEPTH_MAX} brackets in each other")));
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<IdedExpr, ExpressionError> {
    // A configuration may come from afar, and a panic in it would end the agent: the parser
    // is not ours, so it is not trusted that far.
    let parsed = std::panic::catch_unwind(|| PrattParser::new().parse(text));
    let errors = match parsed {
        Ok(Ok(tree)) => return Ok(tree),
        Ok(Err(errors)) => errors.errors,
        Err(_) => return Err(nowhere("cannot be read".to_owned())),
    };
    // Not the one that says that the parser gave up, if there is another.
    let placed = errors.iter().position(|error| error.pos.0 > 0).unwrap_or(0);
    let Some(first) = errors.into_iter().nth(placed) else { return Err(nowhere("cannot be read".to_owned())) };
    let mut message = first.msg;
    if message.contains("has()") {
        message.push_str("; a field without a point is has(field.temperature), or \"temperature\" in field");
    }
    let (line, column) = (usize::try_from(first.pos.0), usize::try_from(first.pos.1));
    Err(ExpressionError { message, line: line.unwrap_or(0), column: column.unwrap_or(0) })
}

struct Compiler<'t> {
    text: &'t str,
    variables: Vec<Variable>,
}

impl Compiler<'_> {
    fn node(&mut self, tree: &IdedExpr, depth: usize) -> Result<Node, ExpressionError> {
        if depth > DEPTH_MAX {
            return Err(nowhere(format!("is more than {DEPTH_MAX} levels deep")));
        }
        match &tree.expr {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Select(select) if select.test => self.has(select),
            Expr::Ident(_) | Expr::Select(_) => self.variable(&tree.expr).map(Node::Variable),
            Expr::Call(call) => self.call(call, &tree.expr, depth),
            Expr::List(_) => Err(self.error("[", "a list stands behind `in` only")),
            Expr::Map(_) | Expr::Struct(_) => Err(self.error("{", "there are no maps and messages here")),
            Expr::Comprehension(_) => {
                let macros = ["exists_one", "exists", "all", "map", "filter"];
                let word = macros.iter().find(|word| self.text.contains(&format!(".{word}"))).unwrap_or(&"");
                Err(self.error(word, "there are no loops (all, exists, exists_one, map, filter)"))
            }
            Expr::Unspecified => Err(nowhere("cannot be read".to_owned())),
        }
    }

    fn literal(&self, literal: &LiteralValue) -> Result<Node, ExpressionError> {
        let exact = |magnitude: u64, number: f64| {
            let loss = || self.error(&magnitude.to_string(), "an integer beyond 2^53 is no exact double");
            if magnitude > EXACT_MAX { Err(loss()) } else { Ok(Node::Number(number)) }
        };
        match literal {
            LiteralValue::Boolean(truth) => Ok(Node::Bool(*truth.inner())),
            LiteralValue::Int(number) => exact(number.inner().unsigned_abs(), *number.inner() as f64),
            LiteralValue::UInt(number) => exact(*number.inner(), *number.inner() as f64),
            LiteralValue::Double(number) if number.inner().is_finite() => Ok(Node::Number(*number.inner())),
            LiteralValue::Double(_) => Err(nowhere("has a number that no double can hold".to_owned())),
            LiteralValue::String(text) => Ok(Node::Text(text.inner().to_owned())),
            LiteralValue::Null => Err(self.error("null", "there is no null: has(field.x) asks whether x is there")),
            LiteralValue::Bytes(_) => Err(self.error("b", "there are no bytes here")),
        }
    }

    fn call(&mut self, call: &CallExpr, expr: &Expr, depth: usize) -> Result<Node, ExpressionError> {
        let name = call.func_name.as_str();
        let deeper = depth + 1;
        match (name, call.args.as_slice(), &call.target) {
            (operators::INDEX, [_, _], None) => self.variable(expr).map(Node::Variable),
            (operators::LOGICAL_NOT, [one], None) => Ok(Node::Not(Box::new(self.node(one, deeper)?))),
            (operators::NEGATE, [one], None) => Ok(Node::Negate(Box::new(self.node(one, deeper)?))),
            (operators::CONDITIONAL, [condition, yes, no], None) => {
                let nodes = [self.node(condition, deeper)?, self.node(yes, deeper)?, self.node(no, deeper)?];
                Ok(Node::If(Box::new(nodes)))
            }
            (operators::LOGICAL_AND, [left, right], None) => {
                Ok(Node::And(Box::new([self.node(left, deeper)?, self.node(right, deeper)?])))
            }
            (operators::LOGICAL_OR, [left, right], None) => {
                Ok(Node::Or(Box::new([self.node(left, deeper)?, self.node(right, deeper)?])))
            }
            (operators::IN, [one, container], None) => self.is_in(one, container, deeper),
            (operator, args, target) => {
                let binary = BINARY.iter().find(|(known, _)| *known == operator);
                if let (Some((_, binary)), [left, right], None) = (binary, args, target) {
                    return Ok(Node::Binary(*binary, Box::new([self.node(left, deeper)?, self.node(right, deeper)?])));
                }
                self.function(name, args, target.as_deref(), deeper)
            }
        }
    }

    fn function(
        &mut self,
        name: &str,
        args: &[IdedExpr],
        target: Option<&IdedExpr>,
        depth: usize,
    ) -> Result<Node, ExpressionError> {
        let is_math = target.is_some_and(|target| target.expr == Expr::Ident("math".to_owned()));
        let full = if is_math { format!("math.{name}") } else { name.to_owned() };
        let subject = target.filter(|_| !is_math);
        let Some((_, function, from, to)) = FUNCTIONS.iter().find(|(known, ..)| *known == full) else {
            let known: Vec<&str> = FUNCTIONS.iter().map(|(known, ..)| *known).collect();
            return Err(self.error(name, &format!("`{full}` is no function here; there are {}", known.join(", "))));
        };
        let count = args.len() + usize::from(subject.is_some());
        let is_method = matches!(function, Function::Contains | Function::StartsWith | Function::EndsWith);
        if is_method != subject.is_some() && *function != Function::Size {
            let form = if is_method { format!("x.{full}(\"text\")") } else { format!("{full}(x)") };
            return Err(self.error(name, &format!("is written {form}")));
        }
        if !(*from..=*to).contains(&count) {
            return Err(self.error(name, &format!("`{full}` does not take {count} values")));
        }
        let nodes = subject.into_iter().chain(args).map(|arg| self.node(arg, depth)).collect::<Result<_, _>>()?;
        Ok(Node::Call(*function, nodes))
    }

    /// `x in [a, b]`, or `"name" in field`.
    fn is_in(&mut self, one: &IdedExpr, container: &IdedExpr, depth: usize) -> Result<Node, ExpressionError> {
        match (&one.expr, &container.expr) {
            (_, Expr::List(ListExpr { elements, .. })) => {
                let one = self.node(one, depth)?;
                let others = elements.iter().map(|other| self.node(other, depth)).collect::<Result<_, _>>()?;
                Ok(Node::In(Box::new(one), others))
            }
            (Expr::Literal(LiteralValue::String(name)), Expr::Ident(map)) if map == "field" || map == "label" => {
                let name = name.inner().to_owned();
                let variable = if map == "field" { Variable::Field(name) } else { Variable::Label(name) };
                Ok(Node::Has(self.place_of(variable)))
            }
            _ => Err(self.error(" in ", "is followed by a list, or is \"name\" in field (or label)")),
        }
    }

    fn has(&mut self, select: &SelectExpr) -> Result<Node, ExpressionError> {
        let mut path = self.path(&select.operand.expr)?;
        path.push(select.field.clone());
        self.named(path).map(Node::Has)
    }

    /// A name: `t`, `io.rssi`, `field["t"]`.
    fn variable(&mut self, expr: &Expr) -> Result<usize, ExpressionError> {
        let path = self.path(expr)?;
        self.named(path)
    }

    fn named(&mut self, mut path: Vec<String>) -> Result<usize, ExpressionError> {
        let first = path.first().map_or("", String::as_str);
        let variable = match (first, path.len()) {
            ("device", 1) => Variable::Device,
            ("event_ms", 1) => Variable::EventMs,
            (word @ ("field" | "label" | "math"), 1) => {
                return Err(self.error(word, &format!("`{word}` alone is no value: {word}.name")));
            }
            ("field", _) => Variable::Field(path.split_off(1).join(".")),
            ("label", _) => Variable::Label(path.split_off(1).join(".")),
            _ => Variable::Field(path.join(".")),
        };
        Ok(self.place_of(variable))
    }

    /// The levels of a name.
    fn path(&self, expr: &Expr) -> Result<Vec<String>, ExpressionError> {
        let mut path = Vec::new();
        let mut at = expr;
        loop {
            match at {
                Expr::Ident(name) => {
                    path.push(name.trim_start_matches('.').to_owned());
                    path.reverse();
                    return Ok(path);
                }
                Expr::Select(select) if !select.test => {
                    path.push(select.field.clone());
                    at = &select.operand.expr;
                }
                Expr::Call(CallExpr { func_name, args, target: None }) if func_name == operators::INDEX => {
                    let [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }] = args.as_slice()
                    else {
                        return Err(self.error("[", "only a text in quotes goes into brackets: field[\"name\"]"));
                    };
                    path.push(name.inner().to_owned());
                    at = &operand.expr;
                }
                Expr::Select(_)
                | Expr::Call(_)
                | Expr::Unspecified
                | Expr::Comprehension(_)
                | Expr::List(_)
                | Expr::Literal(_)
                | Expr::Map(_)
                | Expr::Struct(_) => return Err(self.error(".", "only names have parts")),
            }
        }
    }

    fn place_of(&mut self, variable: Variable) -> usize {
        self.variables.iter().position(|known| *known == variable).unwrap_or_else(|| {
            self.variables.push(variable);
            self.variables.len() - 1
        })
    }

    /// At the first place where `word` stands: the tree does not say more.
    fn error(&self, word: &str, message: &str) -> ExpressionError {
        match self.text.find(word).filter(|_| !word.is_empty()) {
            Some(at) => at_byte(self.text, at, message.to_owned()),
            None => nowhere(message.to_owned()),
        }
    }
}

fn nowhere(message: String) -> ExpressionError {
    ExpressionError { message, line: 0, column: 0 }
}

fn at_byte(text: &str, at: usize, message: String) -> ExpressionError {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    ExpressionError { message, line, column }
}
