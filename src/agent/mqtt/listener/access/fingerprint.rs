//! What is remembered of a password that was right: a hash under a key that this process
//! alone has, in memory alone. It recognises the password, and says nothing to who reads it
//! without the key.

use std::io;

use argon2::{Algorithm, Argon2, Params, Version};

use crate::agent::clock;

const BYTES: usize = 32;

/// One user with one password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Fingerprint([u8; BYTES]);

/// What fingerprints are made with.
#[derive(Clone)]
pub(super) struct Key {
    secret: [u8; BYTES],
    salt: [u8; BYTES],
}

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub(super) fn random() -> io::Result<Key> {
        Ok(Key { secret: clock::secret_bytes()?, salt: clock::secret_bytes()? })
    }

    /// The fingerprint of a login. It is argon2's own hash, keyed, at its lowest cost (8 KiB, one pass:
    /// some 20 µs): whoever has the key has this process, and with it each password as it comes in.
    pub(super) fn of(&self, user: &str, password: &[u8]) -> Fingerprint {
        let params = Params::new(Params::MIN_M_COST, Params::MIN_T_COST, Params::MIN_P_COST, Some(BYTES))
            .expect("the lowest values are allowed");
        let argon2 = Argon2::new_with_secret(&self.secret, Algorithm::Argon2id, Version::V0x13, params)
            .expect("a secret may have 32 bytes");
        // argon2 hashes the lengths too: `ab` with `c` is not `a` with `bc`.
        let salt = [&self.salt[..], user.as_bytes()].concat();
        let mut out = [0; BYTES];
        argon2
            .hash_password_into(password, &salt, &mut out)
            .expect("password and salt are of a packet, and shorter than 2^32 bytes");
        Fingerprint(out)
    }
}

impl core::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("***")
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_of_one_user_one_password_and_one_key() {
        let key = Key::random().expect("random bytes");
        let one = key.of("anna", b"secret");
        assert_eq!(key.of("anna", b"secret"), one);
        for other in [key.of("anna", b"Secret"), key.of("ann", b"asecret"), key.of("annas", b"ecret"), key.of("", b"")]
        {
            assert_ne!(other, one);
        }
        assert_ne!(Key::random().expect("random bytes").of("anna", b"secret"), one);
        assert_eq!(format!("{one:?} {key:?}"), "*** ***");
    }
}
