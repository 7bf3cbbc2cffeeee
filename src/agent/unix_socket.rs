//! Sockets in the file system: a path that a person wrote may lead to anything.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use tokio::net::UnixListener;

/// Whoever is in the socket's group may use it.
const MODE: u32 = 0o660;

/// Opens a socket; has to be called within the runtime. Directories are made. A socket left
/// behind by an agent that was killed is removed; one that is answered is not, nor is anything
/// else that lies there.
///
/// # Errors
/// Another process listens there, something else is there, or the operating system refuses.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "something that is not a socket is in its place"));
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => return Err(io::Error::new(ErrorKind::AddrInUse, "another agent answers on this socket")),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Err(error) => return Err(error),
        },
        Err(_nothing_there) => {}
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_socket_that_nobody_answers_makes_way() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deeper/socket");
        let first = bind(&path).expect("nothing is there");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        assert_eq!(bind(&path).expect_err("it is answered").kind(), ErrorKind::AddrInUse);
        drop(first);
        bind(&path).expect("what a killed agent has left");
        for (name, make) in [
            ("file", (|path: &Path| fs::write(path, "precious")) as fn(&Path) -> io::Result<()>),
            ("directory", |path| fs::create_dir(path)),
            ("link", |path| std::os::unix::fs::symlink("file", path)),
        ] {
            let path = directory.path().join(name);
            make(&path).expect("it can be made");
            assert_eq!(bind(&path).expect_err(name).kind(), ErrorKind::AlreadyExists, "{name}");
            assert!(fs::symlink_metadata(&path).is_ok(), "{name} is still there");
        }
        assert_eq!(fs::read_to_string(directory.path().join("file")).expect("untouched"), "precious");
    }
}
