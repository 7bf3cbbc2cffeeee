//! Key by key: what the schema says of it is what the checker does.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate::config::check::check;
use tidegate::config::check::keys::{Need, Shape};
use tidegate::config::problem::Problem;

use super::context::{Place, all};
use super::{file_schema, is_taken, refusals, validator};

/// What the checker says about the key itself when `value` stands there.
fn problems(place: &Place, value: Value) -> Vec<Problem> {
    let problems = check(&place.with(value).to_string(), "t.json").err().map_or(Vec::new(), |refused| refused.problems);
    let path = place.path();
    let is_here = |problem: &Problem| {
        let rest = problem.path.strip_prefix(&path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    problems.into_iter().filter(is_here).collect()
}

/// Complaints about the value by itself, not beside others.
fn about_the_value(problems: &[Problem]) -> Vec<&str> {
    let words = [
        "must be from ",
        "must be an integer ",
        "must be a number",
        "must be a duration such",
        "must be a size",
        "is too large",
    ];
    let messages = problems.iter().map(|problem| problem.message.as_str());
    messages.filter(|message| words.iter().any(|word| message.starts_with(word))).collect()
}

#[test]
fn every_key_is_described_with_unit_default_and_example() {
    let schema = file_schema();
    for place in all() {
        let (path, found) = (place.path(), place.schema(&schema));
        let about = found["description"].as_str().unwrap();
        let is_sentence = about.ends_with('.') && !about.ends_with("..") && !about.contains(",.");
        assert!(about.len() > 12 && is_sentence, "{path}: {about}");
        let default = found.get("default").is_some() || about.contains("Default: ") || about.contains(" Required");
        assert!(default, "{path} says what holds without it: {about}");
        assert_eq!(found["examples"].as_array().map(Vec::len), Some(1), "{path}");
        assert!(ranges(about) <= 1, "{path}: its words and its shape name two ranges: {about}");
        if quantity(&place.key.shape).is_some() {
            let has_unit = ["Duration: ", "Size: ", "Unit: "].iter().any(|unit| about.contains(unit));
            let is_bare =
                matches!(quantity(&place.key.shape), Some(Shape::Integer { unit: "", .. } | Shape::Number { .. }));
            assert!(has_unit || is_bare, "{path} has a unit: {about}");
        }
    }
}

/// How many times "NUMBER to NUMBER" is in `about`.
fn ranges(about: &str) -> usize {
    let words: Vec<&str> = about.split(' ').collect();
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    words.windows(3).filter(|words| is_number(words[0]) && words[1] == "to" && is_number(words[2])).count()
}

#[test]
fn every_default_is_what_may_stand_there() {
    let schema = file_schema();
    for place in all() {
        let Need::Default(text) = place.key.need else { continue };
        let path = place.path();
        let found = place.schema(&schema);
        let default = found["default"].clone();
        assert_eq!(refusals(&validator(&found), &default), "", "{path} = {default}");
        let words = default
            .as_array()
            .map_or_else(|| shown(&default), |items| items.iter().map(shown).collect::<Vec<_>>().join(", "));
        assert_eq!(words, text, "{path}");
        let document = place.with(default);
        check(&document.to_string(), "t.json").unwrap_or_else(|refused| panic!("{path}: {refused}"));
        assert_eq!(refusals(&validator(&schema), &document), "", "{path}");
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn every_example_is_what_may_stand_there() {
    let schema = file_schema();
    let whole = validator(&schema);
    for place in all() {
        let (path, example) = (place.path(), place.example());
        assert_eq!(place.schema(&schema)["examples"], json!([example]), "{path}");
        assert_eq!(refusals(&validator(&place.schema(&schema)), &example), "", "{path} = {example}");
        let document = place.with(example);
        check(&document.to_string(), "t.json").unwrap_or_else(|refused| panic!("{path}: {refused}"));
        assert_eq!(refusals(&whole, &document), "", "{path}");
    }
}

/// The part of a shape that has bounds.
fn quantity(shape: &Shape) -> Option<Shape> {
    match *shape {
        Shape::Duration { .. } | Shape::Size { .. } | Shape::Integer { .. } | Shape::Number { .. } => Some(*shape),
        Shape::AnyOf(shapes) => shapes.iter().find_map(quantity),
        _ => None,
    }
}

/// Values at the bounds, and just beyond.
fn bounds(shape: &Shape) -> (Vec<Value>, Vec<Value>) {
    let texts = |min: u64, max: u64, units: &[(&str, u64)]| {
        let (mut within, mut beyond) = (Vec::new(), Vec::new());
        for (unit, worth) in units {
            let (low, high) = (min.div_ceil(*worth), max / worth);
            for number in [low.saturating_sub(1), low, high, high + 1] {
                let is_within = (min..=max).contains(&(number * worth));
                if is_within { &mut within } else { &mut beyond }.push(json!(format!("{number}{unit}")));
            }
            within.extend((low <= high).then(|| json!(format!("000{high}{unit}"))));
        }
        (within, beyond)
    };
    match *shape {
        Shape::Duration { min_ms, max_ms } => {
            texts(min_ms, max_ms, &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)])
        }
        Shape::Size { min, max } => texts(min, max, &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)]),
        Shape::Integer { min, max, .. } => {
            (vec![json!(min), json!(max)], vec![json!(i64::try_from(min).unwrap() - 1), json!(max + 1)])
        }
        Shape::Number { min, max, above } if min.is_finite() => {
            let least = if above { min + 0.0001 } else { min };
            let below = if above { min } else { min - 0.0001 };
            (vec![json!(least), json!(max)], vec![json!(below), json!(max + 0.0001)])
        }
        _ => (Vec::new(), Vec::new()),
    }
}

