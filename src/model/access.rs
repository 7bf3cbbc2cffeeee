//! Topic filters of access rules, and the two questions asked of them: is this topic meant,
//! and is all of what a subscription may get.
//!
//! A filter is one of MQTT in which `{client_id}` or `{username}` may fill a level:
//!
//! ```text
//! devices/{username}/#      the client's own topics, and what is below
//! +/state                   one level
//! #                         everything, but for topics that begin with `$`
//! ```
//!
//! A name that holds `/`, `+` or `#`, or that begins with `$`, fills no level: with it a
//! client could make itself a wider filter than the one that was written.

use core::fmt;

/// Bytes of one filter in a rule.
pub const FILTER_BYTES_MAX: usize = 1_024;
const CLIENT_ID: &str = "{client_id}";
const USERNAME: &str = "{username}";

/// A checked filter of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFilter {
    levels: Vec<Level>,
    /// Ends with `#`.
    rest: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Level {
    Literal(String),
    Any,
    ClientId,
    Username,
}

/// Who asks: what `{client_id}` and `{username}` stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'n> {
    /// The client's id.
    pub client_id: &'n str,
    /// Its user name, if it has one.
    pub username: Option<&'n str>,
}

/// What is wrong with a filter; one sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for FilterError {}

/// What one level of a filter asks for, once names are filled in.
enum Wanted<'f> {
    Text(&'f str),
    Any,
    /// The client's name fills no level.
    Unfilled,
}

impl AccessFilter {
    /// Parses a filter.
    ///
    /// # Errors
    /// Says which level is wrong and why.
    pub fn parse(text: &str) -> Result<AccessFilter, FilterError> {
        let refuse = |message: String, hint: Option<String>| Err(FilterError { message, hint });
        if text.is_empty() || text.len() > FILTER_BYTES_MAX || text.chars().any(char::is_control) {
            let message = format!("must be a topic filter: 1 to {FILTER_BYTES_MAX} bytes without control characters");
            return refuse(message, None);
        }
        if let Some(inner) = text.strip_prefix("$share/").and_then(|rest| rest.split_once('/')) {
            let message = "must be a filter without `$share`: for shared subscriptions the filter in it counts";
            return refuse(message.to_owned(), Some(format!("\"{}\"", inner.1)));
        }
        let mut filter = AccessFilter { levels: Vec::new(), rest: false };
        for level in text.split('/') {
            if filter.rest {
                return refuse("has levels behind `#`, which stands for all the levels below".to_owned(), None);
            }
            match level {
                "#" => filter.rest = true,
                "+" => filter.levels.push(Level::Any),
                CLIENT_ID => filter.levels.push(Level::ClientId),
                USERNAME => filter.levels.push(Level::Username),
                _ if level.contains(['{', '}']) => {
                    let message = format!("level \"{level}\": `{CLIENT_ID}` or `{USERNAME}` fills a whole level");
                    return refuse(message, None);
                }
                _ if level.contains(['+', '#']) => {
                    return refuse(format!("level \"{level}\": a wildcard fills a whole level"), None);
                }
                literal => filter.levels.push(Level::Literal(literal.to_owned())),
            }
        }
        Ok(filter)
    }

    /// Whether it is about topics that begin with `$`.
    pub fn is_internal(&self) -> bool {
        matches!(self.levels.first(), Some(Level::Literal(text)) if text.starts_with('$'))
    }

    /// Whether a client of these names means this topic by it.
    pub fn matches(&self, names: Names<'_>, topic: &str) -> bool {
        self.fits(names, topic.split('/').map(Some), false)
    }

    /// The same for a refusal: where a name fills no level, any text does.
    pub fn refuses(&self, names: Names<'_>, topic: &str) -> bool {
        self.fits(names, topic.split('/').map(Some), true)
    }

