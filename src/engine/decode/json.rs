//! JSON payloads: an object is one record, an array of objects one record each.
//!
//! ```text
//! {"ts":1773480413212,"t":22.3,"unit":"C"}        one record
//! [{"ts":1,"t":22.3},{"ts":2,"t":22.4}]           two; a bad one does not spoil the other
//! 7    "x"    null    [1,2]                       wrong shape
//! ```
//!
//! Named fields are found by JSON Pointer. With `all`, every number below the
//! record counts, named by its path with `.` between the levels and array items
//! by their index; the time field is no value. Rules for both:
//!
//! - A field that is configured as a state takes a string, a bool, or an integer as it is
//!   written. Anything else in it is left out and counted.
//! - Any other value is a JSON number. One beyond a 64-bit float is left out and the
//!   rest is kept. A named field that is null is a field that is not there; one
//!   that is anything else than a number is left out and counted.
//! - Of equal keys the last counts, with all that lies below it. With `all` it
//!   is the last number of a path that counts.
//! - One UTF-8 byte order mark at the start is ignored (RFC 8259, section 8.1).
//! - Nothing is reported before the whole payload has been checked, so that a
//!   payload cut short yields no records.
//!
//! Buffers are kept: after the first payloads nothing is allocated.

use crate::engine::fields::FieldTable;
use crate::engine::spec::{FieldsSpec, StreamSpec};
use crate::model::ids::{FieldIx, Name, StateIx};
use crate::model::limits::{FIELDS_MAX, PAYLOAD_BYTES_MAX};
use crate::model::record::RejectReason;

use super::pointer::{NodeIx, PointerTrie};
use super::scan::{Fault, Head, Scanner};
use super::time::{RawTime, Reading, TimeReader};
use super::{Decoded, Decoder};

/// Takes the records, or the reasons why there are none.
type Each<'f> = &'f mut dyn FnMut(Result<Decoded<'_>, RejectReason>);

/// The decoder of one stream.
#[derive(Clone, Debug)]
pub(super) struct JsonDecoder {
    trie: PointerTrie,
    /// Every number counts, not only those in the trie.
    all: bool,
    time: TimeReader,
    record: Found,
    /// Per place of the trie, the last record that had something there.
    visited: Vec<u64>,
    path: String,
    scratch: String,
    values: Vec<(FieldIx, f64)>,
    states: Vec<(FieldIx, StateIx)>,
    /// Bit `f`: field `f` is a state.
    is_state: u64,
}

/// What the record at hand has shown so far.
#[derive(Clone, Debug, Default)]
struct Found {
    number: u64,
    time: Reading,
    slots: Vec<Slot>,
    /// Numbers that have no place in the field table.
    unplaced: u32,
    unplaced_infinite: bool,
}

/// What one field of the record at hand is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Slot {
    Absent,
    Value(f64),
    State(StateIx),
    NotFinite,
    NotNumber,
}

impl Decoder for JsonDecoder {
    fn decode(&mut self, payload: &[u8], fields: &mut FieldTable, each: Each<'_>) {
        if let Err(reason) = self.document(payload, fields, each) {
            each(Err(reason));
        }
    }
}

impl JsonDecoder {
    /// A decoder for payloads of `spec` that hold `fields`.
    pub(super) fn new(spec: &StreamSpec, fields: &FieldsSpec) -> JsonDecoder {
        let time = TimeReader::new(spec);
        let (named, all): (&[_], bool) = match fields {
            FieldsSpec::Named(named) => (named, false),
            FieldsSpec::All => (&[], true),
        };
        let trie = PointerTrie::new(
            named.iter().map(|(_, pointer)| pointer.as_str()),
            time.candidates().first().map(String::as_str),
        );
        JsonDecoder {
            all,
            time,
            record: Found { slots: vec![Slot::Absent; FIELDS_MAX.max(named.len())], ..Found::default() },
            visited: vec![0; trie.len()],
            trie,
            path: String::new(),
            scratch: String::new(),
            values: Vec::with_capacity(FIELDS_MAX),
            states: Vec::new(),
            is_state: bits_of(named, &spec.states),
        }
    }