#[test]
fn every_bound_is_taken_and_what_is_beyond_it_is_not() {
    let schema = file_schema();
    let mut tried = 0;
    for place in all() {
        let (items, shape) = match place.key.shape {
            Shape::List { item, .. } => (true, quantity(item)),
            shape => (false, quantity(&shape)),
        };
        let Some(shape) = shape else { continue };
        let (path, of_key) = (place.path(), validator(&place.schema(&schema)));
        let value = |value: Value| if items { json!([value]) } else { value };
        let (within, beyond) = bounds(&shape);
        for value in within.into_iter().map(value) {
            let problems = problems(&place, value.clone());
            assert_eq!(about_the_value(&problems), Vec::<&str>::new(), "{path} = {value}");
            assert!(of_key.is_valid(&value), "{path} = {value}");
            tried += 1;
        }
        for value in beyond.into_iter().map(value) {
            assert!(!problems(&place, value.clone()).is_empty(), "{path} = {value}");
            assert!(!of_key.is_valid(&value), "{path} = {value}");
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn as_many_items_are_taken_as_the_schema_says() {
    let schema = file_schema();
    for place in all() {
        // What a shape is beside a word: a list, or a table of names.
        let shapes = match place.key.shape {
            Shape::AnyOf(shapes) => shapes.to_vec(),
            shape => vec![shape],
        };
        for shape in shapes {
            let (Shape::List { min, max, .. } | Shape::OneOrMore { min, max, .. } | Shape::Map { min, max, .. }) =
                shape
            else {
                continue;
            };
            let (path, of_key) = (place.path(), validator(&place.schema(&schema)));
            let mut counts = vec![(min, true)];
            counts.extend(min.checked_sub(1).map(|count| (count, false)));
            counts.extend((max < usize::MAX).then_some([(max, true), (max + 1, false)]).into_iter().flatten());
            for (count, expected) in counts {
                let value = many(&place.example(), &shape, count);
                let refused = check(&place.with(value.clone()).to_string(), "t.json").err();
                let problems = refused.map_or(Vec::new(), |refused| refused.problems);
                // Some are told where the whole table stands.
                let counted =
                    |problem: &&Problem| path.starts_with(&problem.path) && is_about_the_count(&problem.message);
                assert_eq!(problems.iter().find(counted).is_none(), expected, "{path}, {count}: {problems:?}");
                assert_eq!(of_key.is_valid(&value), expected, "{path}, {count}");
            }
        }
    }
}

fn is_about_the_count(message: &str) -> bool {
    let words = ["at most", "allowed", "must be 1 to", "is empty", "empty list", "an empty one", " entries, 1 to"];
    words.iter().any(|words| message.contains(words))
}

/// So many items like those of the example, each of them another one where that is possible.
fn many(example: &Value, shape: &Shape, count: usize) -> Value {
    let is_map = matches!(shape, Shape::Map { .. });
    let first = match example {
        Value::Array(items) => items[0].clone(),
        Value::Object(entries) if is_map => entries.values().next().unwrap().clone(),
        other => other.clone(),
    };
    if is_map {
        return Value::Object((0..count).map(|index| (format!("k{index}"), first.clone())).collect());
    }
    (0..count)
        .map(|index| match &first {
            Value::String(text) if text.starts_with('/') => json!(format!("{text}{index}")),
            Value::String(text) if text.contains('/') => json!(format!("{text}{index}")),
            Value::Number(_) if count <= 32 => json!((index + 1) as f64 / 32.0),
            Value::Number(_) => json!(index),
            other => other.clone(),
        })
        .collect()
}

/// The words of a shape that is nothing else, or whose items are.
fn words(shape: &Shape) -> Option<(bool, Vec<&'static str>)> {
    match *shape {
        Shape::Words(words) => Some((false, words.split(' ').collect())),
        Shape::Known(words) => Some((false, words())),
        Shape::List { item, .. } => words(item).map(|(_, words)| (true, words)),
        _ => None,
    }
}

#[test]
fn every_word_is_taken_and_they_are_all_that_the_checker_knows() {
    let mut tried = 0;
    for place in all() {
        let Some((items, words)) = words(&place.key.shape) else { continue };
        let path = place.path();
        let value = |word: &str| if items { json!([word]) } else { json!(word) };
        for word in &words {
            let problems = problems(&place, value(word));
            let about_the_word =
                |problem: &&Problem| problem.message.starts_with("must be \"") || problem.message.starts_with("is no ");
            let about_the_word: Vec<_> = problems.iter().filter(about_the_word).collect();
            // Words that are known and do not go with the others here: these say "with" or "no effect".
            assert!(
                about_the_word.iter().all(|problem| problem.message.contains(" with ")),
                "{path} = {word}: {about_the_word:?}"
            );
        }
        let refused = problems(&place, value("zzzzzz"));
        let problem = refused.first().unwrap_or_else(|| panic!("{path} has no such word"));
        let known = problem.hint.as_deref().and_then(|hint| hint.strip_prefix("known: "));
        let known: BTreeSet<&str> = match known {
            Some(known) => known.split(", ").collect(),
            None => problem.message.split('"').skip(1).step_by(2).collect(),
        };
        assert_eq!(known, words.iter().copied().collect(), "{path}: {}", problem.message);
        tried += words.len();
    }
    assert!(tried > 100, "{tried}");
}

/// Whatever one finds in configurations, put where it may not belong: if the checker takes it,
/// so does the schema.
#[test]
fn nothing_that_the_checker_takes_is_refused() {
    let validator = validator(&file_schema());
    let places = all();
    let mut values: Vec<Value> = places.iter().map(Place::example).collect();
    values.extend(places.iter().filter_map(|place| match place.key.need {
        Need::Default(text) => Some(json!(text)),
        _ => None,
    }));
    values.extend([
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.0),
        json!(0.7),
        json!(1e300),
        json!(""),
        json!(" "),
        json!("/"),
        json!("/~0/~1"),
        json!("+5%"),
        json!("05%"),
        json!("-0s"),
        json!("0B"),
        json!("99999999999d"),
        json!("mqtt://[::1]"),
        json!("mqtts://höst.example:+1883/"),
        json!("http://u%40:p/@[::1]:3128/"),
        json!("[fe80::1%1]:1883"),
        json!("é\n"),
        json!("\t"),
        json!("|"),
        json!("20200101T000000Z"),
        json!("2020-01-01 00:00+01"),
        json!("-001000-01-01T00:00:00Z"),
        json!([]),
        json!([""]),
        json!(["/"]),
        json!([["/"]]),
        json!({}),
        json!({ "": 1 }),
        json!({ "a": "/a" }),
        json!({ "a": "b" }),
        json!({ "a b": ["/a"], "ü": { "pointer": "/b" } }),
        json!([{ "field": ["/a", "/b"], "unit": "s" }, { "field": "/c", "format": "iso", "zone": "UTC", "missing": "receive" }]),
        json!({ "field": "/a", "format": "iso", "unit": "s" }),
        json!({ "source": "field", "field": "/a", "format": "%Y%z" }),
        json!({ "source": "payload", "unit": "s" }),
    ]);
    values.sort_by_key(Value::to_string);
    values.dedup();
    let (mut taken, mut tried) = (0, 0);
    for place in &places {
        let documents = values.iter().map(|value| place.with(value.clone())).chain([place.without()]);
        for document in documents {
            tried += 1;
            if is_taken(&document) {
                taken += 1;
                assert_eq!(refusals(&validator, &document), "", "{}: {document}", place.path());
            }
        }
    }
    assert!(taken > tried / 20, "{taken} of {tried}");
}
