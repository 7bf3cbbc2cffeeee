//! Reading typed values out of a table of the raw tree. A reader reports what is
//! wrong and returns `None`; its caller goes on, so that one pass finds
//! everything, and gives up only when it builds.

use core::ops::RangeInclusive;

use crate::config::problem::{Report, Spot, Wrong, nearest};
use crate::config::raw::{Entry, Node, Place, Value};

use super::keys::{Need, SECTIONS, Section};

/// One table of the document, with what may stand in it.
#[derive(Clone, Debug)]
pub(super) struct Table<'t> {
    section: &'static Section,
    path: String,
    place: Option<Place>,
    entries: &'t [Entry],
}

/// One value of the document.
#[derive(Clone, Debug)]
pub(super) struct Item<'t> {
    pub(super) spot: Spot,
    pub(super) node: &'t Node,
    pub(super) value: &'t Value,
}

/// What stands for a key.
enum Written<'t> {
    Here(Item<'t>),
    Default(&'static str),
}

impl<'t> Table<'t> {
    /// `node` as the table `path`; reports its unknown keys.
    pub(super) fn open(
        node: &'t Node,
        path: &str,
        section: &'static Section,
        report: &mut Report,
    ) -> Option<Table<'t>> {
        let Value::Table(entries) = &node.value else {
            let item = Item::new(node, path.to_owned());
            report.problem(&item.spot, Wrong::new(format!("must be a table, not {}", node.value.kind())));
            return None;
        };
        let table = Table { section, path: path.to_owned(), place: node.place, entries };
        for entry in entries.iter().filter(|entry| section.key(&entry.key).is_none()) {
            let spot = Spot { path: table.path_of(&entry.key), place: entry.place, value: None };
            report.problem(&spot, unknown_key(&entry.key, section));
        }
        Some(table)
    }

    /// A table that is not there: every key has its default.
    pub(super) fn absent(path: &str, section: &'static Section) -> Table<'static> {
        Table { section, path: path.to_owned(), place: None, entries: &[] }
    }

    /// The table itself, to complain about.
    pub(super) fn spot(&self) -> Spot {
        Spot { path: self.path.clone(), place: self.place, value: None }
    }

    /// A key that is not there, to complain about.
    pub(super) fn spot_of(&self, key: &str) -> Spot {
        match self.get(key) {
            Some(item) => item.spot,
            None => Spot { path: self.path_of(key), place: self.place, value: None },
        }
    }

    /// The value of `key`, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<Item<'t>> {
        debug_assert!(self.section.key(key).is_some(), "`{key}` is in the list of keys");
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Item::new(&entry.node, self.path_of(key)))
    }

    /// Whether it is there; false too for a key that this table cannot have.
    pub(super) fn has(&self, key: &str) -> bool {
        self.section.key(key).is_some() && self.get(key).is_some()
    }

    /// Whether it is there, or something that is probably meant for it: that was reported, and
    /// nothing may follow from its absence.
    pub(super) fn means(&self, key: &str) -> bool {
        let names = || self.section.keys.iter().map(|key| key.name);
        let mistyped =
            |entry: &Entry| self.section.key(&entry.key).is_none() && nearest(&entry.key, names()) == Some(key);
        self.has(key) || self.entries.iter().any(mistyped)
    }

    /// An item of a list as a table.
    pub(super) fn open_item(item: &Item<'t>, section: &'static Section, report: &mut Report) -> Option<Table<'t>> {
        Table::open(item.node, &item.spot.path, section, report)
    }

    /// The value of `key`; reports when it is not there, and nothing was reported that is meant for it.
    pub(super) fn required(&self, key: &str, report: &mut Report) -> Option<Item<'t>> {
        let item = self.get(key);
        if item.is_none() && !self.means(key) {
            let about = self.section.key(key).map_or("", |key| key.about);
            report.problem(&self.spot_of(key), Wrong::new("is missing").hint(about));
        }
        item
    }

    /// The text of `key` read by `parse`, or its default. `what` names the kind
    /// of value, as in "must be …".
    pub(super) fn parsed<T>(
        &self,
        key: &str,
        what: &str,
        report: &mut Report,
        parse: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<T> {
        match self.written(key, report)? {
            Written::Here(item) => item.parsed(what, report, parse),
            Written::Default(text) => match parse(text) {
                Ok(value) => Some(value),
                Err(wrong) => unreachable!("the default of {key} is valid: {}", wrong.message),
            },
        }
    }

    /// What stands for `key`; reports when something has to. Not generic: there are many
    /// kinds of values, and this would be in the program once for each.
    fn written(&self, key: &str, report: &mut Report) -> Option<Written<'t>> {
        match (self.section.key(key).map(|key| key.need), self.get(key)) {
            (_, Some(item)) => Some(Written::Here(item)),
            (Some(Need::Required | Need::ToRun), None) => self.required(key, report).map(Written::Here),
            (Some(Need::Default(text)), None) => Some(Written::Default(text)),
            (Some(Need::Optional | Need::Derived(_)) | None, None) => None,
        }
    }

    /// The text of `key`, not empty.
    pub(super) fn text(&self, key: &str, report: &mut Report) -> Option<String> {
        self.parsed(key, "a string", report, |text| Ok(text.to_owned()))
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)], report: &mut Report) -> Option<T> {
        let list = || words.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
        self.parsed(key, &list(), report, |text| {
            if let Some((_, choice)) = words.iter().find(|(word, _)| *word == text) {
                return Ok(*choice);
            }
            let wrong = Wrong::new(format!("must be {}", list()));
            Err(match nearest(text, words.iter().map(|(word, _)| *word)) {
                Some(word) => wrong.hint(format!("did you mean \"{word}\"?")),
                None => wrong,
            })
        })
    }

    /// An integer within `range`, or its default.
    pub(super) fn integer(&self, key: &str, range: RangeInclusive<usize>, report: &mut Report) -> Option<usize> {
        let wrong = || Wrong::new(format!("must be an integer from {} to {}", range.start(), range.end()));
        let Some(item) = self.get(key) else {
            return self.parsed(key, "an integer", report, |text| text.parse().map_err(|_| wrong()));
        };
        let found = match item.value {
            Value::Integer(found) => usize::try_from(*found).ok().filter(|found| range.contains(found)),
            Value::Text(_) | Value::Float(_) | Value::Bool(_) | Value::Null | Value::List(_) | Value::Table(_) => None,
        };
        if found.is_none() {
            report.problem(&item.spot, wrong());
        }
        found
    }

    fn path_of(&self, key: &str) -> String {
        let plain = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let key = if plain { key.to_owned() } else { format!("{key:?}") };
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }
}

