//! The rules, ready to be asked.

use crate::config::boot::AccessRule;
use crate::engine::spec::DevicePatterns;
use crate::model::access::{AccessFilter, FilterError, Names, Subscribed};

/// All rules, in their order.
#[derive(Clone, Debug)]
pub(super) struct Rules(Vec<Compiled>);

/// Which one is for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// There are none: everything is allowed.
    Everything,
    /// This one.
    Of(usize),
    /// None fits: nothing is allowed.
    Nothing,
}

#[derive(Clone, Debug)]
struct Compiled {
    /// `None`: clients without a user name.
    user: Option<DevicePatterns>,
    publish: Vec<AccessFilter>,
    subscribe: Vec<AccessFilter>,
    deny: Vec<AccessFilter>,
}

impl Rules {
    /// Parses what the configuration says.
    ///
    /// # Errors
    /// One of the filters is none.
    pub(super) fn new(rules: &[AccessRule]) -> Result<Rules, FilterError> {
        let filters = |texts: &[String]| -> Result<Vec<AccessFilter>, FilterError> {
            texts.iter().map(|text| AccessFilter::parse(text)).collect()
        };
        let compiled = |rule: &AccessRule| {
            Ok(Compiled {
                user: rule.user.clone().map(|user| DevicePatterns(vec![user])),
                publish: filters(&rule.publish)?,
                subscribe: filters(&rule.subscribe)?,
                deny: filters(&rule.deny)?,
            })
        };
        rules.iter().map(compiled).collect::<Result<_, _>>().map(Rules)
    }

    /// The first that is for a user.
    pub(super) fn rule_for(&self, username: Option<&str>) -> Rule {
        let is_for = |rule: &Compiled| match (&rule.user, username) {
            (None, None) => true,
            (Some(pattern), Some(username)) => pattern.fit(username),
            (None, Some(_)) | (Some(_), None) => false,
        };
        match self.0.iter().position(is_for) {
            _ if self.0.is_empty() => Rule::Everything,
            Some(index) => Rule::Of(index),
            None => Rule::Nothing,
        }
    }

    pub(super) fn may_publish(&self, rule: Rule, names: Names<'_>, topic: &str) -> bool {
        self.allows(rule, |rule| rule.has_topic(&rule.publish, names, topic))
    }

    pub(super) fn may_receive(&self, rule: Rule, names: Names<'_>, topic: &str) -> bool {
        self.allows(rule, |rule| rule.has_topic(&rule.subscribe, names, topic))
    }

    /// Some of what it gets may be denied: that is withheld when it comes. Only what would get
    /// nothing at all is not begun.
    pub(super) fn may_subscribe(&self, rule: Rule, names: Names<'_>, wanted: &Subscribed<'_>) -> bool {
        self.allows(rule, |rule| wanted.is_within(&rule.subscribe, names) && !wanted.is_refused(&rule.deny, names))
    }

    fn allows(&self, rule: Rule, allows: impl FnOnce(&Compiled) -> bool) -> bool {
        match rule {
            Rule::Everything => true,
            Rule::Nothing => false,
            Rule::Of(index) => self.0.get(index).is_some_and(allows),
        }
    }
}

impl Compiled {
    /// One of `filters`, and none of those that deny, means the topic.
    fn has_topic(&self, filters: &[AccessFilter], names: Names<'_>, topic: &str) -> bool {
        filters.iter().any(|filter| filter.matches(names, topic))
            && !self.deny.iter().any(|filter| filter.refuses(names, topic))
    }
}
