//! `tidegate decode`: what one payload becomes under a configuration, step by step.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::agent::clock::SystemClock;
use crate::config::check::check_for_replay;
use crate::engine::Engine;
use crate::engine::step::Clock;
use crate::engine::trace::{Trace, TracedReadings, TracedRecord};
use crate::model::limits::PAYLOAD_BYTES_MAX;
use crate::model::record::TimeSource;
use crate::model::time::EventTime;
use crate::model::topic::is_topic;

use super::read_text;
use super::run::CONFIG_DEFAULT;

/// Bytes of a capture. More than anybody reads line by line.
const CAPTURE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Shows what messages become: whose they are, at what time, with which values, or why not.
///
/// Nothing is connected to or stored. With --topic the input is one payload, whatever its
/// bytes. Without, it is a capture of `mosquitto_sub -v` (`-F '%t %p'`): a topic, a blank and
/// a payload on each line.
///
/// Exit code 0: every message has a place. 1: some record was rejected, or some message is
/// nobody's.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The payload or the capture; `-` for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Configuration file; brokers and storage are not needed
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    config: PathBuf,

    /// The topic of the payload
    #[arg(long, value_name = "TOPIC", value_parser = topic, conflicts_with = "hex")]
    topic: Option<String>,

    /// Payloads of the capture are hexadecimal (`-F '%t %x'`): for payloads of several lines or of any bytes
    #[arg(long)]
    hex: bool,
}

/// Reads the input and prints what each message becomes.
///
/// # Errors
/// A configuration with problems; a file that cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = args.config.display().to_string();
    let checked = match check_for_replay(&read_text(&args.config)?, &file) {
        Ok(checked) => checked,
        Err(refused) => {
            refused.problems.iter().for_each(|problem| eprintln!("error: {problem}"));
            anyhow::bail!("{file}: {}", refused.count());
        }
    };
    checked.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let mut engine = Engine::new(checked.config);
    let input = read_input(&args)?;
    let clock = SystemClock::start();
    let mut sound = true;
    let mut out = std::io::stdout().lock();
    let mut show = |topic: &str, payload: &[u8]| {
        let trace = engine.trace(clock.now(), topic, payload);
        sound &= is_sound(&trace);
        out.write_all(shown(topic, payload, &trace).as_bytes())
    };
    let written = match &args.topic {
        Some(topic) => show(topic, &input),
        None => input.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).try_for_each(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
            let payload = line.get(end + 1..).unwrap_or_default();
            let topic = String::from_utf8_lossy(&line[..end]);
            if !args.hex {
                return show(&topic, payload);
            }
            match unhexed(payload) {
                Some(payload) => show(&topic, &payload),
                None => show(&topic, b"").and_then(|()| writeln!(std::io::stderr(), "{topic}: not hexadecimal")),
            }
        }),
    };
    match written {
        // A closed pipe is the usual end of `decode … | head`.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        Ok(()) | Err(_) => Ok(ExitCode::from(u8::from(!sound))),
    }
}

fn topic(text: &str) -> Result<String, String> {
    if is_topic(text) {
        return Ok(text.to_owned());
    }
    Err("nothing is published to such a topic: expected one without wildcards, such as devices/kitchen/climate".into())
}

/// The bytes that pairs of digits stand for.
fn unhexed(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| Some(digit(&pair[0])? << 4 | digit(pair.get(1)?)?);
    text.chunks(2).map(byte).collect()
}

fn read_input(args: &Args) -> anyhow::Result<Vec<u8>> {
    let name = args.file.display();
    let reader: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(&args.file).with_context(|| format!("{name}: cannot be read"))?)
    };
    let max = if args.topic.is_some() { PAYLOAD_BYTES_MAX as u64 + 1 } else { CAPTURE_BYTES_MAX };
    let mut input = Vec::new();
    reader.take(max).read_to_end(&mut input).with_context(|| format!("{name}: cannot be read"))?;
    Ok(input)
}

/// Every record counts, or is meant not to.
fn is_sound(trace: &Trace) -> bool {
    match &trace.readings {
        Some(readings) => readings.records.iter().all(|record| record.rejected.is_none() && !record.is_future),
        None => trace.signals.iter().any(|signal| signal.online.is_some()),
    }
}

