//! `[[listener.rules]]`: who may do what.

use crate::config::boot::AccessRule;
use crate::config::check::keys;
use crate::config::check::table::Table;
use crate::config::problem::{Report, Wrong};
use crate::model::access::AccessFilter;

/// Each connect looks through them.
pub(in crate::config::check) const RULES_MAX: usize = 256;
/// Each message and subscription does.
pub(in crate::config::check) const FILTERS_MAX: usize = 64;
pub(in crate::config::check) const USER_BYTES_MAX: usize = 256;

/// All rules, in their order.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<Vec<AccessRule>> {
    let Some(item) = table.get("rules") else { return Some(Vec::new()) };
    let items = item.list(report)?;
    if items.len() > RULES_MAX {
        report.problem(&item.spot, Wrong::new(format!("has {} rules, at most {RULES_MAX}", items.len())));
        return None;
    }
    let rules: Vec<Option<AccessRule>> =
        items.iter().map(|item| rule(&Table::open_item(item, &keys::LISTENER_RULE, report)?, report)).collect();
    rules.into_iter().collect()
}

fn rule(table: &Table<'_>, report: &mut Report) -> Option<AccessRule> {
    let user = match table.get("user") {
        None => Some(None),
        Some(item) => item.parsed("a user name", report, user).map(Some),
    };
    let publish = filters(table, "publish", report);
    let subscribe = filters(table, "subscribe", report);
    let deny = filters(table, "deny", report);
    Some(AccessRule { user: user?, publish: publish?, subscribe: subscribe?, deny: deny? })
}

fn user(text: &str) -> Result<String, Wrong> {
    if text.len() > USER_BYTES_MAX || text.chars().any(char::is_control) {
        return Err(Wrong::new(format!("must be 1 to {USER_BYTES_MAX} bytes without control characters")));
    }
    Ok(text.to_owned())
}

/// One filter, or several; none when the key is absent.
fn filters(table: &Table<'_>, key: &str, report: &mut Report) -> Option<Vec<String>> {
    let Some(item) = table.get(key) else { return Some(Vec::new()) };
    let items = item.one_or_more(1..=FILTERS_MAX, report)?;
    let named = table.means("user");
    let filters: Vec<Option<String>> =
        items.iter().map(|item| item.parsed("a topic filter", report, |text| filter(text, key, named))).collect();
    filters.into_iter().collect()
}

fn filter(text: &str, key: &str, named: bool) -> Result<String, Wrong> {
    let parsed = AccessFilter::parse(text).map_err(|error| {
        let wrong = Wrong::new(error.message);
        match error.hint {
            Some(hint) => wrong.hint(hint),
            None => wrong,
        }
    })?;
    if key == "publish" && parsed.is_internal() {
        return Err(Wrong::new("clients do not publish to topics that begin with `$`"));
    }
    if !named && text.split('/').any(|level| level == "{username}") {
        return Err(Wrong::new("this rule is for those without a user name").hint("add `user = \"*\"`"));
    }
    Ok(text.to_owned())
}

/// Rules that are never asked.
pub(super) fn warn(table: &Table<'_>, rules: &[AccessRule], report: &mut Report) {
    let Some(items) = table.get("rules").and_then(|item| item.list(report)) else { return };
    let has_names = table.means("password_file") || table.means("client_ca_file");
    for (index, rule) in rules.iter().enumerate() {
        let takes_all = |other: &&AccessRule| {
            other.user == rule.user || (other.user.as_deref() == Some("*") && rule.user.is_some())
        };
        let spot = &items[index].spot;
        if let Some(earlier) = rules[..index].iter().position(|other| takes_all(&other)) {
            let wrong = format!("is never asked: listener.rules[{earlier}] fits everybody whom it is for");
            report.warn(spot, Wrong::new(wrong).hint("put it before that one"));
        } else if rule.user.is_some() && !has_names {
            let wrong =
                Wrong::new("is never asked: without `password_file` and `client_ca_file` nobody has a user name");
            report.warn(spot, wrong.hint("a rule without `user` is for those who have none"));
        }
    }
}

/// Whoever has no user name is let in, and may do nothing: it looks like a broken broker.
pub(super) fn warn_nameless(table: &Table<'_>, rules: &[AccessRule], report: &mut Report) {
    // Without names, those rules were told to be for nobody.
    let has_names = table.means("password_file") || table.means("client_ca_file");
    if rules.is_empty() || !has_names || rules.iter().any(|rule| rule.user.is_none()) {
        return;
    }
    let wrong =
        Wrong::new("has no rule for clients without a user name: those of this machine are let in, and may do nothing");
    report.warn(
        &table.spot_of("rules"),
        wrong.hint("add a rule without `user`, such as { subscribe = \"#\" }, or set anonymous = \"never\""),
    );
}
