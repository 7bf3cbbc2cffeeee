//! JSON to the neutral tree. Values have no places: documents come from
//! machines, and a problem's path is enough for these.

use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{Entry, Node, Place, SyntaxError, Value};

/// Parses `text`.
pub(super) fn parse(text: &str) -> Result<Node, Vec<SyntaxError>> {
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // The place has its own field; cut it from the sentence.
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message).to_owned();
        vec![SyntaxError { place: Some(Place { line: error.line(), column: error.column() }), message }]
    })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(AnyValue).map(|value| Node { place: None, value })
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries: Vec<Entry> = Vec::new();
        while let Some((key, node)) = map.next_entry()? {
            entries.push(Entry { key, place: None, node });
        }
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].key == pair[1].key) {
            return Err(A::Error::custom(format_args!("the key `{}` appears twice", pair[0].key)));
        }
        Ok(Value::Table(entries))
    }
}
