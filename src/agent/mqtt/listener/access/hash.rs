//! Passwords and their hashes: argon2id, in the usual text form (`$argon2id$v=19$m=…`).

use std::io;

use argon2::password_hash::{PasswordHash, SaltString};
use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, PasswordVerifier as _, Version};

use crate::agent::clock;

/// Memory of a new hash in KiB. The unit of the service gives the agent 64 MiB, and logins are
/// verified one at a time: 8 MiB are there, the 19 that are often advised would hurt.
const MEMORY_KIB: u32 = 8 * 1_024;
/// Passes over it. Two take some 0.1 s on a Raspberry Pi Zero 2 (estimated from 10 ms on a PC): bearable for the first login
/// of each user after a start, and 10 guesses a second for who tries them here. It is below what
/// is advised for servers whose file of passwords is stolen: give devices long, random ones.
const PASSES: u32 = 2;
/// Lanes: one core hashes, the others have work to do.
const LANES: u32 = 1;
/// What hashes made elsewhere may take, or a line of the file could end the agent.
const MEMORY_KIB_MAX: u32 = 16 * 1_024;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 8;
const SALT_BYTES: usize = 16;

/// A new hash, with a salt of its own.
///
/// # Errors
/// The operating system gives no random bytes.
pub fn hash(password: &[u8]) -> io::Result<String> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(io::Error::other)?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let salt = SaltString::encode_b64(&clock::secret_bytes::<SALT_BYTES>()?).map_err(io::Error::other)?;
    let hash = argon2.hash_password(password, &salt).map_err(io::Error::other)?;
    Ok(hash.to_string())
}

/// Whether `password` is the one of `hash`. Takes as long as `hash` says.
pub fn verify(hash: &str, password: &[u8]) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
}

/// Looks at a hash without using it.
///
/// # Errors
/// What is wrong with it, in words that show nothing of it.
pub fn check(hash: &str) -> Result<(), String> {
    let parsed = PasswordHash::new(hash).map_err(|_| "no hash in the form `$argon2id$v=19$m=…`".to_owned())?;
    if parsed.algorithm != argon2::ARGON2ID_IDENT || parsed.version != Some(Version::V0x13.into()) {
        return Err("not argon2id in version 19".to_owned());
    }
    if parsed.salt.is_none() || parsed.hash.is_none() {
        return Err("a hash without salt or without result".to_owned());
    }
    let params = Params::try_from(&parsed).map_err(|_| "with parameters that argon2 does not have".to_owned())?;
    if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX || params.p_cost() > LANES_MAX {
        return Err(format!(
            "more costly than m={MEMORY_KIB_MAX},t={PASSES_MAX},p={LANES_MAX}: a login would take too much of the gateway"
        ));
    }
    Ok(())
}

/// A hash that takes a moment only, for tests.
#[cfg(test)]
pub(crate) fn cheap(password: &[u8]) -> String {
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(8, 1, 1, None).expect("lowest"));
    let salt = SaltString::encode_b64(&clock::secret_bytes::<SALT_BYTES>().expect("random bytes")).expect("a salt");
    argon2.hash_password(password, &salt).expect("a hash").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_its_password_and_says_how_it_was_made() {
        let made = hash(b"secret").expect("random bytes");
        assert!(made.starts_with("$argon2id$v=19$m=8192,t=2,p=1$"), "{made}");
        assert_eq!(check(&made), Ok(()));
        assert!(verify(&made, b"secret") && !verify(&made, b"Secret") && !verify(&made, b""));
        assert_ne!(hash(b"secret").expect("random bytes"), made, "each has a salt of its own");
        assert!(!verify("", b"secret") && !verify("$argon2id$", b"secret"));
    }

    #[test]
    fn hashes_of_another_kind_or_beyond_the_gateway_are_refused() {
        let good = cheap(b"x");
        assert_eq!(check(&good), Ok(()));
        for (from, to, part) in [
            ("$argon2id$", "$argon2i$", "not argon2id"),
            ("v=19", "v=16", "not argon2id in version 19"),
            ("m=8,", "m=65536,", "more costly"),
            ("t=1,", "t=99,", "more costly"),
            ("p=1$", "p=9$", "argon2"),
            ("$argon2id", "argon2id", "no hash"),
        ] {
            assert!(good.contains(from), "{good}");
            let error = check(&good.replacen(from, to, 1)).expect_err(to);
            assert!(error.contains(part) && !error.contains("m=8"), "{to}: {error}");
        }
        for text in ["", "secret", "$argon2id$v=19$m=8,t=1,p=1", "$7$101$abc$def"] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
