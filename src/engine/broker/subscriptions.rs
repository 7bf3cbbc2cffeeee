//! Who subscribes to what: a tree with a level of topic per step, so that a message costs
//! its own levels, however many sessions there are.
//!
//! ```text
//! a/+/c ─▶ root ─ "a" ─ + ─ "c": here        a/# ─▶ root ─ "a": below (and "a" itself)
//! ```
//!
//! Nothing is allocated for a message that nobody wants. What the levels of all filters take is
//! counted ([`Tree::bytes`]): a filter of a kilobyte can have so many of them that it takes
//! fifty.

use std::collections::BTreeMap;

use super::packet::Qos;
use super::session::SessionNo;
use super::shared::Group;

/// Levels of a filter. Beyond: refused; every level is a node, and a step of recursion.
pub(super) const LEVELS_MAX: usize = 128;

/// Bytes of a filter. Beyond: refused.
pub(super) const FILTER_BYTES_MAX: usize = 1_024;

/// Bytes that a level is counted with, where no other filter has it: its node, and the first
/// block of the map that it stands in.
const LEVEL_BYTES: usize = 448;

/// Bytes that a subscription is counted with, beside its filter and its levels: its places in
/// the session and in the tree.
const SUBSCRIPTION_BYTES: usize = 256;
/// Bytes more of a shared one: its group, which may have no other member.
const GROUP_BYTES: usize = 512;

/// What a subscription asks for, the filter aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Options {
    pub(super) qos: Qos,
    pub(super) no_local: bool,
    pub(super) retain_as_published: bool,
    /// Subscription identifier.
    pub(super) id: Option<u32>,
}

/// A session and what it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Subscriber {
    pub(super) session: SessionNo,
    pub(super) options: Options,
}

/// Chooses one of a group's members, beginning with the one at the given place.
pub(super) type Choose<'a> = &'a mut dyn FnMut(&[Subscriber], usize) -> Option<usize>;

/// Those that a message goes to.
#[derive(Default, Debug)]
pub(super) struct Found {
    /// Of ordinary subscriptions; a session may stand here more than once.
    pub(super) plain: Vec<Subscriber>,
    /// One of each group.
    pub(super) shared: Vec<Subscriber>,
}

/// All subscriptions.
#[derive(Default, Debug)]
pub(super) struct Tree {
    root: Node,
    levels: usize,
}

#[derive(Default, Debug)]
struct Node {
    /// Boxed: most nodes have one below them, and a map has room for eleven.
    exact: BTreeMap<Box<str>, Box<Node>>,
    any: Option<Box<Node>>,
    /// Filters that end here.
    here: Ends,
    /// Filters that end in `#` below here.
    below: Ends,
}

#[derive(Default, Debug)]
struct Ends {
    plain: Vec<Subscriber>,
    groups: BTreeMap<Box<str>, Group>,
}

/// The group of a shared subscription, and the filter proper.
pub(super) fn split_shared(filter: &str) -> (Option<&str>, &str) {
    match filter.strip_prefix("$share/").and_then(|rest| rest.split_once('/')) {
        Some((group, filter)) => (Some(group), filter),
        None => (None, filter),
    }
}

/// True for filters that are not too long and too deep to be kept.
pub(super) fn fits(filter: &str) -> bool {
    filter.len() <= FILTER_BYTES_MAX && filter.split('/').count() <= LEVELS_MAX
}

/// Bytes that a subscription is counted with, its levels aside: the filter stands in the
/// session and in the tree.
pub(super) fn bytes_of(filter: &str) -> usize {
    let group = if split_shared(filter).0.is_some() { GROUP_BYTES } else { 0 };
    SUBSCRIPTION_BYTES + group + 2 * filter.len()
}

