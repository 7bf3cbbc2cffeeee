//! What a topic, a filter and a client id must look like.
//!
//! Checked here, once, for everything that comes in: behind the gate a topic is a topic.

use super::fault::Fault;

/// Bytes of a client id. Longer ones are refused: sessions are kept under it.
pub(super) const CLIENT_ID_BYTES_MAX: usize = 128;
/// What a shared subscription begins with.
const SHARE: &str = "$share/";

/// A topic to publish to: not empty, no wildcards. (Texts with NUL come no further than
/// [`super::frame::Body::text`].)
pub(super) fn topic(text: &str) -> Result<(), Fault> {
    if text.is_empty() {
        return Err(Fault::TopicName("it is empty"));
    }
    if text.bytes().any(|byte| byte == b'+' || byte == b'#') {
        return Err(Fault::TopicName("it has a wildcard"));
    }
    Ok(())
}

/// A filter to subscribe to. True: it is a shared one.
pub(super) fn filter(text: &str) -> Result<bool, Fault> {
    let Some(shared) = text.strip_prefix(SHARE) else { return levels(text).map(|()| false) };
    let (group, filter) = shared.split_once('/').ok_or(Fault::TopicFilter("a shared subscription without a filter"))?;
    if group.is_empty() || group.contains(['+', '#']) {
        return Err(Fault::TopicFilter("a shared subscription without a group, or with a wildcard in it"));
    }
    levels(filter).map(|()| true)
}

fn levels(filter: &str) -> Result<(), Fault> {
    if filter.is_empty() {
        return Err(Fault::TopicFilter("it is empty"));
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        match level {
            "+" => {}
            "#" if levels.peek().is_none() => {}
            "#" => return Err(Fault::TopicFilter("# is not its last level")),
            _ if level.contains(['+', '#']) => return Err(Fault::TopicFilter("a wildcard is a whole level")),
            _ => {}
        }
    }
    Ok(())
}

/// A client id; empty: one is assigned. `keeps_session`: MQTT 3.1.1 without a clean session,
/// where there is nothing that a session could be kept under.
pub(super) fn client_id(text: &str, keeps_session: bool) -> Result<(), Fault> {
    if text.is_empty() && keeps_session {
        return Err(Fault::ClientId("it is empty, and the session is to be kept"));
    }
    if text.len() > CLIENT_ID_BYTES_MAX {
        return Err(Fault::ClientId("it is longer than 128 bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(Fault::ClientId("it has a control character"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_alone_and_a_hash_stands_last() {
        for good in ["#", "+", "a", "/", "a/+/b", "+/+", "a/#", "/#", "$SYS/#", "$share", "a b/ä"] {
            assert_eq!(filter(good), Ok(false), "{good}");
        }
        for bad in ["", "a+", "+a", "a/b#", "#/a", "a/#/b", "##", "a/++/b"] {
            assert_eq!(filter(bad).unwrap_err().code(), 0x8f, "{bad}");
        }
    }

    #[test]
    fn a_shared_subscription_has_a_group_and_a_filter() {
        for good in ["$share/g/a", "$share/g/#", "$share/g//", "$share/g/+/b"] {
            assert_eq!(filter(good), Ok(true), "{good}");
        }
        for bad in ["$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/g#/a", "$share/g/a+"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_topic_has_no_wildcards_and_is_not_empty() {
        for good in ["a", "/", "a//b", "$SYS/x", "ä"] {
            assert_eq!(topic(good), Ok(()));
        }
        for bad in ["", "#", "a/+", "a/b+c"] {
            assert_eq!(topic(bad).unwrap_err().code(), 0x90, "{bad}");
        }
    }

    #[test]
    fn a_client_id_is_short_and_printable_and_may_be_empty_where_nothing_is_kept() {
        assert_eq!(client_id("", false), Ok(()));
        assert_eq!(client_id(&"x".repeat(128), true), Ok(()));
        assert!(client_id("", true).is_err());
        assert!(client_id(&"x".repeat(129), false).is_err());
        for bad in ["a\u{7}", "\u{85}"] {
            assert!(client_id(bad, false).is_err());
        }
    }
}
