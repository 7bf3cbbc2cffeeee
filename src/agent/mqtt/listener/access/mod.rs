//! Who is let in, and what they may do.
//!
//! ```text
//! certificate ─────────────────────────────▶ its common name is the user name
//! user name and password ─▶ failures ─▶ known already? ─▶ argon2 ─▶ the user name
//! neither ─────────────────────────────────▶ without a name, from this machine alone
//! ```
//!
//! Verifying a password is made to take long (10 to 300 ms, and 8 MiB of memory or what its line
//! says): whoever asks [`Access::needs_hashing`] first can do it on a thread that may block, one
//! login at a time. A user's password that was right once is known again in microseconds, as long as
//! the line of the user is the same: a thousand devices that come back do not take minutes.
//!
//! Not done: groups, passwords of clients elsewhere than in the file, and answers that
//! differ by what exactly was wrong, which would help those who guess.

mod failures;
mod fingerprint;
pub mod hash;
pub mod passwords;
mod rules;

use core::fmt;
use core::hint::black_box;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::boot::AccessSpec;
use crate::model::access::{FilterError, Names, Subscribed};
use crate::model::time::{ProcTime, Span};

use failures::Failures;
use fingerprint::Key;
use passwords::{PasswordFileError, Passwords};
use rules::{Rule, Rules};

/// What the listener asks for each login, and for each topic. Copies share everything.
#[derive(Clone, Debug)]
pub struct Access {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rules: Rules,
    anonymous_on_loopback: bool,
    key: Key,
    /// A lock and no message: logins are verified on threads that may block, while the
    /// network's thread asks about others. It is never held while a password is hashed.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    passwords: Option<Passwords>,
    failures: Failures,
}

/// A client that wants to come in.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// Its id; empty if it came without, and then it fills no level of a rule.
    pub client_id: &'a str,
    /// The user name of its CONNECT.
    pub username: Option<&'a str>,
    /// The password of its CONNECT.
    pub password: Option<&'a [u8]>,
    /// The common name of its certificate, when that was checked.
    pub certificate_name: Option<&'a str>,
    /// It is on this machine: its address says so, or the socket is a Unix socket.
    pub is_loopback: bool,
    /// Where it comes from; `None` with a Unix socket.
    pub address: Option<IpAddr>,
}

impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("client_id", &self.client_id)
            .field("username", &self.username)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Who was let in: what the rules are asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The client's id. Anybody may take any: it proves nothing.
    pub client_id: String,
    /// The user name that was proven, if there is one.
    pub username: Option<String>,
    /// The rule for it.
    rule: Rule,
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No such user, or another password: it is not said which.
    #[error("user name or password is wrong")]
    BadCredentials,
    /// It shows nothing, and does not come from this machine, or that does not count.
    #[error("without a user name, and such clients are not let in here")]
    NotAuthorized,
    /// It calls itself otherwise than its certificate does.
    #[error("the user name is not the common name of the certificate")]
    CertificateMismatch,
    /// From where it comes there were too many wrong passwords.
    #[error("too many wrong passwords from this address: {} s to wait", wait.as_millis().div_ceil(1_000))]
    TooManyAttempts {
        /// How long nothing from there is looked at.
        wait: Span,
    },
}

impl Denied {
    /// What it is counted as.
    pub fn counter(self) -> &'static str {
        match self {
            Denied::BadCredentials => "bad_credentials",
            Denied::NotAuthorized => "not_authorized",
            Denied::CertificateMismatch => "certificate_mismatch",
            Denied::TooManyAttempts { .. } => "too_many_attempts",
        }
    }
}

