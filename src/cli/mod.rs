//! One file per subcommand.

pub mod broker_url;
pub mod demo;
pub mod receive;
