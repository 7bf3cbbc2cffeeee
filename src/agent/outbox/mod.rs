//! Looking into the outbox from outside: of a running agent over its control socket, or
//! in the files of one that does not run; and repairing the latter.
//!
//! ```text
//! running   command line ─ socket ─▶ viewer ─ inbox ─▶ engine thread: a piece, a copy
//!                                      └──── block ───▶ chain, on a thread of its own
//! stopped   command line ─▶ stopped: pages (a copy) and chain, read only
//! ```
//!
//! Either way the rows come in pieces of some 44 KiB ([`page`]), so that nobody holds
//! much and the engine thread is never held up: it hands a piece over without reading or
//! encoding anything.

pub mod overview;
pub mod page;
pub mod repair;
pub mod source;
mod stopped;
pub mod viewer;