/// Why there can be no [`Access`].
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The password file cannot be used.
    #[error(transparent)]
    Passwords(#[from] PasswordFileError),
    /// A filter that the check of the configuration would have refused.
    #[error("a filter of a rule: {0}")]
    Filter(#[from] FilterError),
    /// The operating system gives no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] std::io::Error),
}

/// What a login rests on.
enum Claim<'a> {
    Certificate(&'a str),
    Password(&'a str, &'a [u8]),
    Nothing,
}

impl Access {
    /// Reads the password file.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn new(spec: &AccessSpec) -> Result<Access, AccessError> {
        let passwords = spec.password_file.as_deref().map(Passwords::open).transpose()?;
        let state = State { passwords, failures: Failures::default() };
        let shared = Shared {
            rules: Rules::new(&spec.rules)?,
            anonymous_on_loopback: spec.anonymous_on_loopback,
            key: Key::random()?,
            state: Mutex::new(state),
        };
        Ok(Access { shared: Arc::new(shared) })
    }

    /// Whether [`Access::authenticate`] will hash, and so is to be called where that may take long.
    pub fn needs_hashing(&self, attempt: &Attempt<'_>, now: ProcTime) -> bool {
        let Ok(Claim::Password(user, password)) = self.claim(attempt) else { return false };
        let fingerprint = self.shared.key.of(user, password);
        let mut state = self.state();
        if state.failures.wait(attempt.address_that_counts(), now).is_some() {
            return false;
        }
        let Some(passwords) = &mut state.passwords else { return false };
        passwords.refresh(now);
        !passwords.is_verified(user, &fingerprint) && passwords.stored(user).is_some()
    }

    /// Lets the client in, or not.
    ///
    /// # Errors
    /// Why not.
    pub fn authenticate(&self, attempt: &Attempt<'_>, now: ProcTime) -> Result<Identity, Denied> {
        let username = match self.claim(attempt)? {
            Claim::Certificate(name) => Some(name),
            Claim::Nothing => None,
            Claim::Password(user, password) => {
                self.check_password(attempt, user, password, now)?;
                Some(user)
            }
        };
        Ok(Identity {
            client_id: attempt.client_id.to_owned(),
            username: username.map(str::to_owned),
            rule: self.shared.rules.rule_for(username),
        })
    }

    /// Whether messages of this client to `topic` are taken.
    pub fn may_publish(&self, identity: &Identity, topic: &str) -> bool {
        // MQTT keeps these for servers.
        !topic.starts_with('$') && self.shared.rules.may_publish(identity.rule, identity.names(), topic)
    }

    /// Whether this client may have a message to `topic`, whenever and by whatever rules its
    /// subscription was allowed. Asked for each delivery.
    pub fn may_receive(&self, identity: &Identity, topic: &str) -> bool {
        self.shared.rules.may_receive(identity.rule, identity.names(), topic)
    }

    /// Whether this client may subscribe to `filter`: all that it can match is within what the
    /// client may have, but for what is denied, and not all is denied.
    pub fn may_subscribe(&self, identity: &Identity, filter: &str) -> bool {
        let wanted = Subscribed::parse(filter);
        wanted.is_some_and(|wanted| self.shared.rules.may_subscribe(identity.rule, identity.names(), &wanted))
    }

    /// What is wrong with the password file, once; empty: nothing any more.
    pub fn notice(&self) -> Option<String> {
        self.state().passwords.as_mut().and_then(Passwords::take_notice)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in it is half done between two statements.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim<'a>(&self, attempt: &Attempt<'a>) -> Result<Claim<'a>, Denied> {
        if let Some(name) = attempt.certificate_name {
            return match attempt.username {
                Some(username) if username != name => Err(Denied::CertificateMismatch),
                Some(_) | None => Ok(Claim::Certificate(name)),
            };
        }
        let anonymous = attempt.is_loopback && self.shared.anonymous_on_loopback;
        let has_passwords = self.state().passwords.is_some();
        match (attempt.username, attempt.password) {
            // A name that nobody can check is no name; rules for it must not fit.
            _ if anonymous && !has_passwords => Ok(Claim::Nothing),
            (None, None) if anonymous => Ok(Claim::Nothing),
            (None, None) => Err(Denied::NotAuthorized),
            (Some(username), Some(password)) if has_passwords => Ok(Claim::Password(username, password)),
            (Some(_), _) | (None, Some(_)) => Err(Denied::BadCredentials),
        }
    }

    fn check_password(&self, attempt: &Attempt<'_>, user: &str, password: &[u8], now: ProcTime) -> Result<(), Denied> {
        let fingerprint = self.shared.key.of(user, password);
        let address = attempt.address_that_counts();
        let stored = {
            let mut state = self.state();
            if let Some(wait) = state.failures.wait(address, now) {
                return Err(Denied::TooManyAttempts { wait });
            }
            let Some(passwords) = &mut state.passwords else { return Err(Denied::BadCredentials) };
            passwords.refresh(now);
            if passwords.is_verified(user, &fingerprint) {
                state.failures.forget(address);
                return Ok(());
            }
            passwords.stored(user)
        };
        // An unknown user takes as long as a wrong password, and gets the same answer.
        let is_right = stored.as_ref().is_some_and(|stored| {
            let is_right = black_box(hash::verify(&stored.hash, password));
            is_right && stored.is_of_user
        });
        let mut state = self.state();
        if !is_right {
            state.failures.count(address, now);
            return Err(Denied::BadCredentials);
        }
        state.failures.forget(address);
        if let (Some(passwords), Some(stored)) = (&mut state.passwords, stored) {
            passwords.set_verified(user, &stored.hash, fingerprint);
        }
        Ok(())
    }
}

impl Attempt<'_> {
    /// Failures of this machine's own clients are not counted: one with a wrong password would
    /// lock all the others out.
    fn address_that_counts(&self) -> Option<IpAddr> {
        self.address.filter(|_| !self.is_loopback)
    }
}

impl Identity {
    fn names(&self) -> Names<'_> {
        Names { client_id: &self.client_id, username: self.username.as_deref() }
    }
}

#[cfg(test)]
mod tests;