/// What one message becomes, for a person.
fn shown(topic: &str, payload: &[u8], trace: &Trace) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: &str| writeln!(out, "  {name:<9} {text}").expect("memory does not fail");
    line("payload", &excerpt(payload));
    for signal in &trace.signals {
        let says = match signal.online {
            Some(true) => "online",
            Some(false) => "offline",
            None => "neither of its words: no availability",
        };
        line("says", &format!("{}: {says} (stream {})", signal.whom, signal.stream));
    }
    match &trace.readings {
        Some(readings) => show_readings(readings, &mut line),
        None if trace.signals.is_empty() => line("nobody's", "no stream has a topic that fits"),
        None => {}
    }
    // A topic may hold anything: not into the terminal.
    format!("{}\n{out}\n", topic.escape_debug())
}

fn show_readings(readings: &TracedReadings, line: &mut dyn FnMut(&str, &str)) {
    if readings.ignored {
        return line("ignored", &format!("by `ignore` of stream {}", readings.stream));
    }
    let captures: Vec<String> = readings.captures.iter().map(|(name, text)| format!("{name} = {text:?}")).collect();
    let with = if captures.is_empty() { String::new() } else { format!(" with {}", captures.join(", ")) };
    line("stream", &format!("{}, by {}{with}", readings.stream, readings.filter));
    let several = readings.records.len() > 1;
    for (number, record) in (1..).zip(&readings.records) {
        if several {
            line("record", &format!("{number} of {}", readings.records.len()));
        }
        show_record(record, line);
    }
}

fn show_record(record: &TracedRecord, line: &mut dyn FnMut(&str, &str)) {
    if let Some(device) = &record.device {
        line("device", device);
    }
    if let Some(group) = &record.group {
        line("group", group);
    }
    for (name, text) in &record.labels {
        line("label", &format!("{name} = {text}"));
    }
    if let Some(at) = record.at {
        let from = match record.source {
            TimeSource::Device => "from the device",
            TimeSource::Receive => "the time of receipt",
        };
        let why = if record.fallback.is_empty() { String::new() } else { format!(": {}", record.fallback) };
        line("time", &format!("{} ({}), {from}{why}", moment(at), at.as_millis()));
    }
    for (name, value) in &record.values {
        line("value", &format!("{name} = {value}"));
    }
    for (name, state) in &record.states {
        line("state", &format!("{name} = {state:?}"));
    }
    if record.left_out > 0 {
        line("left out", &format!("{} fields that could not be used", record.left_out));
    }
    if record.is_filtered {
        line("filtered", "by the stream's `filter`: passed over, and counted");
    }
    if record.is_future {
        line("future", "further ahead of our clock than `max_future`: set aside in lane `late`");
    }
    if let Some(reason) = record.rejected {
        line("rejected", &format!("{}: {}", reason.as_str(), reason.about()));
        if let Some(hint) = record.hint {
            line("hint", hint);
        }
    }
}

fn moment(at: EventTime) -> String {
    let moment = jiff::Timestamp::from_millisecond(at.as_millis());
    moment.map_or_else(|_| "beyond the calendar".to_owned(), |moment| moment.to_string())
}