    /// `levels`: `None` is a text that stands in no filter, so that wildcards alone match it.
    fn fits<'t>(
        &self,
        names: Names<'_>,
        mut levels: impl Iterator<Item = Option<&'t str>>,
        unfilled_fits: bool,
    ) -> bool {
        let internal = |level: Option<&str>| level.is_some_and(|text| text.starts_with('$'));
        for (index, own) in self.levels.iter().enumerate() {
            let Some(level) = levels.next() else { return false };
            let fits = match own.wanted(names) {
                Wanted::Text(text) => level == Some(text),
                Wanted::Any => index > 0 || !internal(level),
                Wanted::Unfilled => unfilled_fits && (index > 0 || !internal(level)),
            };
            if !fits {
                return false;
            }
        }
        match levels.next() {
            None => true,
            Some(level) => self.rest && !(self.levels.is_empty() && internal(level)),
        }
    }
}

impl Level {
    fn wanted<'f>(&'f self, names: Names<'f>) -> Wanted<'f> {
        let filled = |name: &'f str| {
            let plain = !name.is_empty() && !name.starts_with('$') && !name.contains(['/', '+', '#']);
            if plain { Wanted::Text(name) } else { Wanted::Unfilled }
        };
        match self {
            Level::Literal(text) => Wanted::Text(text),
            Level::Any => Wanted::Any,
            Level::ClientId => filled(names.client_id),
            Level::Username => names.username.map_or(Wanted::Unfilled, filled),
        }
    }
}

/// What a client subscribes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribed<'f> {
    /// `None`: `+`.
    levels: Vec<Option<&'f str>>,
    /// Ends with `#`.
    rest: bool,
}

