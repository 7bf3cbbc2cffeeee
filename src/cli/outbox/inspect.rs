//! `tidegate outbox inspect`: what is held, in numbers, or the first records of a lane.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::agent::outbox::page::Page;
use crate::engine::outbox::LaneKind;

use super::{Place, UNKNOWN, complaints, lane, past_of, say_if_overtaken, shown};

/// Says what the outbox holds: records, bytes, times, numbers, gaps, dead letters. With
/// --lane, prints the first records of a lane as JSON lines; they stay where they are.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,

    /// Print records of this lane: alarm, live, update, backlog or late
    #[arg(long, value_name = "LANE", value_parser = lane)]
    lane: Option<LaneKind>,

    /// Records printed at most
    #[arg(long, value_name = "N", default_value_t = 20, requires = "lane")]
    limit: usize,

    /// Print the whole document as JSON
    #[arg(long, conflicts_with = "lane")]
    json: bool,
}

#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut source = args.place.source()?;
    let overview = source.overview()?;
    let mut out = io::stdout().lock();
    // A closed pipe ends it, and is no error.
    if let Some(lane) = args.lane {
        let mut left = args.limit;
        source.pages((lane, past_of(&overview, lane)), (None, true), &mut |page| {
            if let Some(trouble) = &page.head.trouble {
                eprintln!("{trouble}");
            }
            let written = write_some(&mut out, &page, &mut left);
            Ok(written.is_ok() && left > 0)
        })?;
    } else if args.json {
        let _ = writeln!(out, "{overview}");
    } else {
        let _ = out.write_all(summary(&overview).as_bytes());
    }
    say_if_overtaken(&source);
    Ok(ExitCode::SUCCESS)
}

fn write_some(out: &mut impl Write, page: &Page, left: &mut usize) -> io::Result<()> {
    for line in page.lines.split_inclusive(|byte| *byte == b'\n').take(*left) {
        out.write_all(line)?;
        *left -= 1;
    }
    Ok(())
}

/// Some lines for a person; everything is in the JSON.
fn summary(overview: &Value) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "outbox of {}, epoch {}", text(&overview["gw"]), overview["epoch"]);
    if let (Some(day), Some(bytes)) = (overview["published"]["day"].as_str(), overview["published"]["bytes"].as_u64()) {
        let _ = write!(out, ", {} published on {day} (UTC)", size(bytes));
    }
    out.push('\n');
    if overview["gw"] == UNKNOWN {
        out.push_str("  ! the files do not have the gateway's id: --gateway says it\n");
    }
    for complaint in complaints(overview) {
        let _ = writeln!(out, "  ! {complaint}");
    }
    let adopted = overview["adopted_blocks"].as_u64().unwrap_or(0);
    if adopted > 0 {
        let _ = writeln!(out, "  ! no page names {adopted} of the blocks on disk: a start takes them over");
    }
    for lane in overview["lanes"].as_array().into_iter().flatten() {
        lane_summary(&mut out, lane);
    }
    for letter in overview["dead_letters"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "dead letter, {}: lane {} epoch {} seq {}: {}",
            text(&letter["reason"]),
            text(&letter["lane"]),
            letter["epoch"],
            letter["seq"],
            letter["record"]
        );
    }
    out
}

fn lane_summary(out: &mut String, lane: &Value) {
    let bytes = |name: &str| size(lane[name].as_u64().unwrap_or(0));
    let _ = write!(out, "{}: {} records", text(&lane["lane"]), lane["records"]);
    if lane["records"].as_u64().unwrap_or(0) > 0 {
        let _ = write!(
            out,
            " of {} to {}; {} in memory, {} on disk in {} blocks",
            shown(&lane["oldest_ms"]),
            shown(&lane["newest_ms"]),
            bytes("memory_bytes"),
            bytes("disk_bytes"),
            lane["blocks"]
        );
    }
    let _ = writeln!(
        out,
        "; since the first start {} queued, {} acked, {} evicted, {} dead",
        lane["queued"], lane["acked"], lane["evicted"], lane["dead_lettered"]
    );
    for numbers in lane["numbers"].as_array().into_iter().flatten() {
        let (epoch, first, last) = (&numbers["epoch"], &numbers["first_seq"], &numbers["last_seq"]);
        let _ = writeln!(out, "  epoch {epoch}: seq {first} to {last}");
    }
    let gaps = lane["gaps"].as_array().map_or(&[][..], Vec::as_slice);
    for gap in gaps {
        let _ = writeln!(
            out,
            "  gap: {} records lost, {}: epoch {} seq {} to {}, of {} to {}",
            gap["records"],
            text(&gap["reason"]),
            gap["epoch"],
            gap["first_seq"],
            gap["last_seq"],
            shown(&gap["oldest_ms"]),
            shown(&gap["newest_ms"])
        );
    }
    let more = lane["gaps_in_all"].as_u64().unwrap_or(0).saturating_sub(gaps.len() as u64);
    if more > 0 {
        let _ = writeln!(out, "  and {more} more gaps");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_each_lane_what_was_lost_and_what_the_cloud_does_not_take() {
        let overview = serde_json::json!({
            "gw": "gw-1", "epoch": 3, "published": {"day": "2026-11-30", "bytes": 12_345},
            "damage": ["the database does not open"], "faults": [], "adopted_blocks": 2,
            "lanes": [{"lane": "backlog", "records": 5, "memory_bytes": 100, "disk_bytes": 2_000_000, "blocks": 7,
                "oldest_ms": 1_700_000_000_000_u64, "newest_ms": 1_700_000_001_500_u64,
                "queued": 9, "acked": 1, "evicted": 2, "dead_lettered": 1,
                "numbers": [{"epoch": 3, "first_seq": 1, "last_seq": 8}],
                "gaps": [{"records": 2, "reason": "evicted", "epoch": 3, "first_seq": 1, "last_seq": 2,
                    "oldest_ms": 0, "newest_ms": 1}], "gaps_in_all": 3}],
            "dead_letters": [{"lane": "late", "epoch": 3, "seq": 4, "reason": "refused", "record": {"kind": "late"}}],
        });
        assert_eq!(
            summary(&overview),
            "outbox of gw-1, epoch 3, 12.3 kB published on 2026-11-30 (UTC)\n\
             \x20 ! damaged: the database does not open\n\
             \x20 ! no page names 2 of the blocks on disk: a start takes them over\n\
             backlog: 5 records of 2023-11-14T22:13:20Z to 2023-11-14T22:13:21.5Z; 100 bytes in memory, 2000.0 kB on \
             disk in 7 blocks; since the first start 9 queued, 1 acked, 2 evicted, 1 dead\n\
             \x20 epoch 3: seq 1 to 8\n\
             \x20 gap: 2 records lost, evicted: epoch 3 seq 1 to 2, of 1970-01-01T00:00:00Z to 1970-01-01T00:00:00.001Z\n\
             \x20 and 2 more gaps\n\
             dead letter, refused: lane late epoch 3 seq 4: {\"kind\":\"late\"}\n"
        );
    }

    #[test]
    fn no_more_lines_than_asked_for_over_all_pages() {
        let page = Page { lines: b"a\nb\nc\n".to_vec(), ..Page::default() };
        let (mut out, mut left) = (Vec::new(), 4);
        for _ in 0..2 {
            write_some(&mut out, &page, &mut left).unwrap();
        }
        assert_eq!((out.as_slice(), left), (&b"a\nb\nc\na\n"[..], 0));
    }
}
