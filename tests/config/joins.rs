//! `[[joins]]`: what is accepted, and every way to be wrong.

use tidegate::config::check::check_for_replay;
use tidegate::engine::spec::{JoinKind, JoinSpec, KeySpec, WindowRef};
use tidegate::model::ids::Name;
use tidegate::model::time::Span;

const STREAMS: &str = r#"
[gateway]
id = "gw"
[[streams]]
name = "climate"
topic = "climate/{device}"
time = { source = "receive" }
windows = [
  { name = "1m", size = "1m" }, { name = "2m", size = "2m" }, { name = "mean", size = "1m" },
  { name = "day", calendar = "day" }, { name = "s", gap = "1m" }, { name = "slide", size = "1m", slide = "20s" },
]
[[streams]]
name = "power"
topic = "power/{device}"
time = { source = "receive" }
windows = [
  { name = "1m", size = "1m", lateness = "5m" }, { name = "late", size = "1m", offset = "10s" },
  { name = "slide", size = "1m", slide = "30s" }, { name = "day", calendar = "day", zone = "Europe/Berlin" },
]
[[streams]]
name = "join"
topic = "join/{device}"
time = { source = "receive" }
windows = [{ name = "w", size = "1m" }]
[[joins]]
"#;

fn check(join: &str) -> Result<Vec<JoinSpec>, Vec<(String, String)>> {
    let checked = check_for_replay(&format!("{STREAMS}{join}"), "t.toml");
    checked.map(|checked| checked.config.joins).map_err(|refused| {
        let problems = refused.problems.into_iter();
        problems.map(|problem| (problem.path.clone(), format!("{}; {:?}", problem.message, problem.hint))).collect()
    })
}

#[test]
fn a_join_says_what_it_says() {
    let name = |text: &str| Name::new(text).unwrap();
    let side = |stream: &str| WindowRef { stream: name(stream), window: name("1m") };
    let joins = check(
        "name = \"j\"\nwindows = [\"climate/1m\", \"power/1m\"]\n[[joins]]\nname = \"i\"\nleft = \"climate\"\n\
         right = \"power\"\nafter = \"10s\"\nbefore = \"-2s\"\nttl = \"1h\"\nkey = \"device\"",
    );
    let window = JoinKind::Window { sides: vec![side("climate"), side("power")], outer: false };
    let interval = JoinKind::Interval {
        left: name("climate"),
        right: name("power"),
        lower_ms: 2_000,
        upper_ms: 10_000,
        key: KeySpec::Device,
    };
    assert_eq!(
        joins,
        Ok(vec![
            JoinSpec { name: name("j"), ttl: Span::from_secs(600), kind: window },
            JoinSpec { name: name("i"), ttl: Span::from_secs(3_600), kind: interval },
        ])
    );
    let Ok([JoinSpec { kind: JoinKind::Window { outer: true, .. }, .. }]) =
        check("name = \"j\"\nmode = \"outer\"\nwindows = [\"climate/1m\", \"power/1m\"]").as_deref()
    else {
        panic!("outer is accepted")
    };
}

#[test]
fn a_stream_of_an_interval_join_needs_no_other_way_out() {
    let silent = "name = \"door\"\ntopic = \"door/{device}\"\ntime = { source = \"receive\" }\nrecords = \"off\"";
    let streams =
        format!("[gateway]\nid = \"gw\"\n[[streams]]\n{silent}\n[[streams]]\n{}", silent.replace("door", "motion"));
    let join = "[[joins]]\nname = \"j\"\nleft = \"door\"\nright = \"motion\"\nafter = \"1s\"";
    let check = |text: &str| check_for_replay(text, "t.toml").map_err(|refused| refused.problems.len());
    assert_eq!(check(&format!("{streams}\n{join}")).map(|checked| checked.config.joins.len()), Ok(1));
    assert_eq!(check(&streams).map(|_| ()), Err(2), "readings would go nowhere");
}

#[test]
fn every_way_to_be_wrong_is_named_with_its_place_and_a_hint() {
    let two = |a: &str, b: &str| format!("name = \"j\"\nwindows = [\"{a}\", \"{b}\"]");
    let interval = |more: &str| format!("name = \"j\"\nleft = \"climate\"\nright = \"power\"\n{more}");
    for (join, path, part) in [
        ("name = \"j\"".to_owned(), "joins[0]", "joins nothing"),
        (two("climate/1m", "power/lm"), "joins[0].windows[1]", "did you mean \\\"power/1m\\\"?"),
        (two("climate/1m", "nothing"), "joins[0].windows[1]", "known: climate/1m, climate/2m"),
        (two("climate/1m", "climate/1m"), "joins[0].windows[1]", "appears twice"),
        (two("climate/1m", "climate/mean"), "joins[0].windows[1]", "has a side already"),
        (two("climate/2m", "power/1m"), "joins[0].windows[1]", "another `size` than \"climate/2m\""),
        (two("climate/1m", "power/late"), "joins[0].windows[1]", "another `offset`"),
        (two("climate/slide", "power/slide"), "joins[0].windows[1]", "another `slide`"),
        (two("climate/1m", "power/slide"), "joins[0].windows[1]", "another `slide`"),
        (two("climate/day", "power/day"), "joins[0].windows[1]", "another `zone`"),
        (two("climate/day", "power/1m"), "joins[0].windows[1]", "another `calendar`"),
        (two("climate/s", "power/1m"), "joins[0].windows[0]", "is a session"),
        ("name = \"j\"\nwindows = [\"climate/1m\"]".to_owned(), "joins[0].windows", "2 to 8"),
        (two("climate/1m", "power/1m") + "\nmode = \"left\"", "joins[0].mode", "\"inner\" or \"outer\""),
        (two("climate/1m", "power/1m") + "\nttl = \"0s\"", "joins[0].ttl", "from 1s to 366d"),
        (two("climate/1m", "power/1m") + "\nafter = \"1s\"", "joins[0].after", "no setting of a window join"),
        (two("climate/1m", "power/1m") + "\nleft = \"climate\"", "joins[0].windows", "remove one of them"),
        (
            two("climate/1m", "power/1m").replace("\"j\"", "\"w\"").replace("climate/1m", "join/w"),
            "joins[0].name",
            "ids",
        ),
        (interval("mode = \"inner\""), "joins[0].mode", "no setting of an interval join"),
        (interval("after = \"1s\"\nbefore = \"-2s\""), "joins[0].after", "ends before it begins"),
        (interval("key = \"group\"\nafter = \"1s\""), "joins[0].left", "has no `group`"),
        (interval(""), "joins[0].after", "same millisecond"),
        (interval("after = \"30m\""), "joins[0].ttl", "above 30m"),
        (interval("").replace("power", "pover"), "joins[0].right", "did you mean \\\"power\\\"?"),
        (interval("").replace("power", "climate"), "joins[0].right", "its own partner"),
        ("name = \"j\"\nleft = \"climate\"".to_owned(), "joins[0].right", "is missing"),
        (interval("") + "[[joins]]\n" + &interval(""), "joins[1].name", "has the same name"),
        (interval("windws = 1"), "joins[0].windws", "did you mean `windows`?"),
    ] {
        let problems = check(&join).expect_err(&join);
        let found = problems.iter().any(|(place, text)| place == path && text.contains(part));
        assert!(found, "{join}\n{path}: {part}\nfound: {problems:#?}");
    }
}
