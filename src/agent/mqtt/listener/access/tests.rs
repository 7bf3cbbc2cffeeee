//! Logins, rules and the password file together.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::*;
use crate::config::boot::AccessRule;

const HERE: Attempt<'static> = Attempt {
    client_id: "c1",
    username: None,
    password: None,
    certificate_name: None,
    is_loopback: true,
    address: None,
};

fn there() -> Attempt<'static> {
    Attempt { is_loopback: false, address: Some(IpAddr::from([10, 0, 0, 7])), ..HERE }
}

fn login<'a>(user: &'a str, password: &'a str) -> Attempt<'a> {
    Attempt { username: Some(user), password: Some(password.as_bytes()), ..there() }
}

fn at(millis: u64) -> ProcTime {
    ProcTime::from_millis(millis)
}

fn write(path: &Path, users: &[(&str, &str)]) {
    let line = |(user, password): &(&str, &str)| format!("{user}:{}\n", hash::cheap(password.as_bytes()));
    let beside = path.with_extension("new");
    fs::write(&beside, users.iter().map(line).collect::<String>()).expect("written");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).expect("mode");
    fs::rename(beside, path).expect("renamed");
}

struct World {
    file: PathBuf,
    access: Access,
    _dir: tempfile::TempDir,
}

fn world(users: &[(&str, &str)]) -> World {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("passwords");
    write(&file, users);
    let spec = AccessSpec { password_file: Some(file.clone()), anonymous_on_loopback: false, rules: Vec::new() };
    World { access: Access::new(&spec).expect("good"), file, _dir: dir }
}

/// Who, and what they may publish to, subscribe to, and neither.
type Rule<'a> = (Option<&'a str>, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

