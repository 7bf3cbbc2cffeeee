//! Who is there: silence, and signals of availability.

use tidegate::engine::Engine;
use tidegate::engine::step::{Availability, Event};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

use crate::trace::{START_MS, Trace, spec};

const STREAM: &str = "watermark = \"monotonic\"\nidle_timeout = \"5s\"\nmax_future = \"off\"";

#[test]
fn on_idle_close_ends_all_open_windows_and_their_lateness_begins() {
    let trace = Trace::new(&format!("{STREAM}\non_idle = \"close\""), "lateness = \"5s\"")
        .readings(0, "a", &[12_000, 13_000])
        .reading(1, "b", 1_000)
        .look(5_001, "a")
        // Within the lateness, then beyond it.
        .reading(6_000, "a", 14_000)
        .reading(6_001, "a", 24_999)
        .reading(6_002, "a", 15_000)
        .reading(6_003, "a", 25_001)
        .reading(6_004, "a", 15_000);
    trace.gives(&[
        "5001: idle a [10000,20000) rev 0 count 2 sum 2 W 19999",
        "5001: a W 19999 idle",
        "5002: idle b [0,10000) rev 0 count 1 sum 1 W 9999",
        "6000: late a [10000,20000) rev 1 count 3 sum 3 W 19999",
        "6002: late a [10000,20000) rev 2 count 4 sum 4 W 24998",
        "6004: late a 15000 by 10000",
    ]);
}

#[test]
fn what_close_has_fired_is_settled_in_the_books() {
    let mut engine = Engine::new(spec(&format!("{STREAM}\non_idle = \"close\""), ""));
    let now = |at: u64| Now {
        proc: ProcTime::from_millis(at),
        wall: WallTime::from_millis(START_MS + i64::try_from(at).unwrap()),
        quality: ClockQuality::Synced,
    };
    engine.handle(now(0), Event::InputLive(true));
    let field = engine.field(0, "v").unwrap();
    let values = [(field, 1.0)];
    let at = tidegate::model::time::EventTime::from_millis(START_MS);
    engine.handle_record(now(0), 0, &tidegate::model::record::Record::new("a", at, &values));
    let books = |engine: &Engine| {
        let window = engine.status(now(0)).streams.remove(0).windows.remove(0);
        (window.open, window.on_time)
    };
    assert_eq!(books(&engine), (1, 0));
    engine.handle(now(5_001), Event::Tick);
    assert_eq!(books(&engine), (0, 1));
    assert!(engine.balances());
}

#[test]
fn close_takes_the_newest_of_all_windows_and_fires_sessions_too() {
    let more = "gap = \"3s\"\n[[streams.windows]]\nname = \"big\"\nsize = \"1m\"\naggregates = [\"sum\"]";
    Trace::new(&format!("{STREAM}\non_idle = \"close\""), more)
        .readings(0, "a", &[1_000, 2_000])
        .look(6_000, "a")
        .gives(&[
            "5001: idle a [1000,5000) rev 0 count 2 sum 2 W 59999",
            "5001: idle a [0,60000) rev 0 count 2 sum 2 W 59999",
            "6000: a W 59999 idle",
        ]);
}

#[test]
fn offline_is_idle_at_once_and_online_is_active_with_a_fresh_deadline() {
    Trace::new(STREAM, "")
        .reading(0, "a", 1_000)
        .reading(1_000, "b", 1_000)
        .available(2_000, Some("a"), false)
        .available(2_001, Some("a"), false)
        .look(2_002, "a")
        .available(3_000, Some("a"), true)
        .look(3_001, "a")
        .available(4_000, Some("b"), true)
        .reading(4_500, "a", 2_000)
        .tick(20_000)
        .gives(&[
            "2000: idle a [0,10000) rev 0 count 1 sum 1 W 999",
            "2002: a W 999 idle",
            "3001: a W 999 active",
            // Five seconds from the signal, and from the reading after it.
            "9001: idle b [0,10000) rev 0 count 1 sum 1 W 999",
            "9501: idle a [0,10000) rev 1 count 2 sum 2 W 1999",
        ]);
}

#[test]
fn a_record_is_stronger_than_a_signal() {
    Trace::new(STREAM, "")
        .reading(0, "a", 1_000)
        .available(10, Some("a"), false)
        .reading(20, "a", 2_000)
        .look(30, "a")
        .tick(10_000)
        .gives(&[
            "10: idle a [0,10000) rev 0 count 1 sum 1 W 999",
            "30: a W 1999 active",
            "5021: idle a [0,10000) rev 1 count 2 sum 2 W 1999",
        ]);
}

#[test]
fn signals_count_without_a_timeout_and_while_nothing_can_be_heard() {
    let stream = "watermark = \"monotonic\"\nidle_timeout = \"off\"\nscope = \"stream\"\nresume = \"hold\"\non_idle = \"hold\"\nmax_future = \"off\"";
    Trace::new(stream, "")
        .reading(0, "b", 1_000)
        .reading(1, "a", 15_000)
        .live(2, false)
        .available(3, Some("b"), false)
        .available(4, Some("b"), true)
        .reading(5, "a", 25_000)
        .available(6, Some("b"), false)
        .gives(&[
            "3: on_time b [0,10000) rev 0 count 1 sum 1 W 14999",
            // Back at 0.999 it holds the others.
            "6: on_time a [10000,20000) rev 0 count 1 sum 1 W 24999",
        ]);
}

#[test]
fn what_connects_devices_speaks_for_all_of_them_at_once() {
    let stream = "watermark = \"monotonic\"\nidle_timeout = \"1h\"\nscope = \"stream\"\non_idle = \"hold\"\nmax_future = \"off\"";
    Trace::new(stream, "")
        .reading(0, "b", 1_000)
        .reading(1, "c", 12_000)
        .reading(2, "a", 15_000)
        .available(3, None, false)
        .look(4, "c")
        .available(5, None, true)
        .look(6, "c")
        .gives(&["3: on_time b [0,10000) rev 0 count 1 sum 1 W 14999", "4: c W 11999 idle", "6: c W 11999 active"]);
}

#[test]
fn a_device_that_no_stream_knows_is_counted_and_not_made_known() {
    let mut engine = Engine::new(spec(STREAM, ""));
    let now = Now { proc: ProcTime::default(), wall: WallTime::from_millis(START_MS), quality: ClockQuality::Synced };
    for online in [true, false] {
        engine.handle(now, Event::Availability(Availability { stream: None, device: Some("ghost"), online }));
    }
    engine.handle(now, Event::Availability(Availability { stream: None, device: None, online: false }));
    let status = engine.status(now);
    assert_eq!((status.unknown_devices, status.streams[0].devices), (2, 0));
}
