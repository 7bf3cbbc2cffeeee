//! What an operator signs: desired documents and commands, so that whoever may publish on the
//! uplink's broker does not thereby own the gateways. Ed25519; both directions are here, so that
//! they cannot drift apart.
//!
//! ```text
//! payload    {"signed": "<a JSON text>", "signature": "<base64 of 64 bytes>"}
//! signature  over  tidegate/1 LF kind LF gateway id LF the JSON text
//! kind       config, or cmd/<name>
//! ```
//!
//! The text is signed as it is, byte for byte: no canonical form of JSON is needed, and none can
//! be got wrong. Kind and gateway are part of what is signed and not of what is sent: a document
//! for one gateway is worth nothing on the topic of another, nor as a command. What keeps an old
//! document from being sent again is its `version`, which is not looked at here.

use core::fmt::Write as _;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use crate::config::check::remote::key_of;
use crate::model::base64::{from_base64, push_base64};

/// Names this scheme; another one gets another number.
const CONTEXT: &str = "tidegate/1";
/// The kind of a desired document.
pub const CONFIG_KIND: &str = "config";

/// Why a payload is not what the operator has signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is JSON without a signature.
    #[error("it is not signed, and this gateway takes nothing else: `[remote] public_key` is set")]
    NotSigned,
    /// It is no JSON object, or one half of an envelope.
    #[error("it is no signed message: {0}")]
    Malformed(String),
    /// Another key, another gateway, another kind, or changed on the way.
    #[error("its signature is not that of this gateway's key, for this gateway and this topic")]
    WrongSignature,
}

#[derive(Serialize, Deserialize)]
struct Envelope<'t> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signed: Option<std::borrow::Cow<'t, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<std::borrow::Cow<'t, str>>,
}

/// The kind of a command of this name.
pub fn command_kind(name: &str) -> String {
    format!("cmd/{name}")
}

/// What the signature is over. No line feed can be in a kind or in a gateway's id, so no two
/// messages have the same bytes.
pub fn signing_text(kind: &str, gateway: &str, text: &str) -> Vec<u8> {
    [CONTEXT, "\n", kind, "\n", gateway, "\n", text].concat().into_bytes()
}

/// Signs `text`: the payload to publish.
pub fn seal(key: &Ed25519KeyPair, kind: &str, gateway: &str, text: &str) -> String {
    let signature = key.sign(&signing_text(kind, gateway, text));
    let mut encoded = String::new();
    push_base64(&mut encoded, signature.as_ref());
    let envelope = Envelope { signed: Some(text.into()), signature: Some(encoded.into()) };
    serde_json::to_string(&envelope).expect("two texts are JSON")
}

/// The text that was signed, if it was signed with this key, as this kind, for this gateway.
///
/// # Errors
/// [`OpenError`].
pub fn open(public_key: &[u8; 32], kind: &str, gateway: &str, payload: &[u8]) -> Result<String, OpenError> {
    // A list of two texts would be taken for the fields in their order.
    if payload.trim_ascii_start().first() != Some(&b'{') {
        return Err(OpenError::Malformed("no JSON object".into()));
    }
    let envelope: Envelope<'_> =
        serde_json::from_slice(payload).map_err(|error| OpenError::Malformed(error.to_string()))?;
    let (text, signature) = match (envelope.signed, envelope.signature) {
        (Some(text), Some(signature)) => (text, signature),
        (None, None) => return Err(OpenError::NotSigned),
        (Some(_), None) => return Err(OpenError::Malformed("`signature` is missing".into())),
        (None, Some(_)) => return Err(OpenError::Malformed("`signed` is missing".into())),
    };
    let signature = from_base64(&signature).ok_or_else(|| OpenError::Malformed("`signature` is not base64".into()))?;
    UnparsedPublicKey::new(&ED25519, public_key)
        .verify(&signing_text(kind, gateway, &text), &signature)
        .map_err(|_unspecified| OpenError::WrongSignature)?;
    Ok(text.into_owned())
}

/// Reads a public key: base64 of its 32 bytes, or the line that `openssl pkey -pubout` prints
/// between the two with dashes.
///
/// # Errors
/// A sentence for a person.
pub fn public_key(text: &str) -> Result<[u8; 32], String> {
    key_of(text.trim()).ok_or_else(|| {
        "expected an Ed25519 public key in base64: what `tidegate remote key` prints, or the line within \
         `openssl pkey -pubout`"
            .to_owned()
    })
}

/// The public half as text, as [`public_key`] reads it.
pub fn public_key_text(key: &Ed25519KeyPair) -> String {
    let mut text = String::new();
    push_base64(&mut text, key.public_key().as_ref());
    text
}

