//! JSON payloads.
//!
//! ```text
//! {"ts":1773480413212,"t":22.3,"unit":"C"}        one record
//! [{"ts":1,"t":22.3},{"ts":2,"t":22.4}]           two; a bad one does not spoil the other
//! {"ts":1,"t":22.3}⏎{"ts":2,"t":22.4}             two texts, one a line: the same
//! 7    "x"    null    [1,2]                       wrong shape
//! ```
//!
//! One UTF-8 byte order mark at the start is ignored (RFC 8259, section 8.1).

use crate::model::limits::PAYLOAD_BYTES_MAX;
use crate::model::record::RejectReason;

use super::scan::{Fault, Head, Scanner};
use super::visit::{Outcome, Scalar, Visit};
use super::{Format, Telling};

/// The format, with its buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Json {
    scratch: String,
}

impl Format for Json {
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome {
        let payload = telling.payload;
        if payload.is_empty() {
            return Err(RejectReason::Empty);
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(RejectReason::TooLarge);
        }
        let text = core::str::from_utf8(payload).map_err(|_| RejectReason::NotJson)?;
        let mut scanner = Scanner::new(text.strip_prefix('\u{feff}').unwrap_or(text));
        let mut head = scanner.head()?;
        if head == Head::Array {
            let outcome = self.items(&mut scanner, visit)?;
            scanner.end()?;
            return outcome;
        }
        loop {
            if head != Head::Object {
                scanner.end()?;
                return Err(RejectReason::WrongShape);
            }
            visit.start_record();
            self.object(&mut scanner, visit)?;
            if !scanner.next_line() {
                scanner.end()?;
                return Ok(());
            }
            head = scanner.head()?;
        }
    }
}

impl Json {
    /// The items of the outermost array: a record each.
    fn items(&mut self, scanner: &mut Scanner<'_>, visit: &mut dyn Visit) -> Result<Outcome, Fault> {
        let (mut first, mut items, mut objects) = (true, 0_usize, 0_usize);
        while scanner.next_item(&mut first)? {
            let head = scanner.head()?;
            items += 1;
            visit.start_record();
            if head == Head::Object {
                objects += 1;
                self.object(scanner, visit)?;
            } else {
                scanner.skip_rest(head)?;
                visit.reject_record(RejectReason::WrongShape);
            }
        }
        Ok(match (items, objects) {
            (0, _) => Err(RejectReason::NoValues),
            (_, 0) => Err(RejectReason::WrongShape),
            _ => Ok(()),
        })
    }

    fn object(&mut self, scanner: &mut Scanner<'_>, visit: &mut dyn Visit) -> Result<(), Fault> {
        let mut first = true;
        while let Some(key) = scanner.next_key(&mut first)? {
            if visit.enter(key.read(&mut self.scratch)) {
                self.value(scanner, visit)?;
                visit.leave();
            } else {
                scanner.skip()?;
            }
        }
        Ok(())
    }

    fn array(&mut self, scanner: &mut Scanner<'_>, visit: &mut dyn Visit) -> Result<(), Fault> {
        let mut first = true;
        let mut index = 0_usize;
        while scanner.next_item(&mut first)? {
            let mut digits = heapless::String::<20>::new();
            core::fmt::Write::write_fmt(&mut digits, format_args!("{index}")).expect("20 digits hold any usize");
            if visit.enter(&digits) {
                self.value(scanner, visit)?;
                visit.leave();
            } else {
                scanner.skip()?;
            }
            index += 1;
        }
        Ok(())
    }

    fn value(&mut self, scanner: &mut Scanner<'_>, visit: &mut dyn Visit) -> Result<(), Fault> {
        match scanner.head()? {
            Head::Object => {
                visit.tree();
                return self.object(scanner, visit);
            }
            Head::Array => {
                visit.tree();
                return self.array(scanner, visit);
            }
            Head::Text(text) => visit.scalar(Scalar::Text(text.read(&mut self.scratch))),
            Head::Number(digits) => visit.scalar(Scalar::Number(digits)),
            Head::Bool(truth) => visit.scalar(Scalar::Bool(truth)),
            Head::Null => visit.scalar(Scalar::Null),
        }
        Ok(())
    }
}

impl From<Fault> for RejectReason {
    fn from(fault: Fault) -> RejectReason {
        match fault {
            Fault::Syntax => RejectReason::NotJson,
            Fault::TooDeep => RejectReason::TooDeep,
        }
    }
}
