//! Configuration. PURE: text in, a checked [`boot::Config`] out, or every
//! problem at once.

pub mod boot;
pub mod check;
pub mod preset;
pub mod problem;
pub mod raw;
#[cfg(feature = "schema")]
pub mod schema;