impl<'f> Subscribed<'f> {
    /// Reads a filter as a client sends it; of a shared subscription the filter in it counts.
    /// `None`: it is no filter.
    pub fn parse(filter: &'f str) -> Option<Subscribed<'f>> {
        let filter = match filter.strip_prefix("$share/") {
            None => filter,
            Some(shared) => {
                let (group, inner) = shared.split_once('/')?;
                (!group.is_empty() && !group.contains(['+', '#'])).then_some(inner)?
            }
        };
        if filter.is_empty() {
            return None;
        }
        let mut parsed = Subscribed { levels: Vec::new(), rest: false };
        for level in filter.split('/') {
            match level {
                _ if parsed.rest => return None,
                "#" => parsed.rest = true,
                "+" => parsed.levels.push(None),
                text if text.contains(['+', '#']) => return None,
                text => parsed.levels.push(Some(text)),
            }
        }
        Some(parsed)
    }

    /// Whether every topic that it matches is meant by one of `filters`, each perhaps by another.
    ///
    /// Exact: of all topics of one length, the one that has a text of its own for each wildcard is
    /// matched by a filter only if all of them are; and beyond the longest filter length
    /// does not matter.
    pub fn is_within(&self, filters: &[AccessFilter], names: Names<'_>) -> bool {
        self.is_covered(filters, names, false)
    }

    /// The same for refusals: whether every topic that it matches is [refused] by one of `filters`.
    ///
    /// [refused]: AccessFilter::refuses
    pub fn is_refused(&self, filters: &[AccessFilter], names: Names<'_>) -> bool {
        self.is_covered(filters, names, true)
    }

    fn is_covered(&self, filters: &[AccessFilter], names: Names<'_>, unfilled_fits: bool) -> bool {
        let longest = filters.iter().map(|filter| filter.levels.len()).max().unwrap_or(0);
        let more = if self.rest { (longest + 1).saturating_sub(self.levels.len()) } else { 0 };
        // There is no topic without a level.
        let least = usize::from(self.levels.is_empty());
        (least..=more.max(least)).all(|more| {
            let topic = || self.levels.iter().copied().chain(core::iter::repeat_n(None, more));
            filters.iter().any(|filter| filter.fits(names, topic(), unfilled_fits))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNA: Names<'static> = Names { client_id: "c1", username: Some("anna") };

    fn filters(texts: &[&str]) -> Vec<AccessFilter> {
        texts.iter().map(|text| AccessFilter::parse(text).expect(text)).collect()
    }

    fn is_within(wanted: &str, texts: &[&str]) -> bool {
        Subscribed::parse(wanted).expect(wanted).is_within(&filters(texts), ANNA)
    }

    #[test]
    fn a_topic_is_matched_as_mqtt_says() {
        for (filter, topic, matched) in [
            ("a/b", "a/b", true),
            ("a/b", "a/b/", false),
            ("a/+", "a/", true),
            ("a/+", "a", false),
            ("a/#", "a", true),
            ("a/#", "a/b/c", true),
            ("+/+", "/", true),
            ("#", "a", true),
            ("#", "$SYS/uptime", false),
            ("+/uptime", "$SYS/uptime", false),
            ("$SYS/#", "$SYS/uptime", true),
            ("devices/{client_id}/x", "devices/c1/x", true),
            ("devices/{username}/#", "devices/anna", true),
            ("devices/{username}/#", "devices/c1", false),
        ] {
            assert_eq!(filters(&[filter])[0].matches(ANNA, topic), matched, "{filter} {topic}");
        }
    }

    #[test]
    fn a_subscription_is_allowed_when_all_that_it_can_get_is() {
        for (wanted, allowed, within) in [
            ("a/b", &["a/b"][..], true),
            ("a/b", &["a/+"], true),
            ("a/+", &["a/b"], false),
            ("a/+", &["a/+"], true),
            ("a/+", &["a/#"], true),
            ("a/#", &["a/+"], false),
            ("a/#", &["a/#"], true),
            ("a/b/#", &["a/#"], true),
            // `a/#` has `a` itself, which `a/+/#` has not.
            ("a/#", &["a/+/#"], false),
            ("a/#", &["a/+/#", "a"], true),
            ("a/+/#", &["a/#"], true),
            ("a/#", &["a", "a/+", "a/+/+/#"], true),
            ("a/#", &["a", "a/+/+/#"], false),
            ("+/b", &["a/b"], false),
            ("+/b", &["+/+"], true),
            ("#", &["#"], true),
            ("#", &["+/#"], true),
            ("#", &["+", "+/+/#"], true),
            ("#", &["a/#"], false),
            ("+", &["#"], true),
            ("/a", &["+/a"], true),
            ("+/a", &["/a"], false),
            ("$SYS/#", &["#"], false),
            ("$SYS/#", &["+/#"], false),
            ("$SYS/#", &["$SYS/#"], true),
            ("$SYS/uptime", &["$SYS/+"], true),
            ("$share/g/a/b", &["a/+"], true),
            ("$share/g/#", &["a/#"], false),
            ("devices/c1/#", &["devices/{client_id}/#"], true),
            ("devices/c2/#", &["devices/{client_id}/#"], false),
            ("devices/+/#", &["devices/{client_id}/#"], false),
            ("a", &[], false),
            ("#", &[], false),
        ] {
            assert_eq!(is_within(wanted, allowed), within, "{wanted} within {allowed:?}");
        }
    }

    #[test]
    fn a_subscription_is_refused_when_all_that_it_can_get_is() {
        for (wanted, refused, all) in [
            ("secret", &["secret/#"][..], true),
            ("secret/+", &["secret/#"], true),
            ("secret/#", &["secret/#"], true),
            ("secret/#", &["secret/+"], false),
            ("secret/#", &["secret", "secret/+/#"], true),
            ("#", &["secret/#"], false),
            ("+", &["secret"], false),
            ("$share/g/secret/x", &["secret/+"], true),
            ("$SYS/uptime", &["#"], false),
            ("devices/c1", &["devices/{client_id}"], true),
            ("devices/+", &["devices/{client_id}"], false),
            ("#", &[], false),
        ] {
            let subscribed = Subscribed::parse(wanted).expect(wanted);
            assert_eq!(subscribed.is_refused(&filters(refused), ANNA), all, "{wanted} and {refused:?}");
        }
    }

    /// Both questions against all topics of a small world.
    #[test]
    fn within_and_refused_agree_with_a_look_at_every_topic() {
        // `x` is what wildcards of the wanted filter get and no filter names.
        let parts = ["a", "b", "+", "$a"];
        let words = ["a", "b", "x", "$a"];
        let lists = |words: &[&str]| {
            let mut lists: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            for length in 0..2 {
                let longer: Vec<String> = lists
                    .iter()
                    .filter(|list| list.split('/').count() == length + 1)
                    .flat_map(|list| words.iter().map(move |word| format!("{list}/{word}")))
                    .collect();
                lists.extend(longer);
            }
            lists
        };
        let topics = lists(&words);
        let mut texts = lists(&parts[..3]);
        texts.retain(|text| text.split('/').count() < 3);
        texts.extend(texts.clone().iter().map(|text| format!("{text}/#")));
        texts.extend(["#", "$a/#", "$a", "$a/+"].map(str::to_owned));
        texts.extend(["{username}", "{username}/a", "a/{username}/#"].map(str::to_owned));
        let nameless = Names { client_id: "c1", username: None };
        let mut count = [0, 0];
        for one in &texts {
            let asked = filters(&[one]);
            for wanted in texts.iter().filter(|wanted| !wanted.contains('{')) {
                let subscribed = Subscribed::parse(wanted).expect("a filter");
                let as_filter = &filters(&[wanted])[0];
                let got: Vec<&String> = topics.iter().filter(|topic| as_filter.matches(nameless, topic)).collect();
                let allowed = got.iter().all(|topic| asked[0].matches(nameless, topic));
                let refused = got.iter().all(|topic| asked[0].refuses(nameless, topic));
                assert_eq!(subscribed.is_within(&asked, nameless), allowed, "{wanted} within {one}");
                assert_eq!(subscribed.is_refused(&asked, nameless), refused, "{wanted} and {one}");
                count[0] += usize::from(allowed);
                count[1] += usize::from(refused);
            }
        }
        assert!(count[0] > 100 && count[1] > count[0], "{count:?}");
    }

    #[test]
    fn a_name_with_a_wildcard_or_a_separator_fills_no_level() {
        let own = &filters(&["devices/{client_id}/#"])[0];
        let first = &filters(&["{client_id}/#"])[0];
        for client_id in ["+", "#", "a/b", "a+", "", "$SYS"] {
            let names = Names { client_id, username: None };
            for topic in
                ["devices/a/x", "devices/+/x", "devices//x", "devices/a/b/x", &format!("devices/{client_id}/x")]
            {
                assert!(!own.matches(names, topic), "{client_id} {topic}");
            }
            for wanted in ["#", "$SYS/#", "+/x", "devices/#", "devices/+/#", "devices/a/b/#"] {
                let wanted = Subscribed::parse(wanted).expect("a filter");
                for filter in [own, first] {
                    assert!(!wanted.is_within(std::slice::from_ref(filter), names), "{client_id} {wanted:?}");
                }
            }
            // A refusal is no narrower for it.
            assert!(own.refuses(names, "devices/a/x"), "{client_id}");
            let wanted = Subscribed::parse("devices/+/x").expect("a filter");
            assert!(wanted.is_refused(std::slice::from_ref(own), names), "{client_id}");
        }
        let nameless = Names { client_id: "c1", username: None };
        assert!(!filters(&["{username}/#"])[0].matches(nameless, "anna/x"));
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for (text, part) in [
            ("", "1 to 1024"),
            ("a\0b", "control"),
            ("a/#/b", "behind `#`"),
            ("a+/b", "a wildcard fills a whole level"),
            ("a/b#", "a wildcard fills a whole level"),
            ("a/{client_id}x", "fills a whole level"),
            ("a/{device}", "fills a whole level"),
            ("$share/g/a/#", "the filter in it counts"),
        ] {
            let error = AccessFilter::parse(text).expect_err(text);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        for text in ["", "a/#/b", "a+", "#/a", "$share/g", "$share/g/", "$share//a", "$share/+/a", "##"] {
            assert_eq!(Subscribed::parse(text), None, "{text}");
        }
    }
}
