//! Readings that are passed on as they are: on arrival, or sorted by event time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use serde_json::json;
use tidegate::engine::encode::{Encoding, Envelope};
use tidegate::engine::outbox::LaneKind;
use tidegate::engine::outbox::row::{self, RecordRow, write_record};
use tidegate::engine::spec::Records;
use tidegate::engine::status::RecordsStatus;
use tidegate::engine::step::Event;
use tidegate::fleet::receiver::Receiver;
use tidegate::model::record::TimeSource;
use tidegate::model::time::{ClockQuality, EventTime, WallTime};

use world::{Restart, START_MS, World, brief, pipeline, silent_alike, told_alike};

const ORDERED: &str = "records = \"ordered\"\nidle_timeout = \"off\"";

fn books(accepted: u64, open: u64, on_time: u64, early: u64, side_output: u64) -> RecordsStatus {
    RecordsStatus { accepted, open, on_time, early, side_output }
}

#[test]
fn a_stream_without_windows_passes_every_reading_on_as_it_comes() {
    let rows = told_alike("", |world| {
        let mut rows = world.reading(10, "a", 5, 1.5);
        rows.extend(world.reading(20, "a", 9_000, 2.0));
        rows.extend(world.event(21, Event::UplinkDown));
        // Far behind the watermark: on arrival that means nothing.
        rows.extend(world.reading(30, "a", 5, 3.0));
        rows.extend(world.event(31, Event::UplinkUp));
        rows.extend(world.reading(40, "b c", 5, 4.0));
        assert_eq!(world.status(40).records.unwrap(), books(4, 0, 4, 0, 0));
        rows
    });
    assert_eq!(
        rows[0],
        json!({
            "lane": "live", "kind": "record", "id": format!("gw/s//a/{}", START_MS + 5), "seq": 0,
            "stream": "s", "key": "a", "event_ms": START_MS + 5, "received_ms": START_MS + 10,
            "values": { "v": 1.5 }, "time_source": "device", "time_quality": "synced", "early": false
        })
    );
    assert_eq!(
        brief(&rows),
        ["live record a 5", "live record a 9000", "backlog record a 5", "live record b c 5"],
        "a reading of the same millisecond is another record of its own"
    );
}

#[test]
fn readings_are_passed_on_beside_the_windows_where_that_is_asked_for() {
    let windows = "[[streams.windows]]\nname = \"10s\"\nsize = \"10s\"";
    assert_eq!(pipeline(windows).streams[0].records, Records::Off);
    let rows = told_alike(&format!("records = \"arrival\"\nidle_timeout = \"off\"\n{windows}"), |world| {
        let mut rows = world.reading(0, "a", 1_000, 1.0);
        rows.extend(world.reading(1, "a", 12_000, 1.0));
        rows
    });
    assert_eq!(brief(&rows), ["live record a 1000", "live record a 12000", "live pane a 0 on_time"]);
    let rows = told_alike(&format!("{ORDERED}\n{windows}"), |world| {
        let mut rows = world.reading(0, "a", 9_000, 1.0);
        rows.extend(world.reading(1, "a", 7_500, 1.0));
        rows.extend(world.reading(2, "a", 12_000, 1.0));
        rows
    });
    assert_eq!(brief(&rows), ["live record a 7500", "live record a 9000", "live pane a 0 on_time"]);
}

#[test]
fn ordered_output_is_sorted_by_event_time_and_waits_for_the_watermark() {
    let rows = told_alike(ORDERED, |world| {
        let mut rows = Vec::new();
        for (number, ts) in [3_000, 1_000, 2_000, 1_000, 4_999].into_iter().enumerate() {
            rows.extend(world.reading(number as u64, "a", ts, number as f64));
        }
        assert_eq!(brief(&rows), ["live record a 1000", "live record a 1000", "live record a 2000"], "W is 2.998");
        assert_eq!(world.status(5).records.unwrap(), books(5, 2, 3, 0, 0));
        let late = world.reading(6, "a", 2_998, 6.0);
        assert_eq!((late[0]["reason"].as_str(), late[0]["lag_ms"].as_u64()), (Some("late"), Some(0)));
        assert_eq!(late[0]["window"], "");
        rows.extend(late);
        rows.extend(world.reading(7, "a", 2_999, 7.0));
        assert_eq!(world.status(7).records.unwrap(), books(7, 3, 3, 0, 1));
        rows.extend(world.finish(8));
        assert_eq!(world.status(8).records.unwrap(), books(7, 0, 6, 0, 1));
        rows
    });
    let values: Vec<_> = rows.iter().map(|row| row["values"]["v"].as_i64().unwrap()).collect();
    assert_eq!(values, [1, 3, 2, 6, 7, 0, 4], "equal times in the order of arrival");
    assert_eq!(rows.last().unwrap()["received_ms"], START_MS + 4, "as it was when it came");
}

