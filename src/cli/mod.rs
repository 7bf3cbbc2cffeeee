//! One file per subcommand.

pub mod broker_url;
pub mod check;
pub mod demo;
pub mod receive;
pub mod run;
pub mod status;
