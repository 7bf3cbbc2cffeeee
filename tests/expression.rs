//! Filters and computed fields: what expressions say, what is refused, and that nothing
//! that anybody may write does harm. The `cel` crate's own evaluator is the oracle where
//! both have an answer.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;

use tidegate::engine::expression::EvaluationError::{self, *};
use tidegate::engine::expression::{DEPTH_MAX, Datum, Expression, Scope, TEXT_BYTES_MAX, Variable};

#[derive(Default)]
struct Named(BTreeMap<Variable, Owned>);

enum Owned {
    Number(f64),
    Text(String),
    Bool(bool),
}

impl Scope for Named {
    fn get(&self, _: usize, variable: &Variable) -> Option<Datum<'_>> {
        self.0.get(variable).map(|value| match value {
            Owned::Number(number) => Datum::Number(*number),
            Owned::Text(text) => Datum::Text(text),
            Owned::Bool(truth) => Datum::Bool(*truth),
        })
    }
}

fn record() -> Named {
    let field = |name: &str, value| (Variable::Field(name.into()), value);
    Named(BTreeMap::from([
        field("temperature", Owned::Number(31.5)),
        field("humidity", Owned::Number(50.0)),
        field("zero", Owned::Number(0.0)),
        field("huge", Owned::Number(1e308)),
        field("io.rssi", Owned::Number(-70.0)),
        field("switch:0.apower", Owned::Number(12.5)),
        field("mode", Owned::Text("heat".into())),
        field("digits", Owned::Text(" 17.5 ".into())),
        field("open", Owned::Bool(true)),
        (Variable::Label("site".into()), Owned::Text("north".into())),
        (Variable::Device, Owned::Text("sensor-7".into())),
        (Variable::EventMs, Owned::Number(1_713_970_368_650.0)),
    ]))
}

