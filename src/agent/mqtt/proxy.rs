//! Through an HTTP proxy to a broker: CONNECT, and what proxies answer to it.
//!
//! Nothing of the credentials, and none of the proxy's page, gets into a message.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::config::boot::ProxySpec;

use super::connection::LinkError;
use super::credentials;
use super::dial::authority;
use crate::model::base64::push_base64;

/// Bytes of an answer's head; proxies like to say who they are.
const HEAD_BYTES_MAX: usize = 8 * 1_024;

/// Asks for a way to `target`, a `host:port`.
///
/// # Errors
/// [`LinkError`]: the credentials cannot be read, the connection broke, or the answer was no.
pub async fn ask(stream: &mut TcpStream, proxy: &ProxySpec, target: &str) -> Result<(), LinkError> {
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some((username, password)) = &proxy.login {
        let password = credentials::read("proxy password", password)?;
        request.push_str("Proxy-Authorization: Basic ");
        push_base64(&mut request, format!("{}:{password}", username.0).as_bytes());
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    let at = authority(&proxy.host, proxy.port);
    let broken = |error: std::io::Error| LinkError::Broken(format!("the proxy {at}: {error}"));
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut head = Vec::new();
    // Byte by byte: what comes after the head belongs to the broker.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_BYTES_MAX {
            return Err(LinkError::Broken(format!("the proxy {at} answers with something that is no HTTP")));
        }
        let mut byte = [0];
        if stream.read(&mut byte).await.map_err(broken)? == 0 {
            return Err(LinkError::Broken(format!("the proxy {at} closed the connection without an answer")));
        }
        head.extend(byte);
    }
    match status(&head) {
        Some(200..300) => Ok(()),
        Some(407) if proxy.login.is_some() => {
            Err(LinkError::Broken(format!("the proxy {at} does not accept the user name and password (407)")))
        }
        Some(407) => Err(LinkError::Broken(format!(
            "the proxy {at} wants a user name and password (407): see `proxy` and `proxy_password_file`"
        ))),
        Some(code @ (401 | 403 | 405)) => {
            Err(LinkError::Broken(format!("the proxy {at} does not allow connections to {target} ({code})")))
        }
        Some(code @ 502..=504) => Err(LinkError::Broken(format!("the proxy {at} does not reach {target} ({code})"))),
        Some(code) => Err(LinkError::Broken(format!("the proxy {at} answers CONNECT {target} with status {code}"))),
        None => Err(LinkError::Broken(format!("the proxy {at} answers with something that is no HTTP"))),
    }
}

/// Of `HTTP/1.1 200 Connection established`.
fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\r').next()?).ok()?;
    let mut words = line.split(' ');
    let code = words.next().filter(|version| version.starts_with("HTTP/1.")).and_then(|_| words.next())?;
    code.parse().ok().filter(|_| code.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_has_a_version_and_three_digits() {
        for (line, code) in [
            ("HTTP/1.1 200 OK\r\n\r\n", Some(200)),
            ("HTTP/1.0 407\r\n\r\n", Some(407)),
            ("HTTP/2 200\r\n\r\n", None),
            ("HTTP/1.1 2000 OK\r\n", None),
            ("HTTP/1.1  200\r\n", None),
            ("SSH-2.0-x\r\n", None),
            ("", None),
        ] {
            assert_eq!(status(line.as_bytes()), code, "{line}");
        }
    }
}
