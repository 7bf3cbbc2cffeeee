//! Whether a stream hears all that its edge nodes send.
//!
//! Sequence numbers go over an edge node and all its devices. A stream that takes only a part
//! of that, by its topics, by what it ignores, or because streams before it take the rest,
//! would see a gap at every message and ask for births without end. There the sequence is not
//! followed; a birth that was missed goes unnoticed until the next one.

use crate::engine::spec::StreamSpec;
use crate::model::topic::TopicPattern;

/// A level that is in no configuration.
const ANY: &str = "\u{1}";

/// True when all messages of every edge node of which `stream` hears any come to it.
/// `earlier`: the streams that have the first choice.
pub fn hears_all(stream: &StreamSpec, earlier: &[StreamSpec]) -> bool {
    // What is denied is not read at all.
    let denies_none = stream.rules.allow.is_none() && stream.rules.deny.0.is_empty();
    let ignores_none = denies_none && stream.ignore.iter().all(has_no_number);
    let taken = |topic: &str| earlier.iter().flat_map(|other| &other.topics).any(|other| fits(&other.pattern, topic));
    let heard = |topic: &str| stream.topics.iter().any(|own| fits(&own.pattern, topic));
    let sources = stream.topics.iter().filter_map(|topic| source(&topic.pattern));
    ignores_none
        && sources.into_iter().all(|(group, edge)| {
            ["NBIRTH", "NDATA", "NDEATH", "DBIRTH", "DDATA", "DDEATH"].iter().all(|kind| {
                let device = if kind.starts_with('D') { "/\u{1}" } else { "" };
                let topic = format!("spBv1.0/{group}/{kind}/{edge}{device}");
                heard(&topic) && !taken(&topic)
            })
        })
}

fn fits(pattern: &TopicPattern, topic: &str) -> bool {
    pattern.match_topic(topic).is_some()
}

/// Commands and the states of hosts are in no sequence.
fn has_no_number(ignored: &TopicPattern) -> bool {
    let mut levels = ignored.filter().split('/').skip(1);
    levels.next() == Some("STATE") || matches!(levels.next(), Some("NCMD" | "DCMD"))
}

/// Group and edge node whose messages the pattern takes; nothing for other topics.
fn source(pattern: &TopicPattern) -> Option<(&str, &str)> {
    let mut levels = pattern.filter().split('/');
    let mut level = || match levels.next() {
        None | Some("+" | "#") => ANY,
        Some(literal) => literal,
    };
    let (version, group, _, edge) = (level(), level(), level(), level());
    (matches!(version, ANY | "spBv1.0") && group != "STATE").then_some((group, edge))
}

#[cfg(test)]
mod tests {
    use crate::engine::spec::TopicSpec;
    use crate::model::ids::Name;
    use crate::model::template::Template;

    use super::*;

    fn stream(topics: &[&str], ignore: &[&str]) -> StreamSpec {
        let pattern = |topic: &&str| TopicPattern::parse(topic).unwrap();
        let device = |topic: &TopicPattern| Template::parse("x", topic).unwrap();
        let mut stream = StreamSpec::new(Name::new("s").unwrap(), pattern(&topics[0]), device(&pattern(&topics[0])));
        stream.topics = topics.iter().map(pattern).map(|topic| TopicSpec::new(topic.clone(), device(&topic))).collect();
        stream.ignore = ignore.iter().map(pattern).collect();
        stream
    }

    #[test]
    fn all_messages_of_an_edge_node_or_a_part_of_them() {
        for (topics, ignore, expected) in [
            (&["spBv1.0/{g}/+/{d...}"][..], &[][..], true),
            (&["spBv1.0/{all...}"], &[], true),
            (&["{all...}"], &[], true),
            (&["spBv1.0/G/+/e", "spBv1.0/G/+/e/{d}"], &[], true),
            (&["spBv1.0/{g}/+/{e}", "spBv1.0/{g}/+/{e}/{d}", "STATE/{host}"], &[], true),
            (&["spBv1.0/{g}/+/{e}", "spBv1.0/{g}/+/{e}/{d}"], &["spBv1.0/+/NCMD/+", "spBv1.0/STATE/+"], true),
            (&["spBv1.0/{g}/+/{e}"], &[], false),
            (&["spBv1.0/{g}/DDATA/{e}/{d}", "spBv1.0/{g}/DBIRTH/{e}/{d}"], &[], false),
            (&["spBv1.0/{g}/+/{e}", "spBv1.0/{g}/+/e/{d}"], &[], false),
            (&["spBv1.0/{g}/+/{d...}"], &["spBv1.0/+/+/+/noisy"], false),
        ] {
            assert_eq!(hears_all(&stream(topics, ignore), &[]), expected, "{topics:?} {ignore:?}");
        }
    }

    #[test]
    fn what_a_stream_before_it_takes_is_not_heard() {
        let all = stream(&["spBv1.0/{g}/+/{d...}"], &[]);
        assert!(!hears_all(&all, &[stream(&["spBv1.0/{g}/+/{e}/{d}"], &[])]));
        assert!(hears_all(&all, &[stream(&["devices/{d}"], &[])]));
        assert!(hears_all(&all, &[stream(&["spBv1.0/G/+/{d...}"], &[])]), "whole edge nodes");
    }
}
