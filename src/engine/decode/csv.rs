//! CSV: a line is a record, quoted as RFC 4180 says.
//!
//! ```text
//! time;temp;note                      (header, or the names are configured)
//! 1713970366;21,5;"a ""b""; c"        record time="1713970366" temp="21,5" note="a \"b\"; c"
//! 1713970367; ;                       record time="1713970367" temp=null note=null
//! ```
//!
//! Every cell is a text, also one that looks like a number: whether a comma is a decimal point
//! is a rule of the stream. An empty cell is null. Blanks around a cell are no part of it, quotes
//! keep them; a quote inside a cell that has none in front is a character. A quoted cell may
//! hold line breaks. Lines end with `\n` or `\r\n`, the last one with the payload too; empty
//! ones are passed over. A column whose name is empty is passed over.
//!
//! A record with too few or too many cells is rejected alone (`wrong_shape`), and so is one
//! that is no CSV or no UTF-8 (`not_in_format`). A quote that is never closed takes what follows
//! with it: nobody knows where the next record begins. When no record is usable the payload
//! counts once, for its first.
//!
//! Why no library: `csv-core` takes whatever it is given for CSV, where a record has to be known
//! as damaged; and it needs a buffer for cells that can be borrowed as they stand.

use crate::engine::spec::CsvSpec;
use crate::model::limits::FIELDS_MAX;
use crate::model::record::RejectReason;

use super::visit::{Outcome, Scalar, Visit};
use super::{Format, Telling};

/// Columns that a first line may name: several times what a stream has fields. They are kept.
const COLUMNS_MAX: usize = 4 * FIELDS_MAX;

/// The decoder of one stream. It keeps its buffers.
#[derive(Clone, Debug)]
pub(super) struct Csv {
    header: bool,
    separator: u8,
    /// The first `columns_len` are those of the payload; those after it are kept for their room.
    columns: Vec<String>,
    columns_len: usize,
    cell: String,
}

/// What comes after a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Cell,
    Record,
}

/// A record is no CSV, or no UTF-8.
struct Fault;

impl Format for Csv {
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome {
        self.payload(telling.payload, visit)
    }
}

impl Csv {
    /// A decoder for payloads that `spec` describes.
    pub(super) fn new(spec: &CsvSpec) -> Csv {
        let columns = spec.columns.clone();
        Csv {
            header: columns.is_empty(),
            separator: spec.separator,
            columns_len: columns.len(),
            columns,
            cell: String::new(),
        }
    }

    fn payload(&mut self, payload: &[u8], visit: &mut dyn Visit) -> Outcome {
        if payload.is_empty() {
            return Err(RejectReason::Empty);
        }
        let bytes = payload.strip_prefix(b"\xef\xbb\xbf").unwrap_or(payload);
        let mut lines = Lines { bytes, at: 0, separator: self.separator };
        if self.header && lines.next_record() {
            self.read_header(&mut lines).map_err(|Fault| RejectReason::NotInFormat)?;
        }
        let (mut usable, mut first_fault) = (false, None);
        while lines.next_record() {
            visit.start_record();
            match self.record(&mut lines, visit) {
                Ok(cells) if cells == self.columns_len => usable = true,
                outcome => {
                    let reason = if outcome.is_ok() { RejectReason::WrongShape } else { RejectReason::NotInFormat };
                    visit.reject_record(reason);
                    first_fault = first_fault.or(Some(reason));
                }
            }
        }
        if usable { Ok(()) } else { Err(first_fault.unwrap_or(RejectReason::NoValues)) }
    }

    fn read_header(&mut self, lines: &mut Lines<'_>) -> Result<(), Fault> {
        self.columns_len = 0;
        loop {
            let (cell, end) = lines.cell(&mut self.cell)?;
            if self.columns_len == COLUMNS_MAX {
                return Err(Fault);
            }
            match self.columns.get_mut(self.columns_len) {
                Some(name) => {
                    name.clear();
                    name.push_str(cell);
                }
                None => self.columns.push(cell.to_owned()),
            }
            self.columns_len += 1;
            if end == End::Record {
                return Ok(());
            }
        }
    }