fn with_rules(rules: &[Rule<'_>]) -> Access {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let rule = |(user, publish, subscribe, deny): &Rule<'_>| AccessRule {
        user: user.map(str::to_owned),
        publish: texts(publish),
        subscribe: texts(subscribe),
        deny: texts(deny),
    };
    let rules = rules.iter().map(rule).collect();
    Access::new(&AccessSpec { password_file: None, anonymous_on_loopback: true, rules }).expect("good")
}

fn named(access: &Access, client_id: &str, name: &str) -> Identity {
    let attempt = Attempt { client_id, certificate_name: Some(name), ..there() };
    access.authenticate(&attempt, at(0)).expect("a certificate is enough")
}

#[test]
fn without_a_name_only_clients_of_this_machine_come_in_and_only_where_that_counts() {
    let open = with_rules(&[]);
    assert_eq!(open.authenticate(&HERE, at(0)).map(|identity| identity.username), Ok(None));
    assert_eq!(open.authenticate(&there(), at(0)), Err(Denied::NotAuthorized));
    let World { access, .. } = &world(&[("anna", "secret")]);
    assert_eq!(access.authenticate(&HERE, at(0)), Err(Denied::NotAuthorized));
    let nothing = Access::new(&AccessSpec::default()).expect("good");
    assert_eq!(nothing.authenticate(&HERE, at(0)), Err(Denied::NotAuthorized));
    assert_eq!(nothing.authenticate(&login("anna", "secret"), at(0)), Err(Denied::BadCredentials));
}

#[test]
fn a_name_that_nobody_can_check_is_none() {
    let access = with_rules(&[(Some("*"), &["#"], &["#"], &[])]);
    let attempt = Attempt { username: Some("root"), password: Some(b"x"), ..HERE };
    let identity = access.authenticate(&attempt, at(0)).expect("from this machine");
    assert_eq!(identity.username, None);
    assert!(!access.may_publish(&identity, "a"), "the rule is for those with a name");
}

#[test]
fn a_password_is_right_for_its_user_alone() {
    let World { access, .. } = &world(&[("anna", "secret"), ("bert", "other")]);
    for (user, password, good) in [
        ("anna", "secret", true),
        ("anna", "other", false),
        ("bert", "secret", false),
        ("bert", "other", true),
        ("carl", "secret", false),
        ("", "", false),
        ("anna", "", false),
        ("anna", "secret", true),
    ] {
        let identity = access.authenticate(&login(user, password), at(0));
        let expected = if good { Ok(Some(user.to_owned())) } else { Err(Denied::BadCredentials) };
        assert_eq!(identity.map(|identity| identity.username), expected, "{user} {password}");
    }
    for attempt in [
        Attempt { password: None, ..login("anna", "") },
        Attempt { username: None, ..login("", "secret") },
        Attempt { password: None, is_loopback: true, address: None, ..login("anna", "") },
    ] {
        assert_eq!(access.authenticate(&attempt, at(0)), Err(Denied::BadCredentials), "{attempt:?}");
    }
    assert_eq!(access.authenticate(&there(), at(0)), Err(Denied::NotAuthorized));
    assert!(!format!("{:?} {access:?}", login("anna", "secret")).contains("secret"));
}

#[test]
fn a_login_that_was_right_is_not_hashed_again_until_its_line_changes() {
    let World { access, file, .. } = &world(&[("anna", "secret"), ("bert", "other")]);
    let (anna, bert) = (login("anna", "secret"), login("bert", "other"));
    assert!(access.needs_hashing(&anna, at(0)));
    assert!(access.needs_hashing(&login("carl", "secret"), at(0)), "one who is unknown takes as long");
    for attempt in [&anna, &bert] {
        access.authenticate(attempt, at(0)).expect("right");
        assert!(!access.needs_hashing(attempt, at(0)));
    }
    assert!(access.needs_hashing(&login("anna", "Secret"), at(0)));
    assert!(!access.needs_hashing(&HERE, at(0)) && !access.needs_hashing(&there(), at(0)));
    let certificate = Attempt { certificate_name: Some("anna"), ..anna };
    assert!(!access.needs_hashing(&certificate, at(0)));
    assert_eq!(access.notice(), None);

    let line_of_bert = fs::read_to_string(file).expect("read").lines().nth(1).expect("two lines").to_owned();
    write(file, &[("anna", "new")]);
    let text = fs::read_to_string(file).expect("read") + &line_of_bert + "\n";
    fs::write(file, text).expect("written");
    assert!(!access.needs_hashing(&anna, at(999)), "it is looked at once a second");
    assert!(access.needs_hashing(&anna, at(1_000)));
    assert!(!access.needs_hashing(&bert, at(1_000)), "the line is the same");
    assert_eq!(access.authenticate(&anna, at(1_000)), Err(Denied::BadCredentials));
    assert!(access.authenticate(&login("anna", "new"), at(1_000)).is_ok());
    assert_eq!(access.notice().as_deref(), Some(""), "nothing is wrong");
    assert_eq!(access.notice(), None, "once");
}

#[test]
fn a_file_that_cannot_be_used_any_more_leaves_the_users_and_is_told_once() {
    let World { access, file, .. } = &world(&[("anna", "secret")]);
    let anna = login("anna", "secret");
    fs::remove_file(file).expect("removed");
    assert!(access.authenticate(&anna, at(0)).is_ok());
    let notice = access.notice().expect("a notice");
    assert!(notice.contains("cannot be read") && notice.ends_with("stay as they were"), "{notice}");
    assert!(access.authenticate(&anna, at(2_000)).is_ok());
    assert_eq!(access.notice(), None);
    fs::write(file, "anna:secret\n").expect("written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("mode");
    assert!(access.authenticate(&anna, at(4_000)).is_ok());
    let notice = access.notice().expect("another one");
    assert!(notice.contains("line 1") && !notice.contains("secret"), "{notice}");
    write(file, &[("bert", "other")]);
    assert_eq!(access.authenticate(&anna, at(6_000)), Err(Denied::BadCredentials));
    assert!(access.authenticate(&login("bert", "other"), at(6_000)).is_ok());
    assert_eq!(access.notice().as_deref(), Some(""), "nothing is wrong");
}

#[test]
fn a_file_that_everybody_may_read_is_refused_and_told_how_to_mend_it() {
    let World { file, .. } = &world(&[("anna", "secret")]);
    let open = |mode| {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("mode");
        let spec = AccessSpec { password_file: Some(file.clone()), ..AccessSpec::default() };
        Access::new(&spec).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(open(0o640), Ok(()));
    for mode in [0o644, 0o604, 0o602] {
        let error = open(mode).expect_err("too open");
        assert!(error.contains(&format!("mode {mode:04o}")) && error.contains("chmod 0600"), "{error}");
    }
    let missing = AccessSpec { password_file: Some(file.with_extension("no")), ..AccessSpec::default() };
    assert!(Access::new(&missing).expect_err("missing").to_string().contains("cannot be read"));
}

#[test]
fn wrong_passwords_make_their_address_wait_and_no_other() {
    let World { access, .. } = &world(&[("anna", "secret")]);
    let wrong = login("anna", "x");
    for _ in 0..5 {
        assert_eq!(access.authenticate(&wrong, at(0)), Err(Denied::BadCredentials));
    }
    let right = login("anna", "secret");
    let Err(denied @ Denied::TooManyAttempts { wait }) = access.authenticate(&right, at(200)) else {
        panic!("it has to wait");
    };
    assert_eq!(wait, Span::from_millis(800));
    assert!(denied.to_string().ends_with("1 s to wait"), "{denied}");
    assert_eq!(denied.counter(), "too_many_attempts");
    assert!(!access.needs_hashing(&wrong, at(200)), "it is not looked at");
    let elsewhere = Attempt { address: Some(IpAddr::from([10, 0, 0, 8])), ..right };
    assert!(access.authenticate(&elsewhere, at(200)).is_ok());
    assert!(access.authenticate(&right, at(1_000)).is_ok());
    assert_eq!(access.authenticate(&wrong, at(1_000)), Err(Denied::BadCredentials), "and all is forgiven");
    assert!(access.authenticate(&right, at(1_000)).is_ok());
    let here = Attempt { is_loopback: true, address: Some(IpAddr::from([127, 0, 0, 1])), ..wrong };
    for _ in 0..20 {
        assert_eq!(access.authenticate(&here, at(0)), Err(Denied::BadCredentials));
    }
}

#[test]
fn the_name_of_a_certificate_is_the_user_name() {
    let access = with_rules(&[]);
    let with = |username| Attempt { certificate_name: Some("pump-7"), username, ..there() };
    for username in [None, Some("pump-7")] {
        let identity = access.authenticate(&with(username), at(0)).expect("let in");
        assert_eq!(identity.username.as_deref(), Some("pump-7"));
    }
    assert_eq!(access.authenticate(&with(Some("anna")), at(0)), Err(Denied::CertificateMismatch));
    assert_eq!(access.authenticate(&with(Some("")), at(0)), Err(Denied::CertificateMismatch));
}

#[test]
fn without_rules_everything_is_allowed_but_publishing_where_servers_do() {
    let access = with_rules(&[]);
    let identity = access.authenticate(&HERE, at(0)).expect("let in");
    for (topic, may) in [("a/b", true), ("/", true), ("$SYS/x", false), ("$", false)] {
        assert_eq!(access.may_publish(&identity, topic), may, "{topic}");
    }
    for filter in ["#", "a/+", "$SYS/#", "$share/g/a/#"] {
        assert!(access.may_subscribe(&identity, filter), "{filter}");
    }
    for topic in ["a/b", "$SYS/x"] {
        assert!(access.may_receive(&identity, topic), "{topic}");
    }
    for filter in ["", "a/#/b", "$share/g"] {
        assert!(!access.may_subscribe(&identity, filter), "{filter}");
    }
}

#[test]
fn the_first_rule_for_a_user_decides() {
    let access = with_rules(&[
        (Some("dash*"), &[], &["devices/#", "$SYS/#"], &["devices/+/secret/#"]),
        (Some("*"), &["devices/{username}/#", "by-id/{client_id}"], &["devices/{username}/#"], &[]),
    ]);
    let dash = named(&access, "c1", "dashboard");
    assert!(!access.may_publish(&dash, "devices/dashboard/x"), "the first rule alone counts");
    for (filter, may) in [
        ("devices/p/state", true),
        ("$share/g/devices/p/state", true),
        ("devices/+/state", true),
        ("devices/+/+", true),
        ("devices/#", true),
        ("devices/p/secret", false),
        ("devices/+/secret/#", false),
        ("devices/p/secret/+", false),
        ("$share/g/devices/p/secret/#", false),
        ("other", false),
        ("#", false),
        ("$SYS/uptime", true),
    ] {
        assert_eq!(access.may_subscribe(&dash, filter), may, "{filter}");
    }
    for (topic, may) in [
        ("devices/p/state", true),
        ("devices", true),
        ("devices/p/secret", false),
        ("devices/p/secret/x", false),
        ("other", false),
        ("$SYS/uptime", true),
    ] {
        assert_eq!(access.may_receive(&dash, topic), may, "{topic}");
    }
    let pump = named(&access, "c1", "pump-7");
    assert!(access.may_receive(&pump, "devices/pump-7/x") && !access.may_receive(&pump, "devices/pump-8/x"));
    for (topic, may) in [
        ("devices/pump-7/state", true),
        ("devices/pump-8/state", false),
        ("devices/c1/state", false),
        ("by-id/c1", true),
        ("by-id/c2", false),
        ("$SYS/x", false),
    ] {
        assert_eq!(access.may_publish(&pump, topic), may, "{topic}");
    }
    assert!(access.may_subscribe(&pump, "devices/pump-7/#") && !access.may_subscribe(&pump, "devices/+/#"));
    let nobody = access.authenticate(&HERE, at(0)).expect("let in");
    assert!(!access.may_publish(&nobody, "devices/x") && !access.may_subscribe(&nobody, "devices/x"), "no rule fits");
    assert!(!access.may_receive(&nobody, "devices/x"), "likewise");
}

#[test]
fn names_that_are_filters_get_nothing_by_it() {
    let access = with_rules(&[(Some("*"), &["d/{client_id}/#"], &["d/{username}/#"], &[])]);
    for name in ["+", "#", "a/b", "a+", "$SYS", ""] {
        let identity = named(&access, name, name);
        for topic in ["d/x", "d/x/y", "d/a/b/c", &format!("d/{name}/x")] {
            assert!(!access.may_publish(&identity, topic), "{name} {topic}");
        }
        for filter in ["d/+", "d/#", "#", "d/a/b/#", &format!("d/{name}/#")] {
            assert!(!access.may_subscribe(&identity, filter), "{name} {filter}");
        }
    }
}

#[test]
fn where_a_name_fills_no_level_of_deny_any_text_is_denied() {
    let access = with_rules(&[(Some("*"), &[], &["#"], &["d/{client_id}/#", "{username}"])]);
    let anna = named(&access, "c1", "anna");
    for (topic, may) in [("d/c1/x", false), ("d/c2/x", true), ("anna", false), ("bert", true)] {
        assert_eq!(access.may_receive(&anna, topic), may, "{topic}");
    }
    assert!(access.may_subscribe(&anna, "d/+") && !access.may_subscribe(&anna, "d/c1/+"));
    for name in ["+", "#", "a/b", "$SYS", ""] {
        let identity = named(&access, name, name);
        for (topic, may) in [("d", false), ("d/x", false), ("d/x/y", false), ("x", false), ("x/y", true)] {
            assert_eq!(access.may_receive(&identity, topic), may, "{name} {topic}");
        }
        for (filter, may) in [("d/+/x", false), ("d/+", false), ("d/#", false), ("x/#", true), ("#", true)] {
            assert_eq!(access.may_subscribe(&identity, filter), may, "{name} {filter}");
        }
    }
}
