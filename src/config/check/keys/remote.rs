//! The keys of `[remote]`.

use super::Need::{Default, Optional};
use super::forms::{BOOL, pattern};
use super::shape::{Form, Shape};
use super::{Section, key};

/// `[remote]`.
pub static REMOTE: Section = Section {
    id: "remote",
    title: "[remote]",
    keys: &[
        key("enabled", Default("true"), BOOL, "false", "`false`: nothing is taken over MQTT but readings"),
        key("local", Default("false"), BOOL, "true", "`true`: by the devices' broker too"),
        key(
            "public_key",
            Optional,
            Shape::Text(&PUBLIC_KEY),
            "'MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo='",
            "Ed25519, base64: only what is signed with its other half is taken, and nothing twice",
        ),
    ],
    cases: &[],
};

/// 32 bytes, or what `openssl pkey -pubout` prints between its two lines.
static PUBLIC_KEY: Form = pattern("^(?:MCowBQYDK2VwAyEA)?[A-Za-z0-9+/]{43}=$");