/// Reads a private key as `openssl genpkey -algorithm ed25519` writes it.
///
/// # Errors
/// A sentence for a person; nothing of the key is in it.
pub fn private_key_pem(text: &str) -> Result<Ed25519KeyPair, String> {
    let wrong = |what: &str| {
        let mut message = what.to_owned();
        write!(message, "; expected what `openssl genpkey -algorithm ed25519` writes").expect("memory does not fail");
        message
    };
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") {
        return Err(wrong("the key is encrypted"));
    }
    let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_none| wrong("no PEM `PRIVATE KEY`"))?;
    // OpenSSL leaves the public half out, which the other function of this name insists on.
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).map_err(|_rejected| wrong("no Ed25519 key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl genpkey -algorithm ed25519`, for this test alone.
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                       MC4CAQAwBQYDK2VwBCIEID3x49AKOumpx+hcrqEhVLdILZ5v9m2ZSmCkoTmlT4Qd\n\
                       -----END PRIVATE KEY-----\n";
    /// Its line of `openssl pkey -pubout`.
    const PUBLIC: &str = "MCowBQYDK2VwAyEA8535X3GzQNQXOPGAuleTdsUXif7xJUeGugScq1QJd/M=";
    /// `openssl pkeyutl -sign -rawin` over `tidegate/1\nconfig\ngw-1\n{"version":7}`.
    const SIGNATURE: &str = "Ke5k7fLnNA1w7/axtsdAhAuU0HmplzBFji2+at7KuYmV4Sr/NQ3b899sQMsjHgRv9O8fa4OK7DfY65d/tA7/Cg==";
    const TEXT: &str = r#"{"version":7}"#;

    fn key() -> Ed25519KeyPair {
        private_key_pem(KEY).expect("a key of openssl")
    }

    fn public() -> [u8; 32] {
        public_key(PUBLIC).expect("a key of openssl")
    }

    #[test]
    fn what_is_sealed_is_what_openssl_signs_and_opens_again() {
        let sealed = seal(&key(), CONFIG_KIND, "gw-1", TEXT);
        assert_eq!(sealed, format!(r#"{{"signed":"{{\"version\":7}}","signature":"{SIGNATURE}"}}"#));
        assert_eq!(open(&public(), CONFIG_KIND, "gw-1", sealed.as_bytes()).as_deref(), Ok(TEXT));
    }

    #[test]
    fn for_another_gateway_or_on_another_topic_it_is_worth_nothing() {
        let sealed = seal(&key(), &command_kind("flush"), "gw-1", TEXT);
        let opened = |kind: &str, gateway: &str| open(&public(), kind, gateway, sealed.as_bytes());
        assert_eq!(opened("cmd/flush", "gw-1").as_deref(), Ok(TEXT));
        for (kind, gateway) in [("cmd/flush", "gw-2"), ("cmd/restart", "gw-1"), (CONFIG_KIND, "gw-1")] {
            assert_eq!(opened(kind, gateway), Err(OpenError::WrongSignature), "{kind} {gateway}");
        }
        let stranger = [7; 32];
        let opened = open(&stranger, "cmd/flush", "gw-1", sealed.as_bytes());
        assert_eq!(opened, Err(OpenError::WrongSignature));
    }

    #[test]
    fn a_flipped_bit_anywhere_is_refused() {
        let sealed = seal(&key(), CONFIG_KIND, "gw-1", TEXT).into_bytes();
        for at in 0..sealed.len() {
            for bit in 0..8 {
                let mut changed = sealed.clone();
                changed[at] ^= 1 << bit;
                assert!(open(&public(), CONFIG_KIND, "gw-1", &changed).is_err(), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn what_is_not_signed_is_told_from_what_is_broken() {
        let opened = |payload: &str| open(&public(), CONFIG_KIND, "gw-1", payload.as_bytes());
        assert_eq!(opened(TEXT), Err(OpenError::NotSigned));
        for broken in ["", "[]", "{", r#"{"signed":"{}"}"#, r#"{"signature":""}"#, r#"{"signed":1,"signature":""}"#] {
            assert!(matches!(opened(broken), Err(OpenError::Malformed(_))), "{broken}");
        }
        let not_base64 = r#"{"signed":"{}","signature":"?"}"#;
        assert!(matches!(opened(not_base64), Err(OpenError::Malformed(_))));
        assert_eq!(opened(r#"{"signed":"{}","signature":"AAAA"}"#), Err(OpenError::WrongSignature));
    }

    #[test]
    fn a_public_key_is_32_bytes_or_the_line_of_openssl() {
        let raw = public_key_text(&key());
        assert_eq!(public_key(&raw), public_key(PUBLIC));
        assert_eq!(public_key(&format!(" {PUBLIC}\n")), Ok(public()));
        for wrong in ["", "AAAA", "?", &PUBLIC[..56], &format!("A{PUBLIC}"), KEY] {
            assert!(public_key(wrong).unwrap_err().contains("expected an Ed25519 public key"), "{wrong}");
        }
    }

    #[test]
    fn a_key_that_cannot_sign_is_named_without_showing_it() {
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let other = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIE\n-----END PRIVATE KEY-----\n";
        for (wrong, part) in [("", "no PEM"), (encrypted, "is encrypted"), (other, "no Ed25519 key")] {
            let message = private_key_pem(wrong).map(|_| ()).unwrap_err();
            assert!(message.contains(part) && message.contains("openssl genpkey"), "{message}");
        }
    }
}
