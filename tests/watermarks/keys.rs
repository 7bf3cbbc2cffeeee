//! Whose records share a window.

use crate::trace::Trace;

const STREAM: &str = "watermark = \"monotonic\"\nidle_timeout = \"5s\"\ngroup = \"{site}\"\nmax_future = \"off\"";

#[test]
fn a_group_has_windows_of_its_own_under_the_watermark_of_the_group() {
    Trace::new(&format!("{STREAM}\nscope = \"group\""), "key = \"group\"\nlateness = \"5s\"")
        .reading(0, "x/a", 1_000)
        .reading(1, "x/b", 2_000)
        .reading(2, "y/a2", 3_000)
        .reading(3, "x/a", 12_000)
        .reading(4, "x/b", 10_000)
        .reading(5, "x/b", 4_000)
        .reading(6, "x/b", 15_000)
        .reading(7, "x/a", 17_000)
        .reading(8, "x/b", 4_000)
        .gives(&[
            "4: on_time x [0,10000) rev 0 count 2 sum 2 W 9999",
            "5: late x [0,10000) rev 1 count 3 sum 3 W 9999",
            // The raw record is that of its device.
            "8: late b 4000 by 10999",
        ]);
}

#[test]
fn the_whole_stream_is_one_key_in_scopes_stream_and_shared() {
    let trace = |scope: &str| {
        Trace::new(&format!("{STREAM}\nscope = \"{scope}\"\non_idle = \"hold\""), "key = \"stream\"")
            .reading(0, "x/a", 1_000)
            .reading(1, "y/b", 8_000)
            .reading(2, "x/c", 2_000)
            .reading(3, "x/c", 10_000)
            .reading(4, "y/b", 12_000)
            .reading(5, "x/a", 10_500)
    };
    trace("stream").gives(&["5: on_time * [0,10000) rev 0 count 3 sum 3 W 9999"]);
    trace("shared").gives(&["3: on_time * [0,10000) rev 0 count 3 sum 3 W 9999"]);
}

#[test]
fn windows_of_different_keys_stand_side_by_side_on_one_stream() {
    let more = "key = \"group\"\n[[streams.windows]]\nname = \"d\"\nsize = \"10s\"\naggregates = [\"sum\"]\n\
                [[streams.windows]]\nname = \"s\"\nsize = \"20s\"\nkey = \"stream\"\naggregates = [\"sum\"]";
    Trace::new(&format!("{STREAM}\nscope = \"shared\"\non_idle = \"hold\""), more)
        .reading(0, "x/a", 1_000)
        .reading(1, "y/b", 2_000)
        .reading(2, "x/c", 3_000)
        .reading(3, "x/c", 20_000)
        .gives(&[
            "3: on_time x [0,10000) rev 0 count 2 sum 2 W 19999",
            "3: on_time a [0,10000) rev 0 count 1 sum 1 W 19999",
            "3: on_time y [0,10000) rev 0 count 1 sum 1 W 19999",
            "3: on_time b [0,10000) rev 0 count 1 sum 1 W 19999",
            "3: on_time c [0,10000) rev 0 count 1 sum 1 W 19999",
            "3: on_time * [0,20000) rev 0 count 3 sum 3 W 19999",
        ]);
}

#[test]
fn sessions_of_a_shared_key_merge_over_its_devices() {
    Trace::new(&format!("{STREAM}\nscope = \"shared\"\non_idle = \"hold\""), "gap = \"5s\"\nkey = \"group\"")
        .reading(0, "x/a", 1_000)
        .reading(1, "x/b", 6_000)
        .reading(2, "y/c", 6_000)
        .reading(3, "x/a", 10_500)
        .reading(4, "y/c", 15_500)
        .gives(&[
            "4: on_time y [6000,11000) rev 0 count 1 sum 1 W 15499",
            "4: on_time x [1000,15500) rev 0 count 3 sum 3 W 15499",
        ]);
}

#[test]
fn a_shared_window_is_shown_when_the_last_of_its_devices_falls_idle() {
    let more =
        "key = \"group\"\n[[streams.windows]]\nname = \"s\"\nsize = \"20s\"\nkey = \"stream\"\naggregates = [\"sum\"]";
    Trace::new(&format!("{STREAM}\nscope = \"shared\""), more)
        .reading(0, "x/a", 1_000)
        .reading(1_000, "x/b", 2_000)
        .reading(2_000, "y/c", 3_000)
        .tick(5_001)
        .tick(6_000)
        .tick(10_000)
        .gives(&[
            "6001: idle x [0,10000) rev 0 count 2 sum 2 W 2999",
            "7001: idle y [0,10000) rev 0 count 1 sum 1 W 2999",
            "7001: idle * [0,20000) rev 0 count 3 sum 3 W 2999",
        ]);
}

#[test]
fn a_group_that_its_last_active_device_has_left_is_shown() {
    Trace::new(&format!("{STREAM}\nscope = \"group\""), "key = \"group\"")
        .reading(0, "x/a", 1_000)
        .reading(1, "y/a", 2_000)
        .reading(2, "x/a", 3_000)
        .reading(3, "x/a", 10_000)
        .gives(&[
            "1: idle x [0,10000) rev 0 count 1 sum 1 W 999",
            "2: idle y [0,10000) rev 0 count 1 sum 1 W 1999",
            "3: on_time x [0,10000) rev 1 count 2 sum 2 W 9999",
        ]);
}
