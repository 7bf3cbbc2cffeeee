//! Random configurations and traces. Each setting is drawn in one place; a law that needs
//! one to be so says it in [`Wishes`].

use std::fmt::Write as _;

use tidegate::model::rng::Rng;

/// The wall clock at the start; event times count from here.
pub(crate) const START_MS: i64 = 1_773_480_000_000;

/// A configuration and what arrives.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) config: String,
    /// In order of arrival.
    pub(crate) messages: Vec<Message>,
    /// When the input ends, at or after the last arrival.
    pub(crate) end: u64,
    /// For what a law draws beside the case.
    pub(crate) seed: u64,
}

/// One reading.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    /// Milliseconds after the start.
    pub(crate) arrival: u64,
    pub(crate) site: u64,
    pub(crate) device: u64,
    /// Milliseconds after the start.
    pub(crate) ts: i64,
    /// A quarter of an integer: sums of these are exact in any order.
    pub(crate) value: f64,
}

/// What a law is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wishes {
    /// Anything goes.
    Any,
    /// Each device for itself: scope and keys `device`.
    EachDevice,
    /// Nothing is late: bounded disorder that the trace keeps, and nobody falls idle.
    InBound,
    /// As `InBound`, with session windows.
    Sessions,
}

const DISORDERS: [u64; 4] = [0, 500, 2_000, 7_000];

/// Draws a case. Each part has a chance of its own: a setting that is added moves no other.
pub(crate) fn case(random: &mut Rng, wishes: Wishes) -> Case {
    let seed = random.next_u64();
    let disorder = DISORDERS[usize::try_from(Rng::fork(seed, 1).below(4)).unwrap()];
    let config = config(seed, wishes, disorder);
    let in_bound = matches!(wishes, Wishes::InBound | Wishes::Sessions);
    let messages = if in_bound { within(seed, disorder) } else { anyhow(seed) };
    let last = messages.last().map_or(0, |message| message.arrival);
    Case { config, messages, end: last + Rng::fork(seed, 4).below(6_000), seed }
}

/// The text of a configuration with one stream, `s`.
pub(crate) fn config(seed: u64, wishes: Wishes, disorder: u64) -> String {
    let mut text = String::from("[gateway]\nid = \"gw\"\n[[streams]]\nname = \"s\"\ntopic = \"d/{site}/{device}\"\n");
    text.push_str("fields = { v = \"/v\" }\ntime = { field = \"/ts\", unit = \"ms\" }\nmax_future = \"off\"\n");
    let scope = stream(&mut text, seed, wishes, disorder);
    for window in 0..=Rng::fork(seed, 2).below(2) {
        let seed = seed.wrapping_add(1_000 * (window + 1));
        writeln!(text, "[[streams.windows]]\nname = \"w{window}\"").unwrap();
        self::window(&mut text, seed, wishes, scope);
    }
    text
}

/// The settings of the stream. Returns its scope.
fn stream(text: &mut String, seed: u64, wishes: Wishes, disorder: u64) -> &'static str {
    let in_bound = matches!(wishes, Wishes::InBound | Wishes::Sessions);
    let scopes: &[&str] =
        if wishes == Wishes::EachDevice { &["device"] } else { &["device", "group", "stream", "shared"] };
    let scope = pick(seed, 10, scopes);
    writeln!(text, "scope = \"{scope}\"").unwrap();
    if scope == "group" {
        text.push_str("group = \"{site}\"\n");
    }
    if scope == "group" || scope == "stream" {
        writeln!(text, "resume = \"{}\"", pick(seed, 11, &["catch_up", "hold"])).unwrap();
        writeln!(text, "all_idle = \"{}\"", pick(seed, 12, &["advance", "stay"])).unwrap();
        writeln!(text, "max_lag = \"{}\"", pick(seed, 13, &["off", "5s", "20s"])).unwrap();
    }
    let strategy = if in_bound { "bounded" } else { pick(seed, 14, &["bounded", "bounded", "adaptive"]) };
    match strategy {
        "adaptive" => text.push_str("watermark = \"adaptive\"\nfloor = \"100ms\"\nceiling = \"5s\"\n"),
        _ => writeln!(text, "disorder = \"{disorder}ms\"").unwrap(),
    }
    let idle = if in_bound { "off" } else { pick(seed, 15, &["off", "1500ms", "4s"]) };
    writeln!(text, "idle_timeout = \"{idle}\"").unwrap();
    let on_idle: &[&str] = if scope == "device" { &["emit", "hold", "close"] } else { &["emit", "hold"] };
    writeln!(text, "on_idle = \"{}\"", pick(seed, 16, on_idle)).unwrap();
    if !in_bound {
        writeln!(text, "state_ttl = \"{}\"", pick(seed, 17, &["off", "40s"])).unwrap();
        let copies = "{ by = \"time_and_values\", horizon = 16 }";
        writeln!(text, "dedup = {}", pick(seed, 18, &["\"off\"", copies])).unwrap();
        writeln!(text, "records = \"{}\"", pick(seed, 19, &["off", "off", "arrival", "ordered"])).unwrap();
    }
    scope
}