fn compiled(text: &str) -> Expression {
    Expression::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn filter(text: &str) -> Result<bool, EvaluationError> {
    compiled(text).filter(&record())
}

fn number(text: &str) -> Result<f64, EvaluationError> {
    compiled(text).number(&record())
}

#[test]
fn a_filter_says_what_it_reads_like() {
    for (text, expected) in [
        ("temperature > 30 && humidity < 80", Ok(true)),
        ("temperature > 30 && humidity < 50", Ok(false)),
        ("temperature == 31.5 && humidity == 50", Ok(true)),
        ("temperature >= 31.5 && temperature <= 31.5 && !(temperature != 31.5)", Ok(true)),
        ("temperature > 30u", Ok(true)),
        ("temperature + 1 > 32", Ok(true)),
        ("mode == 'heat'", Ok(true)),
        ("mode == 7", Ok(false)),
        ("mode in ['cool', \"heat\"]", Ok(true)),
        ("mode in []", Ok(false)),
        ("humidity in [49, 50]", Ok(true)),
        ("open", Ok(true)),
        ("!open || mode.startsWith('he')", Ok(true)),
        ("mode.contains('ea') && mode.endsWith('at') && size(mode) == 4 && mode.size() == 4", Ok(true)),
        ("'grüße'.size() == 5", Ok(true)),
        ("mode < 'heaven'", Ok(true)),
        ("label.site == 'north' && label['site'] == 'north'", Ok(true)),
        ("device == 'sensor-7' && event_ms > 1713970368000", Ok(true)),
        ("io.rssi > -80 && field.io.rssi > -80 && field['io.rssi'] > -80", Ok(true)),
        ("field['switch:0.apower'] > 12", Ok(true)),
        ("has(field.temperature) && has(io.rssi) && has(label.site)", Ok(true)),
        ("has(field.absent) || has(label.absent)", Ok(false)),
        ("'switch:0.apower' in field && !('x' in label)", Ok(true)),
        ("has(field.absent) && absent > 3", Ok(false)),
        ("has(field.absent) ? absent > 3 : temperature > 3", Ok(true)),
        // One side decides, whatever is wrong with the other.
        ("absent > 3 || true", Ok(true)),
        ("absent > 3 && false", Ok(false)),
        ("absent > 3 && true", Err(Missing { place: 0 })),
        ("temperature > 3 && absent > 3", Err(Missing { place: 1 })),
        ("temperature", Err(WrongType)),
        ("mode > 3", Err(WrongType)),
        ("open < true", Ok(false)),
        ("open < 2", Err(WrongType)),
        ("mode && true", Err(WrongType)),
        ("1 / zero > 0", Err(DivisionByZero)),
    ] {
        assert_eq!(filter(text), expected, "{text}");
    }
}

#[test]
fn a_computed_field_is_a_finite_number_or_an_error() {
    for (text, expected) in [
        ("1 / 2", Ok(0.5)),
        ("temperature * 9 / 5 + 32", Ok(88.7)),
        ("-temperature", Ok(-31.5)),
        ("--temperature", Ok(31.5)),
        ("7 % 4", Ok(3.0)),
        ("-7 % 4", Ok(-3.0)),
        ("open ? 1 : 0", Ok(1.0)),
        ("math.abs(io.rssi)", Ok(70.0)),
        ("math.least(temperature, humidity, 40) + math.greatest(1, 2)", Ok(33.5)),
        ("math.ceil(1.2) + math.floor(1.8) + math.round(2.5) + math.trunc(-1.7)", Ok(5.0)),
        ("math.sqrt(humidity * 2 + 44)", Ok(12.0)),
        ("double(digits) + int(digits) + int(-1.9)", Ok(33.5)),
        ("event_ms % 1000", Ok(650.0)),
        ("9007199254740992 + 0", Ok(9_007_199_254_740_992.0)),
        ("1 / 0", Err(DivisionByZero)),
        ("1 % zero", Err(DivisionByZero)),
        ("huge * 10", Err(NotFinite)),
        ("math.sqrt(-1)", Err(NotFinite)),
        ("int(huge)", Err(NotFinite)),
        ("double(mode)", Err(NotNumber)),
        ("double(open)", Err(WrongType)),
        ("mode + mode", Err(WrongType)),
        ("mode", Err(WrongType)),
        ("math.least(1, mode)", Err(WrongType)),
    ] {
        assert_eq!(number(text), expected, "{text}");
    }
    let broken = Named(BTreeMap::from([(Variable::Field("x".into()), Owned::Number(f64::NAN))]));
    assert_eq!(compiled("x").number(&broken), Err(NotFinite));
}

#[test]
fn the_variables_of_an_expression_are_known() {
    let expression = compiled("has(field.b) && a.c > 1 && label.x == device && field['b'] > event_ms && 'd' in field");
    let field = |name: &str| Variable::Field(name.into());
    let expected =
        [field("b"), field("a.c"), Variable::Label("x".into()), Variable::Device, Variable::EventMs, field("d")];
    assert_eq!(expression.variables(), expected);
    // A field with the name of something else.
    assert_eq!(compiled("field.device == field['label']").variables(), [field("device"), field("label")]);
}

#[test]
fn what_is_no_expression_is_refused_with_a_reason_and_its_place() {
    let levels = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
    let sum = |terms: usize| vec!["x"; terms].join(" + ");
    assert!(Expression::compile(&sum(DEPTH_MAX)).is_ok());
    assert!(Expression::compile(&levels(DEPTH_MAX)).is_ok());
    for (text, part) in [
        (String::new(), "at character"),
        ("temperature > ".to_owned(), "at character"),
        ("temperature = 3".to_owned(), "at character"),
        ("a\n && b >\n && c".to_owned(), "at line 3"),
        ("'open".to_owned(), "at character"),
        ("x > 1 && [1, 2].all(x, x > 0)".to_owned(), "there are no loops"),
        ("[1, 2].map(x, x * 2)".to_owned(), "there are no loops"),
        ("[1].exists_one(x, x > 0) || [1].exists(x, x > 0)".to_owned(), "there are no loops"),
        ("a.filter(x, x > 0)".to_owned(), "there are no loops"),
        ("mode.matches('a+')".to_owned(), "at character 6: `matches` is no function here"),
        ("has(temperature)".to_owned(), "has(field.temperature)"),
        ("[1, 2]".to_owned(), "at character 1: a list stands behind `in` only"),
        ("{'a': 1}".to_owned(), "no maps"),
        ("null".to_owned(), "there is no null"),
        ("b'x'".to_owned(), "no bytes"),
        ("9007199254740993".to_owned(), "at character 1: an integer beyond 2^53"),
        ("9223372036854775808".to_owned(), ""),
        ("1e999".to_owned(), ""),
        ("field".to_owned(), "`field` alone is no value"),
        ("field[0] > 1".to_owned(), "only a text in quotes"),
        ("field[mode] > 1".to_owned(), "only a text in quotes"),
        ("'a'.b".to_owned(), "only names have parts"),
        ("x in field".to_owned(), "is followed by a list"),
        ("contains(mode, 'a')".to_owned(), "is written x.contains"),
        ("math.abs(1, 2)".to_owned(), "does not take 2 values"),
        ("math.least()".to_owned(), "does not take 0 values"),
        ("size(mode, mode)".to_owned(), "does not take 2 values"),
        ("foo(1)".to_owned(), "`foo` is no function here; there are contains"),
        ("duration('1s') > 3".to_owned(), "no function"),
        ("a.?b".to_owned(), ""),
        ("Message{a: 1}".to_owned(), ""),
        (sum(DEPTH_MAX + 1), "more than 32 levels"),
        (levels(DEPTH_MAX + 1), "more than 32 brackets"),
        ("-".repeat(1_000), ""),
        (format!("{}x", "!(-".repeat(30)), ""),
        (format!("{}x", "a ? b : ".repeat(100)), ""),
        ("a.".repeat(500), ""),
        ("[".repeat(1_000), "brackets"),
        ("x".repeat(TEXT_BYTES_MAX + 1), "at most 1024"),
    ] {
        let error = Expression::compile(&text).expect_err(&text);
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}

/// A small generator: the same seed gives the same text.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    fn of<'t>(&mut self, items: &[&'t str]) -> &'t str {
        items[self.below(items.len())]
    }

    fn expression(&mut self, depth: usize) -> String {
        let atoms =
            ["temperature", "humidity", "zero", "mode", "open", "absent", "2.5", "0.0", "-3.0", "'heat'", "true"];
        if depth == 0 {
            return self.of(&atoms).to_owned();
        }
        let mut part = || self.expression(depth - 1);
        let (a, b, c) = (part(), part(), part());
        match self.below(9) {
            0 => format!("({a} {} {b})", self.of(&["&&", "||"])),
            1 => format!("({a} {} {b})", self.of(&["==", "!="])),
            2 => format!("({a} {} {b})", self.of(&["<", "<=", ">", ">="])),
            3 | 4 => format!("({a} {} {b})", self.of(&["+", "-", "*"])),
            5 => format!("({a} ? {b} : {c})"),
            6 => format!("{}({a})", self.of(&["!", "-"])),
            7 => format!("({a} in [{b}, {c}])"),
            _ => a,
        }
    }
}

