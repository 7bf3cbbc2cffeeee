//! One line of standard input that nobody sees: without echo where it comes from a terminal.
//!
//! While it is typed, Ctrl-C ends the line instead of the program: otherwise the shell would be
//! left without echo. A `kill` from elsewhere still does that; `stty echo` undoes it.

use std::io::{self, BufRead, IsTerminal as _, Write as _};

use anyhow::{Context as _, bail};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// A terminal gives no longer lines, and it fits the CONNECT that the listener takes.
const PASSWORD_BYTES_MAX: usize = 4_000;
const CTRL_C: u8 = 0x03;

/// The terminal becomes what it was as soon as this is dropped.
struct Hidden {
    before: Termios,
}

impl Hidden {
    fn new() -> io::Result<Hidden> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        // The end of the line is seen, and Ctrl-C is one.
        modes.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON);
        modes.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        tcsetattr(&stdin, OptionalActions::Flush, &modes)?;
        Ok(Hidden { before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that has gone away needs no echo.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// Asks where somebody sits at a terminal; else reads one line.
///
/// # Errors
/// Nothing can be read, the line is too long, or it was broken off.
pub(super) fn read_password(prompt: &str) -> anyhow::Result<Vec<u8>> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return line(&mut stdin.lock());
    }
    let hidden = Hidden::new().context("switching the terminal's echo off")?;
    // After that: what is typed as soon as it is seen is hidden already. On standard error:
    // standard output may go into a file.
    let mut screen = io::stderr();
    write!(screen, "{prompt}").and_then(|()| screen.flush()).context("asking for the password")?;
    let read = line(&mut stdin.lock());
    drop(hidden);
    if read.is_err() {
        // Ctrl-C and Ctrl-D leave the cursor behind the question.
        let _ = writeln!(screen);
    }
    read
}

/// The bytes of one line, without its end. They need not be UTF-8.
fn line(input: &mut impl BufRead) -> anyhow::Result<Vec<u8>> {
    let mut line = Vec::new();
    // What the terminal ends a line with is there as soon as it is typed; a byte more than is
    // allowed is enough to say so.
    while line.len() <= PASSWORD_BYTES_MAX + 1 && !line.ends_with(b"\n") && !line.ends_with(&[CTRL_C]) {
        let found = input.fill_buf().context("reading the password")?;
        if found.is_empty() {
            break;
        }
        let end = found.iter().position(|byte| matches!(*byte, b'\n' | CTRL_C));
        let length = end.map_or(found.len(), |end| end + 1).min(PASSWORD_BYTES_MAX + 2 - line.len());
        line.extend_from_slice(&found[..length]);
        input.consume(length);
    }
    match line.pop() {
        None => bail!("there is no password on standard input: nothing was changed"),
        Some(CTRL_C) => bail!("broken off: nothing was changed"),
        Some(b'\n') if line.last() == Some(&b'\r') => _ = line.pop(),
        Some(b'\n') => {}
        // The last line of a file without its end.
        Some(last) => line.push(last),
    }
    if line.len() > PASSWORD_BYTES_MAX {
        bail!("the password is longer than {PASSWORD_BYTES_MAX} bytes");
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line_without_its_end() {
        for (input, password) in [
            (&b"secret\n"[..], &b"secret"[..]),
            (b"secret\r\nmore\n", b"secret"),
            (b"secret", b"secret"),
            (b" se\xff cret \n", b" se\xff cret "),
            (b"\n", b""),
            (b"a\rb\n", b"a\rb"),
        ] {
            assert_eq!(line(&mut &*input).expect("a line"), password);
        }
    }

    #[test]
    fn no_line_one_that_is_broken_off_and_one_that_is_too_long_are_refused() {
        let longest = vec![b'x'; PASSWORD_BYTES_MAX];
        assert_eq!(line(&mut &*[&longest[..], b"\r\n"].concat()).expect("a line"), longest);
        for (input, part) in [
            (Vec::new(), "no password on standard input"),
            (b"secr\x03\n".to_vec(), "broken off"),
            ([&longest[..], b"x\n"].concat(), "longer than 4000 bytes"),
            (vec![b'x'; 100_000], "longer than 4000 bytes"),
        ] {
            let error = line(&mut &*input).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