/// True when `topic` is what `filter` asks for.
pub(super) fn matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = topic.split('/');
    for wanted in filter.split('/') {
        if wanted == "#" {
            return true;
        }
        match levels.next() {
            Some(level) if wanted == "+" || wanted == level => {}
            Some(_) | None => return false,
        }
        // `a/#` is for `a`, too.
        if levels.clone().next().is_none() && filter.strip_suffix("/#").is_some_and(|parent| matches(parent, topic)) {
            return true;
        }
    }
    levels.next().is_none()
}

impl Tree {
    /// Bytes of the levels of all filters.
    pub(super) fn bytes(&self) -> usize {
        self.levels * LEVEL_BYTES
    }

    /// Bytes that the levels of `filter` take at most.
    pub(super) fn bytes_of(filter: &str) -> usize {
        filter.split('/').count() * LEVEL_BYTES
    }

    /// Adds or replaces. The filter [`fits`].
    pub(super) fn insert(&mut self, filter: &str, subscriber: Subscriber) {
        let (group, filter) = split_shared(filter);
        let mut node = &mut self.root;
        for level in filter.split('/') {
            match level {
                "#" => return node.below.insert(group, subscriber),
                "+" => {
                    self.levels += usize::from(node.any.is_none());
                    node = node.any.get_or_insert_default();
                }
                exact => {
                    if !node.exact.contains_key(exact) {
                        self.levels += 1;
                        node.exact.insert(exact.into(), Box::default());
                    }
                    node = node.exact.get_mut(exact).expect("it is there, or was put there");
                }
            }
        }
        node.here.insert(group, subscriber);
    }

    /// Forgets a subscription, and the nodes that it alone needed.
    pub(super) fn remove(&mut self, filter: &str, session: SessionNo) {
        let (group, filter) = split_shared(filter);
        self.levels -= self.root.remove(filter, group, session);
    }

    /// Adds all that want `topic`.
    pub(super) fn find(&mut self, topic: &str, found: &mut Found, choose: Choose<'_>) {
        self.root.find(Some(topic), !topic.starts_with('$'), found, choose);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.root.is_empty() && self.levels == 0
    }
}

impl Node {
    /// `rest`: the levels that are left of the topic. `wild`: wildcards count at this level.
    fn find(&mut self, rest: Option<&str>, wild: bool, found: &mut Found, choose: Choose<'_>) {
        if wild {
            self.below.collect(found, choose);
        }
        let Some(rest) = rest else { return self.here.collect(found, choose) };
        let (level, rest) = match rest.split_once('/') {
            Some((level, rest)) => (level, Some(rest)),
            None => (rest, None),
        };
        if let Some(node) = self.exact.get_mut(level) {
            node.find(rest, true, found, choose);
        }
        if wild && let Some(node) = &mut self.any {
            node.find(rest, true, found, choose);
        }
    }

    /// Returns how many nodes are gone.
    fn remove(&mut self, filter: &str, group: Option<&str>, session: SessionNo) -> usize {
        if filter == "#" {
            self.below.remove(group, session);
            return 0;
        }
        let (level, rest) = match filter.split_once('/') {
            Some((level, rest)) => (level, Some(rest)),
            None => (filter, None),
        };
        let next = if level == "+" { self.any.as_mut() } else { self.exact.get_mut(level) };
        let Some(next) = next else { return 0 };
        let mut gone = 0;
        match rest {
            Some(rest) => gone += next.remove(rest, group, session),
            None => next.here.remove(group, session),
        }
        if next.is_empty() {
            gone += 1;
            if level == "+" {
                self.any = None;
            } else {
                self.exact.remove(level);
            }
        }
        gone
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.any.is_none() && self.here.is_empty() && self.below.is_empty()
    }
}

impl Ends {
    fn insert(&mut self, group: Option<&str>, subscriber: Subscriber) {
        let Some(name) = group else { return put(&mut self.plain, subscriber) };
        match self.groups.get_mut(name) {
            Some(group) => put(&mut group.members, subscriber),
            None => put(&mut self.groups.entry(name.into()).or_default().members, subscriber),
        }
    }

