//! `tidegate check FILE`: every problem of a configuration at once.
//!
//! Exit code 0: it may be used (warnings do not change that). 1: it may not. 2:
//! it could not be read. Problems and warnings go to standard error, one `ok`
//! line to standard output.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::config::boot::Config;
use crate::config::check::listener::shown;
use crate::config::check::{Checked, Refused, check};
use crate::config::preset;
use crate::config::problem::Problem;

use super::run::CONFIG_DEFAULT;
use super::{EXIT_USAGE, read_text};

/// Checks a configuration file and reports every problem at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file (TOML, or JSON by the name's ending)
    #[arg(value_name = "FILE", default_value = CONFIG_DEFAULT)]
    file: PathBuf,

    /// The same, spelt as for `run`
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,

    /// Print the listener and the streams in full: with all defaults, and the keys of presets
    #[arg(long)]
    show: bool,
}

/// Reads and checks the file.
///
/// # Errors
/// None: a file that cannot be read is exit code 2, with a sentence that says why.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = args.config.unwrap_or(args.file);
    let file = path.display().to_string();
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    let result = check(&text, &file);
    let code = ExitCode::from(u8::from(result.is_err()));
    // A closed pipe is no reason to change the verdict.
    let _ = print(&result, &file, &mut io::stdout().lock(), &mut io::stderr().lock());
    if let Some(listener) = args.show.then(|| shown::listener(&text, &file)).flatten() {
        let _ = write!(io::stdout().lock(), "\n{listener}");
    }
    if let Some(streams) = args.show.then(|| preset::shown(&text, &file)).flatten() {
        let _ = write!(io::stdout().lock(), "\n{streams}");
    }
    Ok(code)
}

/// Writes what was found in `file`.
///
/// # Errors
/// What writing gives.
pub fn print(
    result: &Result<Checked<Config>, Refused>,
    file: &str,
    out: &mut impl Write,
    err: &mut impl Write,
) -> io::Result<()> {
    let warnings = |warnings: &[Problem], err: &mut dyn Write| {
        warnings.iter().try_for_each(|warning| writeln!(err, "warning: {warning}"))
    };
    match result {
        Ok(checked) => {
            warnings(&checked.warnings, err)?;
            let streams = &checked.config.pipeline.streams;
            let windows: usize = streams.iter().map(|stream| stream.windows.len()).sum();
            let hash = &checked.hash;
            let plural = |count: usize| if count == 1 { "" } else { "s" };
            let streams = streams.len();
            let (s, w) = (plural(streams), plural(windows));
            writeln!(out, "{file}: ok, {streams} stream{s}, {windows} window{w}, hash {hash}")
        }
        Err(refused) => {
            warnings(&refused.warnings, err)?;
            refused.problems.iter().try_for_each(|problem| writeln!(err, "error: {problem}"))?;
            writeln!(err, "{file}: {}", refused.count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        print(&check(text, "t.toml"), "t.toml", &mut out, &mut err).expect("a vector takes everything");
        (String::from_utf8(out).expect("UTF-8"), String::from_utf8(err).expect("UTF-8"))
    }

    #[test]
    fn a_good_file_is_one_line_and_a_bad_one_all_its_problems() {
        let good = "gateway.id = 'g'\ndevices.broker = 'mqtt://a'\nuplink.broker = 'mqtt://b'\nstorage.path = '/s'\n";
        let (out, err) = printed(good);
        assert!(out.starts_with("t.toml: ok, 0 streams, 0 windows, hash "), "{out}");
        assert!(err.starts_with("warning: t.toml: streams: there is none"), "{err}");
        let (out, err) = printed(&good.replace("mqtt://a", "a").replace("'/s'", "7"));
        assert_eq!(out, "");
        assert!(
            err.contains("error: t.toml:2:18: devices.broker") && err.contains("error: t.toml:4:16: storage.path"),
            "{err}"
        );
        assert!(err.ends_with("t.toml: 2 problems\n"), "{err}");
        let (_, err) = printed(&good.replace("mqtt://a", "a"));
        assert!(err.ends_with("t.toml: 1 problem\n"), "{err}");
    }
}