#[test]
fn each_scope_has_an_order_of_its_own() {
    let rows = told_alike(ORDERED, |world| {
        let mut rows = world.reading(0, "a", 50_000, 1.0);
        rows.extend(world.reading(1, "b", 1_000, 1.0));
        rows.extend(world.reading(2, "b", 10_000, 1.0));
        rows
    });
    assert_eq!(brief(&rows), ["live record b 1000"], "a's own watermark is elsewhere");
    let rows = told_alike(&format!("{ORDERED}\nscope = \"stream\""), |world| {
        let mut rows = world.reading(0, "a", 50_000, 1.0);
        rows.extend(world.reading(1, "b", 49_000, 1.0));
        rows.extend(world.reading(2, "a", 60_000, 1.0));
        rows.extend(world.reading(3, "b", 58_000, 1.0));
        rows
    });
    assert_eq!(brief(&rows), ["live record b 49000", "live record a 50000"], "one order over both");
}

#[test]
fn a_full_buffer_lets_the_oldest_go_early_and_keeps_the_order() {
    let rows = told_alike(&format!("{ORDERED}\nordered_max = 3"), |world| {
        let mut rows = Vec::new();
        for ts in [5_000, 4_000, 6_000, 5_500] {
            rows.extend(world.reading(0, "a", ts, 1.0));
        }
        assert_eq!(brief(&rows), ["live record a 4000 early"]);
        // It is the oldest itself, and not behind what has gone.
        rows.extend(world.reading(1, "a", 4_500, 1.0));
        // Behind it.
        rows.extend(world.reading(2, "a", 4_400, 1.0));
        // Another device has another order; the oldest of all is still one of `a`.
        rows.extend(world.reading(3, "b", 5_300, 1.0));
        assert_eq!(world.status(3).records.unwrap(), books(7, 3, 0, 3, 1));
        rows.extend(world.reading(4, "b", 3_400, 1.0));
        rows.extend(world.reading(5, "a", 9_000, 1.0));
        rows
    });
    assert_eq!(
        brief(&rows),
        [
            "live record a 4000 early",
            "live record a 4500 early",
            "late late a 4400 out_of_order",
            "live record a 5000 early",
            "live record b 3400 early",
            "live record b 5300 early",
            "live record a 5500",
            "live record a 6000",
        ]
    );
    assert_eq!(rows[2]["lag_ms"], 100, "behind what has been released");
}

#[test]
fn the_buffer_holds_what_it_is_given_and_never_more() {
    let mut world =
        World::new(&format!("{ORDERED}\nordered_max = 500\nscope = \"shared\"\ndevices_max = 7"), Restart::Never);
    world.audit = false;
    let (mut held, mut steps) = (Vec::new(), 0_u64);
    let mut last = i64::MIN;
    for number in 0..5_000_u64 {
        let jitter = i64::try_from(number.wrapping_mul(2_654_435_761) % 1_999).unwrap();
        let ts = i64::try_from(number).unwrap() + jitter;
        for row in world.reading(number, &format!("d{}", number % 7), ts, 1.0) {
            if row["kind"] == "record" {
                let at = row["event_ms"].as_i64().unwrap();
                assert!(at >= last, "never a step back");
                last = at;
            }
            steps += 1;
        }
        if number % 97 == 0 {
            held.push(world.status(number).records.unwrap().open);
        }
    }
    assert_eq!(held.into_iter().max(), Some(500));
    let books = world.status(5_000).records.unwrap();
    assert_eq!((books.accepted, books.open + steps), (5_000, 5_000));
    assert!(books.early > 1_000 && books.side_output > 0, "{books:?}");
}

#[test]
fn a_page_has_the_changes_of_the_buffer_and_not_the_buffer() {
    let mut world = World::new(ORDERED, Restart::Never);
    for number in 0..1_000 {
        world.reading(number, "a", 1_000 + i64::try_from(number).unwrap(), 1.0);
    }
    world.commit();
    world.reading(1_000, "a", 1_500, 1.0);
    let (page, snapshot) = world.sizes(1_000);
    assert!(page < 300 && snapshot > 30_000, "page {page}, snapshot {snapshot}");
}

#[test]
fn what_a_silent_device_has_waiting_goes_early_or_stays_as_on_idle_says() {
    let story = |world: &mut World| {
        let mut rows = world.reading(0, "a", 2_000, 1.0);
        rows.extend(world.reading(1, "a", 1_000, 1.0));
        rows.extend(world.tick(5_001));
        rows.extend(world.tick(5_002));
        rows.extend(world.reading(6_000, "a", 1_999, 1.0));
        rows.extend(world.reading(6_001, "a", 2_000, 1.0));
        rows.extend(world.reading(6_002, "a", 9_000, 1.0));
        rows
    };
    let emit = silent_alike("records = \"ordered\"\nidle_timeout = \"5s\"", story);
    assert_eq!(
        brief(&emit),
        ["live record a 1000 early", "live record a 2000 early", "late late a 1999 out_of_order", "live record a 2000"]
    );
    let hold = silent_alike("records = \"ordered\"\nidle_timeout = \"5s\"\non_idle = \"hold\"", story);
    assert_eq!(brief(&hold), ["live record a 1000", "live record a 1999", "live record a 2000", "live record a 2000"]);
}