    fn remove(&mut self, group: Option<&str>, session: SessionNo) {
        let Some(name) = group else { return self.plain.retain(|known| known.session != session) };
        if let Some(group) = self.groups.get_mut(name) {
            group.members.retain(|known| known.session != session);
            if group.members.is_empty() {
                self.groups.remove(name);
            }
        }
    }

    fn collect(&mut self, found: &mut Found, choose: Choose<'_>) {
        found.plain.extend_from_slice(&self.plain);
        found.shared.extend(self.groups.values_mut().filter_map(|group| group.next(choose)));
    }

    fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.groups.is_empty()
    }
}

/// One of each session.
fn put(list: &mut Vec<Subscriber>, subscriber: Subscriber) {
    match list.iter_mut().find(|known| known.session == subscriber.session) {
        Some(known) => *known = subscriber,
        None => list.push(subscriber),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &[(&str, &str, bool)] = &[
        ("a/b", "a/b", true),
        ("a/b", "a/c", false),
        ("a/+", "a/b", true),
        ("a/+", "a", false),
        ("a/+", "a/", true),
        ("+/+", "/finance", true),
        ("/+", "/finance", true),
        ("+", "/finance", false),
        ("a/#", "a", true),
        ("a/#", "a/b/c", true),
        ("a/#", "ab", false),
        ("+/#", "a", true),
        ("+/b/#", "a/b", true),
        ("#", "a/b", true),
        ("#", "$SYS/x", false),
        ("+/x", "$SYS/x", false),
        ("$SYS/#", "$SYS/x", true),
        ("$SYS/+", "$SYS/x", true),
        ("a/+/#", "a", false),
        ("a/+/c", "a/b/c", true),
        ("a//c", "a//c", true),
    ];

    #[test]
    fn filters_match_as_the_standard_says_in_the_tree_and_alone() {
        for (filter, topic, expected) in CASES {
            assert_eq!(matches(filter, topic), *expected, "{filter} on {topic}");
            let mut tree = Tree::default();
            let options = Options { qos: Qos::AtMostOnce, no_local: false, retain_as_published: false, id: None };
            tree.insert(filter, Subscriber { session: SessionNo(1), options });
            let mut found = Found::default();
            tree.find(topic, &mut found, &mut |_, _| None);
            assert_eq!(found.plain.len(), usize::from(*expected), "{filter} on {topic}");
            tree.remove(filter, SessionNo(1));
            assert!(tree.is_empty(), "{filter} leaves nothing behind");
        }
    }

    #[test]
    fn levels_that_filters_share_are_counted_once() {
        let mut tree = Tree::default();
        let options = Options { qos: Qos::AtMostOnce, no_local: false, retain_as_published: false, id: None };
        let levels = |tree: &Tree| tree.bytes() / LEVEL_BYTES;
        for (filter, count) in [("a/b", 2), ("a/b", 2), ("a/b/#", 2), ("a/+/c", 4), ("$share/g/a/b", 4), ("#", 4)] {
            tree.insert(filter, Subscriber { session: SessionNo(1), options });
            assert_eq!(levels(&tree), count, "with {filter}");
            assert!(Tree::bytes_of(filter) > 0);
        }
        for (filter, count) in [("a/+/c", 2), ("a/x", 2), ("a/b", 2), ("$share/g/a/b", 2), ("a/b/#", 0), ("#", 0)] {
            tree.remove(filter, SessionNo(1));
            assert_eq!(levels(&tree), count, "without {filter}");
        }
    }

    #[test]
    fn a_filter_of_very_many_levels_is_not_kept() {
        assert!(fits(&"/".repeat(LEVELS_MAX - 1)));
        assert!(!fits(&"/".repeat(LEVELS_MAX)));
        assert!(!fits(&"x".repeat(FILTER_BYTES_MAX + 1)));
    }
}
