//! Joins across streams: exact promises, restarts at every point, and a batch join
//! to compare with.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batch;
mod interval;
mod redefined;
mod window;
mod world;