/// The settings of one window.
fn window(text: &mut String, seed: u64, wishes: Wishes, scope: &str) {
    let kinds: &[&str] = if wishes == Wishes::Sessions { &["session"] } else { &["tumbling", "sliding", "session"] };
    let kind = pick(seed, 20, kinds);
    match kind {
        "tumbling" => writeln!(text, "size = \"{}\"", pick(seed, 21, &["1s", "3s", "10s"])).unwrap(),
        "sliding" => {
            let (size, slide) = pick(seed, 22, &["3s 1s", "5s 2s", "2s 5s"]).split_once(' ').unwrap();
            writeln!(text, "size = \"{size}\"\nslide = \"{slide}\"").unwrap();
        }
        _ => writeln!(text, "gap = \"{}\"", pick(seed, 23, &["700ms", "2s"])).unwrap(),
    }
    let keys: &[&str] = match scope {
        "device" => &["device"],
        "group" => &["device", "group"],
        // Without group labels.
        _ => &["device", "stream"],
    };
    writeln!(text, "key = \"{}\"", pick(seed, 24, keys)).unwrap();
    let lateness = pick(seed, 25, &["0s", "1s", "8s"]);
    writeln!(text, "lateness = \"{lateness}\"").unwrap();
    let updates = pick(seed, 27, &["\"each\"", "{ every = \"1500ms\" }"]);
    if lateness != "0s" {
        writeln!(text, "late_updates = {updates}").unwrap();
    }
    let late = pick(seed, 26, &["side_output", "drop", "backfill"]);
    // Sessions cannot be added to from outside.
    writeln!(text, "late = \"{}\"", if kind == "session" && late == "backfill" { "drop" } else { late }).unwrap();
    text.push_str(pick(seed, 28, &["", "early = \"2s\"\n"]));
    text.push_str(pick(seed, 29, &["", "final = true\n"]));
    text.push_str("aggregates = [\"count\", \"sum\", \"min\", \"max\", \"mean\", \"first\", \"last\", \"range\"]\n");
}

/// Devices with clocks that run behind, backlogs, silence; arrival in bursts.
fn anyhow(seed: u64) -> Vec<Message> {
    let random = &mut Rng::fork(seed, 3);
    let devices = 1 + random.below(5);
    let behind: Vec<i64> = (0..devices).map(|_| millis(random.below(3) * random.below(6_000))).collect();
    let mut arrival = 0;
    (0..40 + random.below(160))
        .map(|_| {
            arrival += if random.chance(8) { random.below(9_000) } else { random.below(300) };
            let device = random.below(devices);
            let late = if random.chance(5) { random.below(12_000) } else { random.below(800) };
            let ts = millis(arrival) - behind[usize::try_from(device).unwrap()] - millis(late);
            Message { arrival, site: device % 2, device, ts, value: value(random) }
        })
        .collect()
}

/// No reading is later than `disorder` behind any that came before it.
fn within(seed: u64, disorder: u64) -> Vec<Message> {
    let random = &mut Rng::fork(seed, 3);
    let devices = 1 + random.below(5);
    let mut ts = 0;
    let mut messages: Vec<Message> = (0..40 + random.below(160))
        .map(|_| {
            ts += if random.chance(8) { random.below(9_000) } else { random.below(300) };
            let device = random.below(devices);
            Message { arrival: 0, site: device % 2, device, ts: millis(ts), value: value(random) }
        })
        .collect();
    shuffle(&mut messages, random, disorder);
    messages
}

/// Another order in which the same readings may arrive.
pub(crate) fn shuffle(messages: &mut [Message], random: &mut Rng, disorder: u64) {
    for message in &mut *messages {
        message.arrival = message.ts.unsigned_abs() + random.below(disorder + 1);
    }
    messages.sort_by_key(|message| message.arrival);
}

fn value(random: &mut Rng) -> f64 {
    millis(random.below(4_000)) as f64 * 0.25 - 300.0
}

fn millis(number: u64) -> i64 {
    i64::try_from(number).unwrap()
}

fn pick<'t>(seed: u64, part: u64, from: &[&'t str]) -> &'t str {
    from[usize::try_from(Rng::fork(seed, part).below(from.len() as u64)).unwrap()]
}