    /// Tells the cells of one record that have a column; how many there are.
    fn record(&mut self, lines: &mut Lines<'_>, visit: &mut dyn Visit) -> Result<usize, Fault> {
        let mut cells = 0;
        loop {
            let (cell, end) = lines.cell(&mut self.cell)?;
            let column = self.columns[..self.columns_len].get(cells).filter(|name| !name.is_empty());
            if let Some(column) = column {
                visit.member(column, if cell.is_empty() { Scalar::Null } else { Scalar::Text(cell) });
            }
            cells += 1;
            if end == End::Record {
                return Ok(cells);
            }
        }
    }
}

/// A place in the bytes of a payload. After a fault it is at the next record.
struct Lines<'p> {
    bytes: &'p [u8],
    at: usize,
    separator: u8,
}

impl<'p> Lines<'p> {
    /// Passes over empty lines; whether there is a record.
    fn next_record(&mut self) -> bool {
        while self.peek().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
            self.at += 1;
        }
        self.at < self.bytes.len()
    }

    /// The next cell of the record, and what comes after it.
    fn cell<'a>(&mut self, buffer: &'a mut String) -> Result<(&'a str, End), Fault>
    where
        'p: 'a,
    {
        self.skip_blanks();
        let (cell, doubled) = if self.peek() == Some(b'"') { self.quoted()? } else { (self.plain(), false) };
        let end = self.end_of_cell()?;
        let Ok(cell) = core::str::from_utf8(cell) else {
            if end == End::Cell {
                self.skip_line();
            }
            return Err(Fault);
        };
        if !doubled {
            return Ok((cell, end));
        }
        buffer.clear();
        for (index, part) in cell.split("\"\"").enumerate() {
            if index > 0 {
                buffer.push('"');
            }
            buffer.push_str(part);
        }
        Ok((buffer, end))
    }

    /// A cell without quotes, and without the blanks after it.
    fn plain(&mut self) -> &'p [u8] {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == self.separator || *byte == b'\n').unwrap_or(rest.len());
        self.at += length;
        rest[..length].trim_ascii_end()
    }

    /// What is between the quotes, and whether quotes are doubled there.
    fn quoted(&mut self) -> Result<(&'p [u8], bool), Fault> {
        self.at += 1;
        let start = self.at;
        let mut doubled = false;
        while let Some(length) = self.bytes[self.at..].iter().position(|byte| *byte == b'"') {
            let quote = self.at + length;
            self.at = quote + 1;
            if self.peek() != Some(b'"') {
                self.skip_blanks();
                return Ok((&self.bytes[start..quote], doubled));
            }
            self.at += 1;
            doubled = true;
        }
        self.at = self.bytes.len();
        Err(Fault)
    }

    fn end_of_cell(&mut self) -> Result<End, Fault> {
        let end = match self.peek() {
            Some(b'\r') if matches!(self.bytes.get(self.at + 1), Some(b'\n') | None) => End::Record,
            Some(byte) if byte == self.separator => End::Cell,
            Some(b'\n') | None => End::Record,
            Some(_) => {
                self.skip_line();
                return Err(Fault);
            }
        };
        match end {
            End::Cell => self.at += 1,
            End::Record => self.skip_line(),
        }
        Ok(end)
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t') && byte != self.separator) {
            self.at += 1;
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |length| length + 1);
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::visit::spy::told;
    use super::*;

    fn named(columns: &[&str], separator: u8, payload: impl AsRef<[u8]>) -> String {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        told(|visit| Csv::new(&CsvSpec { columns, separator }).payload(payload.as_ref(), visit))
    }

    fn headed(payload: impl AsRef<[u8]>) -> String {
        told(|visit| Csv::new(&CsvSpec { columns: Vec::new(), separator: b',' }).payload(payload.as_ref(), visit))
    }

    /// Records of the two columns `a` and `b`.
    fn csv(payload: impl AsRef<[u8]>) -> String {
        named(&["a", "b"], b',', payload)
    }

    #[test]
    fn a_line_is_a_record_and_every_cell_a_text() {
        let two = "record a=\"1\" b=\"2.5\"\nrecord a=\"x\" b=\"+3\"";
        for payload in
            ["1,2.5\nx,+3\n", "1,2.5\r\nx,+3\r\n", "1,2.5\nx,+3", "\n1,2.5\n\r\n\nx,+3\r", "\u{feff}1,2.5\nx,+3"]
        {
            assert_eq!(csv(payload), two, "{payload:?}");
        }
        assert_eq!(named(&["a", "b"], b';', "1;3,41\n"), "record a=\"1\" b=\"3,41\"");
        assert_eq!(named(&["a", "b"], b'\t', "1\t\t\n 2\tx "), "rejected: wrong_shape\nrecord a=\"2\" b=\"x\"");
        assert_eq!(named(&["a", "", "b"], b',', "1,2,3"), "record a=\"1\" b=\"3\"", "a column without a name");
    }

    #[test]
    fn an_empty_cell_is_null() {
        assert_eq!(csv(",\n \t,\"\""), "record a=null b=null\nrecord a=null b=null");
        assert_eq!(csv("1, \n"), "record a=\"1\" b=null");
    }

    #[test]
    fn quotes_are_those_of_rfc_4180() {
        for (payload, expected) in [
            ("\"1\",\"2\"", "record a=\"1\" b=\"2\""),
            ("\"a,b\",\"\"\"q\"\"\"", "record a=\"a,b\" b=\"\\\"q\\\"\""),
            ("\"a\r\nb\",2", "record a=\"a\\r\\nb\" b=\"2\""),
            ("\" a \",  \"b\"  ", "record a=\" a \" b=\"b\""),
            ("5\" pipe,a\"\"b", "record a=\"5\\\" pipe\" b=\"a\\\"\\\"b\""),
        ] {
            assert_eq!(csv(payload), expected, "{payload}");
        }
    }

    #[test]
    fn the_first_line_can_name_the_columns() {
        assert_eq!(
            headed("time, \"temp c\",\r\n1,21.5,x\r\n2,22,y\n"),
            "record time=\"1\" temp c=\"21.5\"\nrecord time=\"2\" temp c=\"22\""
        );
        let mut csv = Csv::new(&CsvSpec { columns: Vec::new(), separator: b',' });
        assert_eq!(told(|visit| csv.payload(b"a,b,c\n1,2,3", visit)), "record a=\"1\" b=\"2\" c=\"3\"");
        assert_eq!(told(|visit| csv.payload(b"x\n7", visit)), "record x=\"7\"", "every payload has its own");
        assert_eq!(headed("a,b\n"), "rejected: no_values");
        assert_eq!(headed("a,\"b\n1,2\n"), "rejected: not_in_format");
    }

    #[test]
    fn a_damaged_record_is_rejected_alone() {
        for (bad, reason) in [
            ("1", "wrong_shape"),
            ("1,2,3", "wrong_shape"),
            ("\"1\"x,2", "not_in_format"),
            ("1,\"2\"\"\"3", "not_in_format"),
        ] {
            let expected = format!("record a=\"0\" b=\"0\"\nrejected: {reason}\nrecord a=\"9\" b=\"9\"");
            assert_eq!(csv(format!("0,0\n{bad}\n9,9")), expected, "{bad}");
            assert_eq!(csv(bad), format!("rejected: {reason}"), "{bad}");
        }
        assert_eq!(
            csv(b"21,\xb0C\n\xb0C,1\n9,9"),
            "rejected: not_in_format\nrejected: not_in_format\nrecord a=\"9\" b=\"9\""
        );
        assert_eq!(csv("0,0\n1,\"2\n9,9\n"), "record a=\"0\" b=\"0\"\nrejected: not_in_format", "never closed");
    }

    #[test]
    fn a_payload_without_a_record_counts_once() {
        assert_eq!(csv(""), "rejected: empty");
        assert_eq!(csv("\r\n\n"), "rejected: no_values");
        assert_eq!(csv("some\nlog\nlines\n"), "rejected: wrong_shape");
        assert_eq!(csv("{\"a\":1}"), "rejected: wrong_shape");
    }
}
