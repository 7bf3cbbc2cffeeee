//! SIGINT and SIGTERM for the blocking commands: a number that they look at.
//!
//! The process itself is never ended from here: a command may have children
//! and half-written files to see to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

/// How often somebody asked the process to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicU32>);

impl Interrupt {
    /// From now on SIGINT and SIGTERM are counted instead of ending the process.
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
        let asked = interrupt.clone();
        // Not joined: it waits for signals until the process ends.
        thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async move {
                loop {
                    tokio::select! {
                        _ = int.recv() => {}
                        _ = term.recv() => {}
                    }
                    asked.0.fetch_add(1, Ordering::Relaxed);
                }
            });
        })?;
        Ok(interrupt)
    }

    /// Whether somebody asked.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Whether somebody asked again: they lose patience.
    pub fn is_urgent(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}