#[test]
fn a_hundred_thousand_random_texts_are_answered_without_a_panic() {
    let pieces = [
        "temperature",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615u",
        "1e308",
        "0",
        "%",
        "/",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
        "?",
        ":",
        "&&",
        "||",
        "!",
        "-",
        "'",
        "\"",
        "\\u12",
        "r'",
        "b'",
        "'''",
        "in",
        "has(",
        "field",
        "label",
        "math.",
        "size(",
        "int(",
        "//",
        "\n",
        "é",
        "`",
        "\0",
        "==",
        "=",
        " ",
        "0x",
        "1.",
    ];
    let mut answers = 0;
    for seed in 0..100_000 {
        let mut random = Random(seed);
        let depth = random.below(4);
        let mut text = random.expression(depth);
        if seed % 2 == 0 {
            for _ in 0..=random.below(4) {
                let at = (0..=random.below(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap();
                match random.below(3) {
                    0 => text.truncate(at),
                    1 => text.insert_str(at, random.of(&pieces)),
                    _ => text = format!("{text} {} {}", random.of(&pieces), random.of(&pieces)),
                }
            }
        }
        // What the crate panics on is caught, but it must not come to that.
        let Ok(expression) = Expression::compile(&text) else { continue };
        let (truth, number) = (expression.filter(&record()), expression.number(&record()));
        assert!(truth.is_err() || number.is_err(), "{text}");
        assert!(number.is_err() || number.is_ok_and(f64::is_finite), "{text}");
        answers += usize::from(truth.is_ok() || number.is_ok());
    }
    assert!(answers > 10_000, "{answers}");
}

#[test]
fn the_evaluator_of_the_cel_crate_says_the_same() {
    let mut context = cel::Context::default();
    for (name, number) in [("temperature", 31.5), ("humidity", 50.0), ("zero", 0.0)] {
        context.add_variable_from_value(name, number);
    }
    context.add_variable_from_value("mode", "heat");
    context.add_variable_from_value("open", true);
    let mut compared = 0;
    for seed in 1_000_000..1_003_000 {
        let mut random = Random(seed);
        let depth = 1 + random.below(3);
        let text = random.expression(depth);
        let theirs = cel::Program::compile(&text).unwrap().execute(&context);
        let ours = compiled(&text);
        match theirs {
            // Texts grow there.
            _ if text.contains('+') && (text.contains("'heat'") || text.contains("mode")) => {}
            Ok(cel::Value::Bool(truth)) => {
                assert_eq!(ours.filter(&record()), Ok(truth), "{text}");
                compared += 1;
            }
            Ok(cel::Value::Float(number)) => {
                assert_eq!(ours.number(&record()), Ok(number), "{text}");
                compared += 1;
            }
            Ok(_) => {}
            Err(_) => {
                assert!(ours.filter(&record()).is_err() && ours.number(&record()).is_err(), "{text}");
                compared += 1;
            }
        }
    }
    assert!(compared > 2_000, "{compared}");
}
