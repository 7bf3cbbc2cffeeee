//! The rules, one test each.
