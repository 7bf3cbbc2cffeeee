//! SIGINT and SIGTERM for the blocking commands: a flag that they look at.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Set once somebody asked the process to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first SIGINT or SIGTERM sets the flag instead of ending
    /// the process; the second one ends it, for those who lose patience.
    ///
    /// # Errors
    /// When the system gives no signal handler or no thread.
    pub fn watch() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut int, mut term) = {
            let _context = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let flag = interrupt.clone();
        // Not joined: it waits for signals until the process ends.
        thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async move {
                loop {
                    tokio::select! {
                        _ = int.recv() => {}
                        _ = term.recv() => {}
                    }
                    if flag.0.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                }
            });
        })?;
        Ok(interrupt)
    }

    /// Whether somebody asked.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
