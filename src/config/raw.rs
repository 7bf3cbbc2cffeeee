//! A configuration text as a neutral tree in which every node knows its place.
//! Permissive on purpose: what the values mean is `check`'s business.
//!
//! TOML is what people write; JSON is what comes over MQTT. Both give the same
//! tree, so one checker and one hash serve both. Tables are ordered by key, not
//! by the order in the text: reordering a file changes nothing.

mod json;
mod toml;
pub(super) mod write;

use core::fmt;

use crate::model::limits::CONFIG_BYTES_MAX;

/// A parsed document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    root: Node,
}

/// One value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it begins; unknown in JSON.
    pub place: Option<Place>,
    /// What it is.
    pub value: Value,
}

/// A position in a text, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// The kinds of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string, or an unquoted TOML date and time.
    Text(String),
    /// An integer.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// JSON's null; never equal to a missing key.
    Null,
    /// A list.
    List(Vec<Node>),
    /// Keys and values, ordered by key.
    Table(Vec<Entry>),
}

/// One key of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands; unknown in JSON.
    pub place: Option<Place>,
    /// Its value.
    pub node: Node,
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.0.
    Toml,
    /// JSON.
    Json,
}

/// What keeps a text from being a document at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where.
    pub place: Option<Place>,
    /// What.
    pub message: String,
}

impl Format {
    /// By the file's name: `.json` is JSON, everything else TOML.
    pub fn of(file: &str) -> Format {
        match file.rsplit_once('.') {
            Some((_, extension)) if extension.eq_ignore_ascii_case("json") => Format::Json,
            Some(_) | None => Format::Toml,
        }
    }
}

impl Document {
    /// Parses `text`.
    ///
    /// # Errors
    /// Every syntax error that could be found.
    pub fn parse(text: &str, format: Format) -> Result<Document, Vec<SyntaxError>> {
        if text.len() > CONFIG_BYTES_MAX {
            let message = format!("{} bytes are more than the {CONFIG_BYTES_MAX} allowed", text.len());
            return Err(vec![SyntaxError { place: None, message }]);
        }
        let root = match format {
            Format::Toml => toml::parse(text),
            Format::Json => json::parse(text),
        }?;
        Ok(Document { root })
    }

    /// The whole document.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The same, to complete it.
    pub(super) fn root_mut(&mut self) -> &mut Node {
        &mut self.root
    }

    /// Tells documents apart: 128 bits of FNV-1a over the tree, in hex. White
    /// space, comments, the order of keys and the choice between TOML and JSON do
    /// not change it. Not for security: nothing is authenticated by it.
    pub fn hash(&self) -> String {
        let mut hash = Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        self.root.value.hash(&mut hash);
        format!("{:032x}", hash.0)
    }
}

impl Value {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Bool(_) => "a bool",
            Value::Null => "null",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    fn hash(&self, hash: &mut Fnv) {
        match self {
            Value::Text(text) => hash.text(b't', text),
            Value::Integer(integer) => hash.bytes(b'i', &integer.to_le_bytes()),
            Value::Float(float) => hash.bytes(b'f', &float.to_bits().to_le_bytes()),
            Value::Bool(bool) => hash.bytes(b'b', &[u8::from(*bool)]),
            Value::Null => hash.bytes(b'n', &[]),
            Value::List(items) => {
                hash.bytes(b'l', &items.len().to_le_bytes());
                for item in items {
                    item.value.hash(hash);
                }
            }
            Value::Table(entries) => {
                hash.bytes(b'm', &entries.len().to_le_bytes());
                for entry in entries {
                    hash.text(b'k', &entry.key);
                    entry.node.value.hash(hash);
                }
            }
        }
    }
}

/// Short, as in a message: containers only by their kind.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 60;
        match self {
            Value::Text(text) => match text.char_indices().nth(SHOWN) {
                Some((end, _)) => write!(f, "{:?}", format!("{}…", &text[..end])),
                None => write!(f, "{text:?}"),
            },
            Value::Integer(integer) => write!(f, "{integer}"),
            Value::Float(float) => write!(f, "{float}"),
            Value::Bool(bool) => write!(f, "{bool}"),
            Value::Null | Value::List(_) | Value::Table(_) => f.write_str(self.kind()),
        }
    }
}

struct Fnv(u128);

impl Fnv {
    fn bytes(&mut self, tag: u8, bytes: &[u8]) {
        for byte in core::iter::once(&tag).chain(bytes) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }

    fn text(&mut self, tag: u8, text: &str) {
        self.bytes(tag, &(text.len() as u64).to_le_bytes());
        self.bytes(tag, text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str, format: Format) -> String {
        Document::parse(text, format).expect(text).hash()
    }

    #[test]
    fn the_hash_sees_the_content_and_not_the_writing() {
        let first = hash("[a]\nx = 1 # one\ny = [\"p\", 2.5]\n[b]\n", Format::Toml);
        assert_eq!(first.len(), 32);
        assert_eq!(first, hash("b = {}\na = { y = ['p',\n2.50], x = 0x1 }", Format::Toml));
        assert_eq!(first, hash(r#"{"a": {"y": ["p", 2.5], "x": 1}, "b": {}}"#, Format::Json));
        for other in [
            "a = {x = 2, y = ['p', 2.5]}\nb = {}",
            "a = {x = 1, y = ['p', 2.5]}",
            "a = {x = '1', y = ['p', 2.5]}\nb = {}",
        ] {
            assert_ne!(first, hash(other, Format::Toml), "{other}");
        }
    }

    #[test]
    fn every_node_of_a_toml_text_knows_its_line() {
        let document = Document::parse("\n[a]\n  k = \"é\"\n[[b]]\nl = [1,\n 2]\n", Format::Toml).expect("valid");
        let Value::Table(root) = &document.root().value else { panic!("a table") };
        let lines = |node: &Node| node.place.map(|place| (place.line, place.column));
        assert_eq!(lines(&root[0].node), Some((2, 1)));
        let Value::Table(a) = &root[0].node.value else { panic!("a table") };
        assert_eq!((lines(&a[0].node), a[0].place.map(|place| place.column)), (Some((3, 7)), Some(3)));
        let Value::List(b) = &root[1].node.value else { panic!("a list") };
        assert_eq!(lines(&b[0]), Some((4, 1)));
        let Value::Table(b) = &b[0].value else { panic!("a table") };
        let Value::List(l) = &b[0].node.value else { panic!("a list") };
        assert_eq!(lines(&l[1]), Some((6, 2)));
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let errors = |text: &str, format| Document::parse(text, format).expect_err(text);
        let toml = errors("a = 1\nb = \nc = 2\nc = 3\n", Format::Toml);
        assert_eq!(toml.len(), 2, "{toml:?}");
        assert_eq!(toml[0].place.map(|place| place.line), Some(2), "{toml:?}");
        assert_eq!(toml[1].place, Some(Place { line: 4, column: 1 }), "{toml:?}");
        let json = errors("{\"a\": 1,\n \"a\": 2}", Format::Json);
        assert!(json[0].message.contains("`a` appears twice"), "{json:?}");
        let json = errors("{\"a\": 1,\n oops}", Format::Json);
        assert_eq!(json[0].place, Some(Place { line: 2, column: 2 }), "{json:?}");
    }
}