#[test]
fn under_a_common_watermark_nothing_goes_early_while_another_device_is_there() {
    let more = "records = \"ordered\"\nidle_timeout = \"5s\"\nscope = \"shared\"";
    let rows = silent_alike(more, |world| {
        let mut rows = world.reading(0, "a", 2_000, 1.0);
        rows.extend(world.reading(4_000, "b", 2_500, 1.0));
        rows.extend(world.tick(5_001));
        assert_eq!(rows.len(), 0);
        rows.extend(world.tick(9_001));
        rows
    });
    assert_eq!(brief(&rows), ["live record a 2000 early", "live record b 2500 early"]);
}

#[test]
fn another_configuration_lets_go_of_what_may_wait_no_more() {
    for restart in [Restart::FromPages, Restart::FromSnapshot] {
        let mut world = World::new(ORDERED, restart);
        for (device, ts) in [("a", 3_000), ("b", 2_000), ("a", 2_500)] {
            assert_eq!(world.reading(0, device, ts, 1.0).len(), 0);
        }
        let rows = world.start_again(1, Some(&format!("{ORDERED}\nordered_max = 2")));
        assert_eq!(brief(&rows), ["backlog record b 2000 early"]);
        let rows = world.reading(2, "b", 1_999, 1.0);
        assert_eq!(brief(&rows), ["late late b 1999 out_of_order"], "what has gone is not forgotten");
        let rows = world.reading(3, "c", 2_600, 1.0);
        assert_eq!(brief(&rows), ["live record a 2500 early"]);
        // One order over all devices from now on: it begins anew.
        let rows = world.start_again(4, Some(&format!("{ORDERED}\nscope = \"shared\"")));
        assert_eq!(brief(&rows), ["backlog record c 2600 early", "backlog record a 3000 early"]);
        assert_eq!(world.reading(5, "b", 1_999, 1.0).len(), 0);
        assert_eq!(brief(&world.reading(6, "c", 4_000, 1.0)), ["live record b 1999"]);
        let rows = world.start_again(7, Some("records = \"arrival\""));
        assert_eq!(brief(&rows), ["backlog record c 4000 early"]);
        assert_eq!(world.status(7).records.unwrap(), books(7, 0, 1, 5, 1));
    }
}

#[test]
fn both_encodings_carry_a_reading_and_the_receiver_counts_it_once() {
    let row = RecordRow {
        stream: "s",
        key: "a",
        event: EventTime::from_millis(7),
        received: WallTime::from_millis(9),
        early: true,
        source: TimeSource::Receive,
        quality: ClockQuality::Unsynced,
    };
    let mut bytes = Vec::new();
    write_record(&mut bytes, &row, [("v", 2.0), ("w", -0.5)].into_iter(), [("mode", "on")].into_iter());
    let read = || row::read(&bytes).unwrap();
    for cut in 0..bytes.len() {
        assert!(row::read(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let mut receiver = Receiver::new();
    for encoding in Encoding::ALL {
        let envelope = Envelope { topic_prefix: "tidegate", gateway: "gw", encoding };
        // The same millisecond twice: two readings.
        let payload = envelope.payload(3, LaneKind::Live, [(0, read()), (1, read())].into_iter());
        receiver.handle_message(&payload).unwrap();
    }
    let readings: Vec<_> = receiver.readings().collect();
    assert_eq!((readings.len(), receiver.counts().repeats, receiver.counts().conflicts), (2, 2, 0));
    assert_eq!(
        *readings[1],
        json!({
            "gw": "gw", "epoch": 3, "lane": "live", "kind": "record", "id": "gw/s//a/7", "seq": 1,
            "stream": "s", "key": "a", "event_ms": 7, "received_ms": 9, "values": { "v": 2, "w": -0.5, "mode": "on" },
            "time_source": "receive", "time_quality": "unsynced", "early": true
        })
    );
}

#[test]
fn where_the_clock_is_the_watermark_it_wakes_the_engine_for_what_waits() {
    let more =
        "records = \"ordered\"\nidle_timeout = \"off\"\nwatermark = \"processing\"\ndelay = \"3s\"\nscope = \"shared\"";
    let rows = silent_alike(more, |world| {
        let mut rows = world.reading(0, "a", 2_000, 1.0);
        rows.extend(world.reading(1, "a", 1_000, 1.0));
        assert_eq!(world.deadline(), Some(4_001), "1 s + 3 s + 1 ms");
        rows.extend(world.tick(4_000));
        assert_eq!(rows.len(), 0);
        rows.extend(world.tick(4_001));
        assert_eq!(world.deadline(), Some(5_001));
        rows.extend(world.tick(9_000));
        rows
    });
    assert_eq!(brief(&rows), ["live record a 1000", "live record a 2000"]);
}