    /// Reports the records, or nothing and returns why there is none.
    fn document(&mut self, payload: &[u8], fields: &mut FieldTable, each: Each<'_>) -> Result<(), RejectReason> {
        if payload.is_empty() {
            return Err(RejectReason::Empty);
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(RejectReason::TooLarge);
        }
        let text = core::str::from_utf8(payload).map_err(|_| RejectReason::NotJson)?;
        let mut scanner = Scanner::new(text.strip_prefix('\u{feff}').unwrap_or(text));
        match scanner.head()? {
            Head::Object => {
                self.start_record();
                self.object(&mut scanner, Some(PointerTrie::ROOT), fields)?;
                scanner.end()?;
                self.finish_record(each);
                Ok(())
            }
            Head::Array => {
                let mut check = scanner.clone();
                let (items, objects) = count_items(&mut check)?;
                check.end()?;
                match (items, objects) {
                    (0, _) => Err(RejectReason::NoValues),
                    (_, 0) => Err(RejectReason::WrongShape),
                    _ => Ok(self.records(&mut scanner, fields, each)?),
                }
            }
            Head::Text(_) | Head::Number(_) | Head::Bool(_) | Head::Null => {
                scanner.end()?;
                Err(RejectReason::WrongShape)
            }
        }
    }

    fn records(&mut self, scanner: &mut Scanner<'_>, fields: &mut FieldTable, each: Each<'_>) -> Result<(), Fault> {
        let mut first = true;
        while scanner.next_item(&mut first)? {
            let head = scanner.head()?;
            if head == Head::Object {
                self.start_record();
                self.object(scanner, Some(PointerTrie::ROOT), fields)?;
                self.finish_record(each);
            } else {
                scanner.skip_rest(head)?;
                each(Err(RejectReason::WrongShape));
            }
        }
        Ok(())
    }

    fn start_record(&mut self) {
        self.record.number += 1;
        self.record.time = Reading::Missing;
        self.record.slots.fill(Slot::Absent);
        self.record.unplaced = 0;
        self.record.unplaced_infinite = false;
        self.path.clear();
    }

    fn object(&mut self, scanner: &mut Scanner<'_>, at: Option<NodeIx>, fields: &mut FieldTable) -> Result<(), Fault> {
        let mut first = true;
        let mut expect = 0;
        while let Some(key) = scanner.next_key(&mut first)? {
            let key = key.read(&mut self.scratch);
            let child = at.and_then(|at| self.trie.child_by_key(at, key, &mut expect));
            if self.all {
                let length = self.path.len();
                push_level(&mut self.path, key);
                self.value(scanner, child, fields)?;
                self.path.truncate(length);
            } else if child.is_some() {
                self.value(scanner, child, fields)?;
            } else {
                scanner.skip()?;
            }
        }
        Ok(())
    }

    fn array(&mut self, scanner: &mut Scanner<'_>, at: Option<NodeIx>, fields: &mut FieldTable) -> Result<(), Fault> {
        let mut first = true;
        let mut index = 0_usize;
        while scanner.next_item(&mut first)? {
            let child = at.and_then(|at| self.trie.child_by_index(at, index));
            if self.all {
                let length = self.path.len();
                push_index(&mut self.path, index);
                self.value(scanner, child, fields)?;
                self.path.truncate(length);
            } else if child.is_some() {
                self.value(scanner, child, fields)?;
            } else {
                scanner.skip()?;
            }
            index += 1;
        }
        Ok(())
    }

    fn value(&mut self, scanner: &mut Scanner<'_>, at: Option<NodeIx>, fields: &mut FieldTable) -> Result<(), Fault> {
        if let Some(at) = at {
            self.forget_earlier(at);
        }
        let is_time = at.is_some_and(|at| self.trie.node(at).time);
        let goes_on = self.all || at.is_some_and(|at| self.trie.node(at).goes_on());
        let head = scanner.head()?;
        if is_time {
            self.record.time = self.time.read(
                0,
                match head {
                    Head::Number(digits) => RawTime::Number(digits),
                    Head::Text(text) => RawTime::Text(text.read(&mut self.scratch)),
                    Head::Null => RawTime::Null,
                    Head::Bool(_) | Head::Object | Head::Array => RawTime::Other,
                },
            );
        }
        let slot = match head {
            Head::Number(digits) => match digits.parse::<f64>() {
                Ok(value) if value.is_finite() => Slot::Value(value),
                Ok(_) | Err(_) => Slot::NotFinite,
            },
            Head::Null => Slot::Absent,
            Head::Text(_) | Head::Bool(_) | Head::Object | Head::Array => Slot::NotNumber,
        };
        if let Some(at) = at {
            for field in &self.trie.node(at).fields {
                let is_state = self.is_state >> field.0 & 1 == 1;
                let slot = if is_state { state(head, &mut self.scratch, fields) } else { slot };
                self.record.slots[usize::from(field.0)] = slot;
            }
        }
        if self.all && !is_time {
            self.record.place(&self.path, slot, fields);
        }
        match head {
            Head::Object if goes_on => self.object(scanner, at, fields),
            Head::Array if goes_on => self.array(scanner, at, fields),
            Head::Object | Head::Array | Head::Text(_) | Head::Number(_) | Head::Bool(_) | Head::Null => {
                scanner.skip_rest(head)
            }
        }
    }

