//! User names, passwords and tokens, from files that are read on every connect:
//! whoever renews a token writes a new file, and the next connection uses it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::config::boot::{BrokerSpec, Credential};

use super::codec::TEXT_BYTES_MAX;

/// Why a credential cannot be read. Never shows any of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} file {}: {problem}", path.display())]
pub struct CredentialError {
    /// Such as `password`.
    what: &'static str,
    /// The file.
    path: PathBuf,
    /// What is wrong with it.
    problem: String,
}

/// User name and password for CONNECT; `None`: neither is configured.
///
/// # Errors
/// [`CredentialError`].
pub fn login(spec: &BrokerSpec) -> Result<Option<(String, String)>, CredentialError> {
    if spec.username.is_none() && spec.password.is_none() && spec.password_file.is_none() {
        return Ok(None);
    }
    let username = spec.username.as_ref().map(|username| read("user name", username)).transpose()?;
    let password = match (&spec.password, &spec.password_file) {
        (Some(password), _) => Some(password.0.clone()),
        (None, Some(path)) => Some(read_file("password", path)?),
        (None, None) => None,
    };
    Ok(Some((username.unwrap_or_default(), password.unwrap_or_default())))
}

/// The text, wherever it stands.
///
/// # Errors
/// [`CredentialError`].
pub fn read(what: &'static str, credential: &Credential) -> Result<String, CredentialError> {
    match credential {
        Credential::Text(text) => Ok(text.0.clone()),
        Credential::File(path) => read_file(what, path),
    }
}

/// The file's text without the line end that an editor leaves behind.
fn read_file(what: &'static str, path: &Path) -> Result<String, CredentialError> {
    let refuse = |problem: String| CredentialError { what, path: path.to_owned(), problem };
    let mut text = String::new();
    // With a line end, and one byte more to see that there is more.
    let most = u64::try_from(TEXT_BYTES_MAX + 3).expect("small");
    File::open(path)
        .and_then(|file| file.take(most).read_to_string(&mut text))
        .map_err(|error| refuse(error.to_string()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.len() > TEXT_BYTES_MAX {
        return Err(refuse(format!("has more than the {TEXT_BYTES_MAX} bytes that MQTT has room for")));
    }
    if text.contains('\0') {
        return Err(refuse("holds a NUL byte".into()));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_may_be_as_long_as_mqtt_allows_and_its_file_may_end_with_a_line() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("token");
        let read = |text: &str| {
            std::fs::write(&file, text).expect("written");
            read_file("password", &file)
        };
        let longest = "t".repeat(TEXT_BYTES_MAX);
        assert_eq!(read(&format!("{longest}\r\n")), Ok(longest.clone()));
        let refused = read(&format!("{longest}t\n")).expect_err("too long").to_string();
        assert!(refused.contains("more than the 65535 bytes") && !refused.contains("tttt"), "{refused}");
        assert!(read(&longest.repeat(3)).is_err());
        assert!(read("a\0b").is_err());
        assert_eq!(read(" with spaces \n"), Ok(" with spaces ".into()));
        let missing = read_file("user name", &dir.path().join("nowhere")).expect_err("missing").to_string();
        assert!(missing.starts_with("user name file ") && missing.contains("nowhere"), "{missing}");
    }
}
