//! Curves over time as SVG: for people who want to see what a replay gave. PURE.
//!
//! One panel, a band from the lowest to the highest value and a line for the middle one,
//! with the days on the axis. A gap in the points is a gap in the drawing: what was not
//! measured is not drawn as if it had been.

use core::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::time::{EventTime, Span};

/// One place of a curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// When.
    pub at: EventTime,
    /// The lowest value of then.
    pub low: f64,
    /// The value of the line.
    pub middle: f64,
    /// The highest value.
    pub high: f64,
}

/// What is drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// Above it.
    pub title: String,
    /// Of the values, beside the axis.
    pub unit: String,
    /// Ordered by time.
    pub points: Vec<Point>,
    /// Points further apart than this are not connected.
    pub gap: Span,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 32.0;
/// Lines across, and dates below, at most.
const STEPS: f64 = 8.0;
const DAY_MS: f64 = 86_400_000.0;

/// From values to places on the page.
struct Scale {
    from: f64,
    to: f64,
    lowest: f64,
    highest: f64,
}

impl Plot {
    /// The drawing. The same bytes for the same points. Without points it is an empty frame.
    pub fn to_svg(&self) -> String {
        let scale = self.scale();
        let mut out = String::new();
        let mut draw = |text: core::fmt::Arguments<'_>| out.write_fmt(text).expect("memory does not fail");
        draw(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        ));
        draw(format_args!("<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n", escaped(&self.title)));
        draw(format_args!("<text x=\"8\" y=\"{}\">{}</text>\n", TOP - 4.0, escaped(&self.unit)));
        for value in ticks(scale.lowest, scale.highest, 1.0) {
            let y = scale.y(value);
            draw(format_args!(
                "<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{value}</text>\n",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0
            ));
        }
        for at in ticks(scale.from / DAY_MS, scale.to / DAY_MS, 1.0).map(|days| days * DAY_MS) {
            draw(format_args!(
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                scale.x(at),
                HEIGHT - 10.0,
                date(at)
            ));
        }
        for part in self.points.chunk_by(|left, right| left.at.lag_behind(right.at) <= self.gap) {
            let place = |point: &Point, value: f64| (scale.x(millis(point.at)), scale.y(value));
            let upper = part.iter().map(|point| place(point, point.high));
            let lower = part.iter().rev().map(|point| place(point, point.low));
            draw(format_args!("<path d=\"{}Z\" fill=\"#9ecae9\"/>\n", path(upper.chain(lower))));
            let middle = part.iter().map(|point| place(point, point.middle));
            draw(format_args!("<path d=\"{}\" fill=\"none\" stroke=\"#1f5f8b\"/>\n", path(middle)));
        }
        out.push_str("</svg>\n");
        out
    }

    fn scale(&self) -> Scale {
        let time = |point: Option<&Point>| point.map_or(0.0, |point| millis(point.at));
        let from = time(self.points.first());
        let to = time(self.points.last()).max(from + 1.0);
        let lowest = self.points.iter().map(|point| point.low).fold(f64::MAX, f64::min);
        let highest = self.points.iter().map(|point| point.high).fold(f64::MIN, f64::max);
        let (lowest, highest) = if lowest <= highest { (lowest, highest) } else { (0.0, 0.0) };
        Scale { from, to, lowest, highest: highest.max(lowest + 1e-9) }
    }
}

impl Scale {
    fn x(&self, millis: f64) -> f64 {
        LEFT + (millis - self.from) / (self.to - self.from) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.lowest) / (self.highest - self.lowest) * (HEIGHT - TOP - BOTTOM)
    }
}

/// Round numbers in the range: 1, 2 or 5 times a power of ten apart, and not below `least`.
fn ticks(from: f64, to: f64, least: f64) -> impl Iterator<Item = f64> {
    let rough = ((to - from) / STEPS).max(least);
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(power * 10.0);
    let first = (from / step).ceil() * step;
    (0_u8..=16).map(move |number| first + f64::from(number) * step).take_while(move |tick| *tick <= to)
}

fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut out = String::new();
    for (number, (x, y)) in places.enumerate() {
        let how = if number == 0 { 'M' } else { 'L' };
        write!(out, "{how}{x:.1} {y:.1}").expect("memory does not fail");
    }
    out
}

fn millis(at: EventTime) -> f64 {
    at.as_millis() as f64
}

#[expect(clippy::cast_possible_truncation, reason = "whole milliseconds that came from 64 bits")]
fn date(millis: f64) -> String {
    let at = Timestamp::from_millisecond(millis as i64).ok();
    at.map_or(String::new(), |at| at.to_zoned(TimeZone::UTC).date().to_string())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_connected_unless_something_is_missing_between_them() {
        let point = |hour: i64, middle: f64| Point {
            at: EventTime::from_millis(1_700_000_000_000 + hour * 3_600_000),
            low: middle - 1.0,
            middle,
            high: middle + 1.0,
        };
        let points = vec![point(0, 10.0), point(1, 12.0), point(2, 11.0), point(60, 5.0), point(61, 6.0)];
        let plot = Plot { title: "a < b".into(), unit: "°C".into(), points, gap: Span::from_secs(3_600) };
        let svg = plot.to_svg();
        assert_eq!(svg.matches("stroke=\"#1f5f8b\"").count(), 2, "two pieces");
        assert!(svg.contains("a &lt; b") && svg.contains("2023-11-15"), "{svg}");
        assert!(svg.contains("d=\"M56.0 "), "from the left edge");
        assert!(Plot { points: Vec::new(), ..plot }.to_svg().ends_with("</svg>\n"));
    }
}
