//! `[remote]`: what is taken over MQTT beside readings.

use crate::config::boot::RemoteSpec;
use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::model::base64::from_base64;

use super::table::{Item, Table};

/// What stands in front of the key in a `SubjectPublicKeyInfo` (RFC 8410).
const PUBLIC_KEY_INFO: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// `None`: there is to be none.
pub(super) type Wanted = Option<RemoteSpec>;

/// Checks the section.
pub(super) fn check(table: &Table<'_>, has_devices: bool, report: &mut Report) -> Option<Wanted> {
    let enabled = truth(table, "enabled", true, report);
    let local = truth(table, "local", false, report);
    let public_key = match table.get("public_key") {
        None => Some(None),
        Some(item) => item.parsed("a public key", report, public_key).map(Some),
    };
    if local == Some(true) && !has_devices {
        let wrong = Wrong::new("there is no `devices` whose broker could be listened to");
        report.problem(&table.spot_of("local"), wrong);
    }
    let spec = RemoteSpec { local: local?, public_key: public_key? };
    Some(enabled?.then_some(spec))
}

fn truth(table: &Table<'_>, key: &str, otherwise: bool, report: &mut Report) -> Option<bool> {
    match table.get(key) {
        None => Some(otherwise),
        Some(Item { value: Value::Bool(wanted), .. }) => Some(*wanted),
        Some(item) => {
            report.problem(&item.spot, Wrong::new("must be true or false"));
            None
        }
    }
}

/// An Ed25519 public key in base64: its 32 bytes, alone or as `openssl pkey -pubout` has them.
pub fn key_of(text: &str) -> Option<[u8; 32]> {
    let bytes = from_base64(text)?;
    bytes.strip_prefix(&PUBLIC_KEY_INFO).unwrap_or(&bytes).try_into().ok()
}

fn public_key(text: &str) -> Result<[u8; 32], Wrong> {
    key_of(text).ok_or_else(|| {
        Wrong::new("must be an Ed25519 public key in base64")
            .hint("the line between BEGIN and END that `openssl pkey -in key.pem -pubout` prints")
    })
}