/// The beginning of a payload: text as it is, other bytes in hexadecimal.
fn excerpt(payload: &[u8]) -> String {
    const SHOWN: usize = 120;
    let printable = |text: &&str| !text.contains(|character: char| character.is_control());
    let text = std::str::from_utf8(payload).ok().map(str::trim_end).filter(printable);
    let (text, more) = if let Some(text) = text {
        let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(end, _)| end);
        (text[..end].to_owned(), end < text.len())
    } else {
        let bytes = payload.iter().take(SHOWN / 3).map(|byte| format!("{byte:02x}"));
        (bytes.collect::<Vec<_>>().join(" "), payload.len() > SHOWN / 3)
    };
    let size = payload.len();
    format!("{text}{} ({size} byte{})", if more { " …" } else { "" }, if size == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{ClockQuality, Now, ProcTime, WallTime};

    const CONFIG: &str = "gateway.id = 'g'\n[[streams]]\nname = 's'\npreset = 'tasmota'\n";

    fn told(topic: &str, payload: &[u8]) -> String {
        let checked = check_for_replay(CONFIG, "t.toml").expect("valid");
        let wall = WallTime::from_millis(1_713_970_366_000);
        let now = Now { proc: ProcTime::from_millis(0), wall, quality: ClockQuality::Synced };
        let trace = Engine::new(checked.config).trace(now, topic, payload);
        shown(topic, payload, &trace)
    }

    #[test]
    fn a_reading_is_told_step_by_step() {
        let payload = br#"{"Time":"2024-03-11T07:15:00+01:00","DS18B20":{"Temperature":19.4}}"#;
        assert_eq!(
            told("tele/t1/SENSOR", payload),
            "tele/t1/SENSOR\n\
             \x20 payload   {\"Time\":\"2024-03-11T07:15:00+01:00\",\"DS18B20\":{\"Temperature\":19.4}} (67 bytes)\n\
             \x20 stream    s, by tele/+/SENSOR with device = \"t1\"\n\
             \x20 device    t1\n\
             \x20 time      2024-03-11T06:15:00Z (1710137700000), from the device\n\
             \x20 value     DS18B20.Temperature = 19.4\n\n"
        );
    }

    #[test]
    fn what_is_passed_over_and_what_is_calculated_is_shown() {
        let config = "gateway.id = 'g'\n[[streams]]\nname = 's'\ntopic = 'd/{device}'\ntime = { source = 'receive' }\n\
                      compute = { w = 'u * i' }\nfilter = 'w > 10'\n";
        let checked = check_for_replay(config, "t.toml").expect("valid");
        let wall = WallTime::from_millis(1_713_970_366_000);
        let now = Now { proc: ProcTime::from_millis(0), wall, quality: ClockQuality::Synced };
        let mut engine = Engine::new(checked.config);
        let mut told = |payload: &[u8]| shown("d/a", payload, &engine.trace(now, "d/a", payload));
        let text = told(br#"{"u":2,"i":3}"#);
        assert!(text.contains("value     w = 6") && text.contains("filtered  by the stream's"), "{text}");
        assert!(!told(br#"{"u":20,"i":3}"#).contains("filtered"));
        assert!(told(br#"{"u":20}"#).contains("rejected  expression"));
    }

    #[test]
    fn why_the_time_of_receipt_was_taken_is_told() {
        let told = |time: &str, payload: &[u8]| {
            let text = format!("gateway.id = 'g'\n[[streams]]\nname = 's'\ntopic = 'd/{{device}}'\ntime = {time}\n");
            let checked = check_for_replay(&text, "t.toml").expect("valid");
            let wall = WallTime::from_millis(1_713_970_366_000);
            let now = Now { proc: ProcTime::from_millis(0), wall, quality: ClockQuality::Synced };
            let trace = Engine::new(checked.config).trace(now, "d/a", payload);
            shown("d/a", payload, &trace)
        };
        let fallback = "missing = 'receive', bad = 'receive'";
        let ms = format!("{{ field = '/t', unit = 'ms', {fallback} }}");
        let berlin = format!("{{ field = '/t', format = 'iso', zone = 'Europe/Berlin', {fallback} }}");
        for (time, payload, why) in [
            (&ms, r#"{"v":1}"#, ", the time of receipt: the time field is absent, null or empty\n"),
            (&ms, r#"{"t":"soon","v":1}"#, ", the time of receipt: the time is not in the configured format\n"),
            (
                &ms,
                r#"{"t":1713970366,"v":1}"#,
                "before `min_time`: a clock that is not set, or another unit; looks like seconds",
            ),
            (&berlin, r#"{"t":"2024-03-31T02:30:00","v":1}"#, "a local time that the clocks of `zone` skip\n"),
            (&"{ source = 'receive' }".to_owned(), r#"{"v":1}"#, ", the time of receipt\n"),
        ] {
            let text = told(time, payload.as_bytes());
            assert!(text.contains(why), "{text}");
        }
    }

    #[test]
    fn a_topic_that_nobody_publishes_to_is_refused() {
        assert_eq!(topic("d/a"), Ok("d/a".to_owned()));
        for wrong in ["d/+", "d/#", ""] {
            assert!(topic(wrong).is_err_and(|error| error.contains("without wildcards")), "{wrong}");
        }
    }

    #[test]
    fn a_capture_may_be_hexadecimal() {
        assert_eq!(unhexed(b"7b0A 7d"), None);
        assert_eq!(unhexed(b"7b0A7d\r").as_deref(), Some(&b"{\n}"[..]));
        assert_eq!(unhexed(b"7"), None);
    }

    #[test]
    fn a_rejection_says_why_and_a_signal_whom_it_is_about() {
        let text = told("tele/t1/SENSOR", b"{\"Time\":nan}");
        assert!(text.contains("  rejected  not_json: "), "{text}");
        let text = told("tele/t1/LWT", b"Offline");
        assert!(text.contains("  says      device t1: offline (stream s)"), "{text}");
        assert!(told("x", b"\x01\x02").contains("01 02 (2 bytes)\n  nobody's"), "bytes in hexadecimal");
    }
}