impl<'t> Item<'t> {
    /// `node` at `path`.
    pub(super) fn new(node: &'t Node, path: String) -> Item<'t> {
        let value = match &node.value {
            Value::Table(_) | Value::List(_) => None,
            Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null => {
                Some(without_credentials(&path, &node.value))
            }
        };
        Item { spot: Spot { path, place: node.place, value }, node, value: &node.value }
    }

    /// The text read by `parse`.
    pub(super) fn parsed<T>(
        &self,
        what: &str,
        report: &mut Report,
        parse: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<T> {
        let wrong = match self.filled(what) {
            Ok(text) => match parse(text) {
                Ok(value) => return Some(value),
                Err(wrong) => wrong,
            },
            Err(wrong) => wrong,
        };
        report.problem(&self.spot, wrong);
        None
    }

    /// The text, when it is one that says something.
    fn filled(&self, what: &str) -> Result<&'t str, Wrong> {
        Err(match self.value {
            Value::Text(text) if text.is_empty() => Wrong::new("is empty"),
            Value::Text(text) => return Ok(text),
            number @ (Value::Integer(_) | Value::Float(_)) if what.starts_with("a duration") => {
                Wrong::new(format!("must be {what}: a number alone has no unit"))
                    .hint(format!("\"{number}s\" or \"{number}ms\", with quotes"))
            }
            number @ Value::Integer(_) if what.starts_with("a size") => {
                Wrong::new(format!("must be {what}")).hint(format!("\"{number}B\", with quotes"))
            }
            Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null | Value::List(_) | Value::Table(_) => {
                Wrong::new(format!("must be {what}, not {}", self.value.kind()))
            }
        })
    }

    /// The items of a list, or the value itself when it is none; as many as `range` allows.
    pub(super) fn one_or_more(&self, range: RangeInclusive<usize>, report: &mut Report) -> Option<Vec<Item<'t>>> {
        let Value::List(nodes) = self.value else { return Some(vec![self.clone()]) };
        if !range.contains(&nodes.len()) {
            let wrong = format!("has {} items, {} to {} are allowed", nodes.len(), range.start(), range.end());
            report.problem(&self.spot, Wrong::new(wrong));
            return None;
        }
        self.list(report)
    }

    /// The items of a list.
    pub(super) fn list(&self, report: &mut Report) -> Option<Vec<Item<'t>>> {
        let Value::List(nodes) = self.value else {
            let wrong = Wrong::new(format!("must be a list, not {}", self.value.kind()));
            report.problem(&self.spot, wrong);
            return None;
        };
        let path = |index: usize| format!("{}[{index}]", self.spot.path);
        Some(nodes.iter().enumerate().map(|(index, node)| Item::new(node, path(index))).collect())
    }
}

/// Problems travel: into logs, and to the cloud. A password that someone wrote
/// into an address does not.
fn without_credentials(path: &str, value: &Value) -> String {
    match value {
        _ if path.ends_with(".password") => "\"***\"".to_owned(),
        Value::Text(text) if path.ends_with(".broker") || text.contains("://") => match text.rsplit_once('@') {
            Some((_, host)) => format!("\"***@{host}\""),
            None => value.to_string(),
        },
        Value::Text(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Bool(_)
        | Value::Null
        | Value::List(_)
        | Value::Table(_) => value.to_string(),
    }
}

/// Reports every table whose `name` an earlier one has, built or not.
pub(super) fn unique_names(tables: &[Table<'_>], report: &mut Report) {
    for (index, table) in tables.iter().enumerate() {
        let Some(item) = table.get("name").filter(|item| matches!(item.value, Value::Text(_))) else { continue };
        let same = |other: &&Table<'_>| other.get("name").is_some_and(|other| other.value == item.value);
        if let Some(other) = tables[..index].iter().find(same) {
            report.problem(&item.spot, Wrong::new(format!("{} has the same name", other.path)));
        }
    }
}

fn unknown_key(key: &str, section: &Section) -> Wrong {
    let wrong = Wrong::new("is not a key that is known here");
    if let Some(near) = nearest(key, section.keys.iter().map(|key| key.name)) {
        return wrong.hint(format!("did you mean `{near}`?"));
    }
    if let Some(other) = SECTIONS.iter().find(|other| other.key(key).is_some()) {
        return wrong.hint(format!("`{key}` belongs to {}", other.title));
    }
    let known: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
    wrong.hint(format!("known: {}", known.join(", ")))
}