    /// Of equal keys the last counts: what an earlier one has shown is void.
    fn forget_earlier(&mut self, at: NodeIx) {
        let visited = &mut self.visited[PointerTrie::place(at)];
        if core::mem::replace(visited, self.record.number) != self.record.number {
            return;
        }
        let node = self.trie.node(at);
        for field in &node.fields_below {
            self.record.slots[usize::from(field.0)] = Slot::Absent;
        }
        if node.time_below {
            self.record.time = Reading::Missing;
        }
    }

    fn finish_record(&mut self, each: Each<'_>) {
        let time = match self.time.resolve(&[self.record.time]) {
            Ok(time) => time,
            Err(reason) => return each(Err(reason)),
        };
        self.values.clear();
        self.states.clear();
        let mut left_out = self.record.unplaced;
        let mut not_number = false;
        let mut infinite = self.record.unplaced_infinite;
        for (index, slot) in (0_u16..).zip(&self.record.slots) {
            match slot {
                Slot::Absent => {}
                Slot::Value(value) => self.values.push((FieldIx(index), *value)),
                Slot::State(state) => self.states.push((FieldIx(index), *state)),
                Slot::NotFinite => {
                    left_out += 1;
                    infinite = true;
                }
                Slot::NotNumber => {
                    left_out += 1;
                    not_number = true;
                }
            }
        }
        each(match (self.values.is_empty() && self.states.is_empty(), not_number, infinite) {
            (false, _, _) => Ok(Decoded { time, values: &self.values, states: &self.states, left_out }),
            (true, true, _) => Err(RejectReason::WrongType),
            (true, false, true) => Err(RejectReason::NotFinite),
            (true, false, false) => Err(RejectReason::NoValues),
        });
    }
}

impl Found {
    /// Takes in a value of a stream in which every number counts.
    fn place(&mut self, path: &str, slot: Slot, fields: &mut FieldTable) {
        match slot {
            // A state has a place of its own: this is for streams without named fields.
            Slot::Absent | Slot::NotNumber | Slot::State(_) => {}
            Slot::Value(_) => match fields.intern(path) {
                Some(field) => self.slots[usize::from(field.0)] = slot,
                None => self.unplaced += 1,
            },
            // Not worth a place of its own: it may never be a number.
            Slot::NotFinite => {
                if let Some(field) = fields.find(path) {
                    self.slots[usize::from(field.0)] = slot;
                } else {
                    self.unplaced += 1;
                    self.unplaced_infinite = true;
                }
            }
        }
    }
}

/// The fields that are states, a bit each.
fn bits_of(named: &[(Name, String)], states: &[Name]) -> u64 {
    let is_state = |name: &Name| u64::from(states.contains(name));
    named.iter().rev().fold(0, |bits, (name, _)| bits << 1 | is_state(name))
}

/// What a field that is a state takes.
fn state(head: Head<'_>, scratch: &mut String, fields: &mut FieldTable) -> Slot {
    let place = match head {
        Head::Null => return Slot::Absent,
        Head::Text(text) => fields.intern_state(text.read(scratch)),
        Head::Bool(true) => fields.intern_state("true"),
        Head::Bool(false) => fields.intern_state("false"),
        Head::Number(digits) if !digits.contains(['.', 'e', 'E']) => fields.intern_state(digits),
        Head::Number(_) | Head::Object | Head::Array => None,
    };
    place.map_or(Slot::NotNumber, Slot::State)
}

impl From<Fault> for RejectReason {
    fn from(fault: Fault) -> RejectReason {
        match fault {
            Fault::Syntax => RejectReason::NotJson,
            Fault::TooDeep => RejectReason::TooDeep,
        }
    }
}

/// Walks over an array that was opened; its items, and those that are objects.
fn count_items(scanner: &mut Scanner<'_>) -> Result<(usize, usize), Fault> {
    let (mut items, mut objects, mut first) = (0, 0, true);
    while scanner.next_item(&mut first)? {
        let head = scanner.head()?;
        items += 1;
        objects += usize::from(head == Head::Object);
        scanner.skip_rest(head)?;
    }
    Ok((items, objects))
}

fn push_level(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

fn push_index(path: &mut String, index: usize) {
    let mut digits = heapless::String::<20>::new();
    core::fmt::Write::write_fmt(&mut digits, format_args!("{index}")).expect("20 digits hold any usize");
    push_level(path, &digits);
}
