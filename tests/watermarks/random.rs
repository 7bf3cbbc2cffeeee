//! Random streams under every strategy, scope and key: the same output however often
//! the agent is restarted, and books that balance.

use serde_json::json;
use tidegate::model::rng::Rng;

use crate::trace::{START_MS, Trace};

const STRATEGIES: [&str; 5] = [
    "disorder = \"2s\"",
    "watermark = \"monotonic\"",
    "watermark = \"adaptive\"\nceiling = \"3s\"\nquantile = 0.9",
    "watermark = \"punctuated\"\nmarker = \"end\"",
    "watermark = \"processing\"\ndelay = \"1s\"",
];
const SCOPES: [(&str, &[&str]); 4] = [
    ("device", &["device"]),
    ("shared", &["device", "group", "stream"]),
    ("stream", &["device", "group", "stream"]),
    ("group", &["device", "group"]),
];

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[usize::try_from(rng.below(from.len() as u64)).unwrap()]
}

fn config(rng: &mut Rng) -> (String, String) {
    let strategy = pick(rng, &STRATEGIES);
    let (scope, keys) = if strategy.contains("processing") { SCOPES[1] } else { pick(rng, &SCOPES) };
    let mut stream = format!("{strategy}\nscope = \"{scope}\"\ngroup = \"{{site}}\"\nmax_future = \"off\"\n");
    stream += pick(rng, &["idle_timeout = \"off\"\n", "idle_timeout = \"700ms\"\n", "idle_timeout = \"4s\"\n"]);
    if scope == "device" {
        stream += pick(rng, &["", "on_idle = \"close\"\n", "on_idle = \"hold\"\n"]);
    } else {
        stream += pick(rng, &["", "on_idle = \"hold\"\n"]);
    }
    if scope == "stream" || scope == "group" {
        stream += pick(rng, &["", "resume = \"hold\"\n"]);
        stream += pick(rng, &["", "all_idle = \"stay\"\n"]);
        stream += pick(rng, &["", "max_lag = \"4s\"\n", "max_lag = \"12s\"\n"]);
    }
    let kind = pick(rng, &["size = \"5s\"", "gap = \"2s\"", "size = \"6s\"\nslide = \"2s\""]);
    let mut window = format!("key = \"{}\"\nlateness = \"3s\"", pick(rng, keys));
    for key in keys {
        let more = "\n[[streams.windows]]\nname = \"KEY\"\nkey = \"KEY\"\naggregates = [\"sum\"]\nlateness = \"1s\"\n";
        window += &more.replace("KEY", key);
        window += kind;
    }
    (stream, window)
}

fn trace(seed: u64) -> Trace {
    let mut rng = Rng::new(seed);
    let (stream, window) = config(&mut rng);
    let mut trace = Trace::new(&stream, &window);
    let mut at = 0;
    for _ in 0..60 {
        at += pick(&mut rng, &[0, 1, 50, 300, 1_500]);
        let device = pick(&mut rng, &["a", "b", "c"]);
        trace = match rng.below(24) {
            0 => trace.available(at, Some(device), rng.below(2) == 0),
            1 => trace.available(at, None, rng.below(2) == 0),
            2 => trace.live(at, rng.below(3) > 0),
            3 => trace.look(at, device),
            _ => {
                let spread = pick(&mut rng, &[1, 500, 9_000]);
                let behind = i64::try_from(rng.below(spread)).unwrap();
                let ts = i64::try_from(at).unwrap() - behind;
                let site = if rng.below(12) == 0 {
                    pick(&mut rng, &["x", "y"])
                } else if device == "a" {
                    "x"
                } else {
                    "y"
                };
                let mark = i32::from(rng.below(3) == 0);
                trace.payload(at, &format!("{site}/{device}"), &json!({ "ts": START_MS + ts, "v": 1, "end": mark }))
            }
        };
    }
    trace.tick(at + 60_000)
}

#[test]
fn a_restart_at_any_line_changes_nothing() {
    let mut lines = 0;
    for seed in 0..120 {
        let trace = trace(seed);
        println!("seed {seed}");
        lines += trace.run().len();
    }
    assert!(lines > 5_000, "{lines} lines of output");
}
