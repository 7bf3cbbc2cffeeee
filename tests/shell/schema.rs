//! `tidegate schema` prints what docs/schema holds.

use std::process::{Command, Output};

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("schema").args(arguments).output().expect("it starts")
}

#[test]
fn the_command_prints_the_schemas_that_are_published() {
    let files = [
        (&[][..], include_str!("../../docs/schema/tidegate.schema.json")),
        (&["--desired"], include_str!("../../docs/schema/desired.schema.json")),
    ];
    for (arguments, published) in files {
        let output = tidegate(arguments);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert!(String::from_utf8(output.stdout).expect("UTF-8") == published, "{arguments:?}: see tests/docs.rs");
    }
    assert_eq!(tidegate(&["--desire"]).status.code(), Some(2));
}
