//! Files that only the agent should be able to read, looked at once at the start. The password
//! file of the listener is refused when others can read it, because everybody's hashes are in it
//! and the agent's own command writes it; a key that somebody has put there is used, and told.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tracing::warn;

use crate::config::boot::Config;

/// What everybody may do.
const MODE_OTHERS: u32 = 0o007;

/// Warns of private keys and passwords of this configuration that everybody may read or write.
pub(super) fn warn_of_open_files(config: &Config) {
    for (what, path) in files(config) {
        if let Some(mode) = open_mode(path) {
            let path = path.display();
            warn!(%path, "everybody may read or write this {what} (mode {mode:04o}): chmod 0600, or 0640 with the agent's group");
        }
    }
}

fn files(config: &Config) -> Vec<(&'static str, &Path)> {
    let brokers = || [&config.devices, &config.uplink].into_iter().flatten();
    let client = brokers().filter_map(|broker| broker.tls.as_ref()?.client.as_ref());
    let mut files: Vec<(&str, &Path)> = client.map(|client| ("private key", client.key_file.as_path())).collect();
    files.extend(brokers().filter_map(|broker| Some(("password file", broker.password_file.as_deref()?))));
    let sockets = config.listener.iter().flat_map(|listener| &listener.sockets);
    files.extend(sockets.filter_map(|socket| Some(("private key", socket.tls.as_ref()?.key_file.as_path()))));
    // Sockets share theirs.
    files.sort_unstable();
    files.dedup();
    files
}

/// `None`: it is as it should be, or cannot be looked at, which whoever reads it tells.
fn open_mode(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.mode() & 0o777;
    (mode & MODE_OTHERS != 0).then_some(mode)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use crate::config::check::check;

    use super::*;

    #[test]
    fn a_key_that_everybody_may_read_is_found_wherever_it_is_named() {
        let text = "gateway.id = 'g'\nstorage.path = '/s'\n\
            [uplink]\nbroker = 'mqtts://b'\nca_file = 'ca'\ncert_file = 'c'\nkey_file = 'up.key'\nusername = 'u'\npassword_file = 'p'\n\
            [listener]\ntls = ['127.0.0.1:1', '127.0.0.1:2']\ncert_file = 'c'\nkey_file = 'own.key'\n";
        let config = check(text, "t.toml").expect("valid").config;
        let names: Vec<&str> = files(&config).iter().filter_map(|(_, path)| path.to_str()).collect();
        assert_eq!(names, ["p", "own.key", "up.key"]);

        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        fs::write(&path, "").expect("written");
        for (mode, expected) in [(0o600, None), (0o640, None), (0o644, Some(0o644)), (0o602, Some(0o602))] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            assert_eq!(open_mode(&path), expected, "{mode:o}");
        }
        assert_eq!(open_mode(&dir.path().join("none")), None);
    }
}
