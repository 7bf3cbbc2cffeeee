//! The broker behind the listener: sessions, subscriptions, retained messages, last wills.
//!
//! Pure, and part of the state: what a client was promised is in the same commit as what its
//! messages did to the windows.

pub mod limits;
pub mod packet;
