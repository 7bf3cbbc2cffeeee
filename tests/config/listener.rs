//! `[listener]`: when there is one, what it says, and every way in which it is wrong.

use tidegate::config::boot::{AccessRule, AccessSpec, ConnectionLimits, ServerTlsSpec, SocketAddress, SocketSpec};
use tidegate::config::check::listener::shown;
use tidegate::engine::broker::limits::BrokerLimits;
use tidegate::model::limits::LISTENER_COST_MAX;

use super::*;

/// Every key, each with a value that is not its default.
const LISTENER: &str = r#"
[listener]
tcp = ["127.0.0.1:1883", "[::1]:1883"]
tls = "0.0.0.0:8883"
websocket = "127.0.0.1:8080"
websocket_tls = "[::]:8443"
unix = "/run/tidegate/mqtt.sock"
cert_file = "/etc/tidegate/cert.pem"
key_file = "/etc/tidegate/key.pem"
client_ca_file = "/etc/tidegate/clients.pem"
client_cert = "optional"
password_file = "/etc/tidegate/listener.passwords"
anonymous = "loopback"
ack_within = "20ms"
session_expiry_max = "1d"
keep_alive_max = "60s"
connect_within = "10s"
max_connections = 100
max_connections_per_address = 10
max_packet = "4KiB"
max_messages_per_second = 50
max_sessions = 200
max_subscriptions = 16
subscriptions_size = "512KiB"
max_in_flight = 20
queue_messages = 100
queue_size = "1MiB"
retained_messages = 50
retained_size = "128KiB"
memory = "2MiB"

[[listener.rules]]
user = "dash*"
subscribe = "devices/#"

[[listener.rules]]
user = "*"
publish = ["devices/{username}/#", "status/{client_id}"]
subscribe = ["devices/{username}/#", "$SYS/#"]
deny = "devices/+/secret/#"

[[listener.rules]]
publish = "local/#"
"#;

/// `MINIMAL` with this instead of `[devices]`.
fn with(listener: &str) -> String {
    MINIMAL.replace("[devices]\nbroker = \"mqtt://127.0.0.1\"\n", listener)
}

fn tcp(address: &str) -> SocketSpec {
    SocketSpec { address: SocketAddress::Tcp(address.parse().unwrap()), websocket: false, tls: None }
}

fn listener(text: &str) -> tidegate::config::boot::ListenerSpec {
    accepted(&with(&format!("{text}\n"))).config.listener.unwrap()
}

#[test]
fn there_is_a_listener_with_its_section_or_without_devices() {
    let devices = "[devices]\nbroker = \"mqtt://127.0.0.1:1884\"\n";
    for (sections, has_devices, has_listener) in [
        ("", false, true),
        (devices, true, false),
        ("[listener]\n", false, true),
        (&format!("{devices}[listener]\n"), true, true),
    ] {
        let Checked { config, warnings, .. } = accepted(&with(sections));
        assert_eq!(warnings, []);
        assert_eq!(config.devices.is_some(), has_devices, "{sections}");
        assert_eq!(config.listener.is_some(), has_listener, "{sections}");
        assert_eq!(config.pipeline.broker.is_some(), has_listener, "{sections}");
        let replay = check_for_replay(&with(sections), "t.toml").unwrap();
        assert_eq!(replay.config.broker, None, "{sections}");
    }
}

#[test]
fn its_defaults_are_those_of_the_program() {
    let config = accepted(&with("")).config;
    let listener = config.listener.unwrap();
    assert_eq!(listener.sockets, [tcp("127.0.0.1:1883")]);
    assert_eq!(listener.access, AccessSpec { password_file: None, anonymous_on_loopback: true, rules: Vec::new() });
    assert_eq!(listener.limits, ConnectionLimits::default());
    assert_eq!(config.pipeline.broker, Some(BrokerLimits::default()));
}

#[test]
fn a_full_listener_says_what_it_says() {
    let Checked { config, warnings, .. } = accepted(&with(LISTENER));
    assert_eq!(warnings, []);
    let listener = config.listener.unwrap();
    let tls = Some(ServerTlsSpec {
        cert_file: "/etc/tidegate/cert.pem".into(),
        key_file: "/etc/tidegate/key.pem".into(),
        client_ca_file: Some("/etc/tidegate/clients.pem".into()),
        client_cert_required: false,
    });
    assert_eq!(
        listener.sockets,
        [
            tcp("127.0.0.1:1883"),
            tcp("[::1]:1883"),
            SocketSpec { tls: tls.clone(), ..tcp("0.0.0.0:8883") },
            SocketSpec { websocket: true, ..tcp("127.0.0.1:8080") },
            SocketSpec { websocket: true, tls, ..tcp("[::]:8443") },
            SocketSpec { address: SocketAddress::Unix("/run/tidegate/mqtt.sock".into()), websocket: false, tls: None },
        ]
    );
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        listener.access,
        AccessSpec {
            password_file: Some("/etc/tidegate/listener.passwords".into()),
            anonymous_on_loopback: true,
            rules: vec![
                AccessRule {
                    user: Some("dash*".into()),
                    publish: texts(&[]),
                    subscribe: texts(&["devices/#"]),
                    deny: texts(&[])
                },
                AccessRule {
                    user: Some("*".into()),
                    publish: texts(&["devices/{username}/#", "status/{client_id}"]),
                    subscribe: texts(&["devices/{username}/#", "$SYS/#"]),
                    deny: texts(&["devices/+/secret/#"]),
                },
                AccessRule { user: None, publish: texts(&["local/#"]), subscribe: texts(&[]), deny: texts(&[]) },
            ],
        }
    );
}

#[test]
fn a_full_listener_limits_what_it_says() {
    let Checked { config, .. } = accepted(&with(LISTENER));
    assert_eq!(
        config.listener.unwrap().limits,
        ConnectionLimits {
            connections: 100,
            connections_per_address: 10,
            packet_bytes: 4 << 10,
            connect_bytes: 4 << 10,
            memory_bytes: 2 << 20,
            messages_per_second: 50,
            connect_within: Span::from_secs(10),
            keep_alive_max: Span::from_secs(60),
        }
    );
    assert_eq!(
        config.pipeline.broker,
        Some(BrokerLimits {
            sessions: 200,
            subscriptions: 16,
            subscription_bytes: 512 << 10,
            in_flight: 20,
            queue_messages: 100,
            queue_bytes: 1 << 20,
            retained_messages: 50,
            retained_bytes: 128 << 10,
            session_expiry_max: Span::from_secs(86_400),
            ack_within: Span::from_millis(20),
        })
    );
}

#[test]
fn who_needs_no_name_follows_from_the_passwords() {
    let anonymous = |text: &str| listener(&format!("[listener]\n{text}")).access.anonymous_on_loopback;
    assert!(anonymous(""));
    assert!(!anonymous("password_file = \"/p\""));
    assert!(anonymous("password_file = \"/p\"\nanonymous = \"loopback\""));
    assert!(!anonymous("password_file = \"/p\"\nanonymous = \"never\""));
    let tls = "tls = \"0.0.0.0:8883\"\ncert_file = \"/c\"\nkey_file = \"/k\"\nclient_ca_file = \"/a\"";
    let spec = listener(&format!("[listener]\n{tls}"));
    assert!(spec.sockets[0].tls.as_ref().unwrap().client_cert_required, "certificates are what lets in");
}

#[test]
fn results_are_published_to_the_listeners_clients_too() {
    let config = accepted(&with("[listener]\n[local]\nretain = true\n")).config;
    assert_eq!(config.local, Some(LocalSpec { retain: true, acknowledged: false }));
    assert!(config.pipeline.local && config.devices.is_none() && config.listener.is_some());
}

/// One change to [`LISTENER`], and the problems it makes.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

#[rustfmt::skip]
const WRONG: &[Case] = &[
    // --- sockets
    ("\"127.0.0.1:8080\"", "8080", &[("websocket", "must be an address with a port, such as \"127.0.0.1:8080\", not an integer")]),
    ("\"127.0.0.1:8080\"", "\"8080\"", &[("websocket", "\"0.0.0.0:8080\"")]),
    ("\"127.0.0.1:8080\"", "\":8080\"", &[("websocket", "\"0.0.0.0:8080\"")]),
    ("\"127.0.0.1:8080\"", "\"127.0.0.1\"", &[("websocket", "\"127.0.0.1:8080\"")]),
    ("\"127.0.0.1:8080\"", "\"::1\"", &[("websocket", "\"[::1]:8080\"")]),
    ("\"127.0.0.1:8080\"", "\"localhost:8080\"", &[("websocket", "\"127.0.0.1:8080\"")]),
    ("\"127.0.0.1:8080\"", "\"gateway:8080\"", &[("websocket", "the address of gateway, not its name")]),
    ("\"127.0.0.1:8080\"", "\"ws://127.0.0.1:8080\"", &[("websocket", "without a scheme")]),
    ("\"127.0.0.1:8080\"", "\"127.0.0.1:0\"", &[("websocket", "1 to 65535")]),
    ("\"127.0.0.1:8080\"", "[]", &[("websocket", "1 to 8 are allowed")]),
    ("\"127.0.0.1:8080\"", "\"127.0.0.1:1883\"", &[("websocket", "listener.tcp[0] takes this port already")]),
    ("\"127.0.0.1:8080\"", "\"127.0.0.1:8883\"", &[("websocket", "listener.tls takes this port already")]),
    ("\"127.0.0.1:8080\"", "\"127.0.0.1:8443\"", &[("websocket_tls", "listener.websocket takes this port already")]),
    ("\"[::1]:1883\"", "\"127.0.0.1:1883\"", &[("tcp[1]", "listener.tcp[0] takes this port already")]),
    // --- TLS
    ("cert_file = \"/etc/tidegate/cert.pem\"\n", "", &[("cert_file", "`tls` needs it")]),
    ("key_file = \"/etc/tidegate/key.pem\"\n", "", &[("key_file", "`tls` needs it")]),
    ("client_ca_file = \"/etc/tidegate/clients.pem\"\n", "", &[("client_cert", "is of no use without `client_ca_file`")]),
    ("\"optional\"", "\"optionl\"", &[("client_cert", "did you mean \"optional\"?")]),
    ("tls = \"0.0.0.0:8883\"\nwebsocket = \"127.0.0.1:8080\"\nwebsocket_tls = \"[::]:8443\"\n", "", &[
        ("cert_file", "no socket has TLS"), ("key_file", "no socket has TLS"),
        ("client_ca_file", "no socket has TLS"), ("client_cert", "no socket has TLS"),
    ]),
    // --- who gets in
    ("anonymous = \"loopback\"", "anonymous = \"always\"", &[("anonymous", "must be \"loopback\" or \"never\"")]),
    ("\"/etc/tidegate/listener.passwords\"", "7", &[("password_file", "must be a path")]),
    // --- bounds
    ("\"20ms\"", "\"11s\"", &[("ack_within", "must be from 1ms to 10s")]),
    ("\"1d\"", "\"0s\"", &[("session_expiry_max", "must be from 1m to 366d")]),
    ("\"60s\"", "\"1s\"", &[("keep_alive_max", "must be from 5s to 18h")]),
    ("\"60s\"", "60", &[("keep_alive_max", "\"60s\"")]),
    ("\"10s\"", "\"2m\"", &[("connect_within", "must be from 1s to 1m")]),
    ("max_connections = 100", "max_connections = 0", &[("max_connections", "1 to 50000")]),
    ("max_connections = 100", "max_conections = 100", &[("max_conections", "did you mean `max_connections`?")]),
    ("per_address = 10", "per_address = \"10\"", &[("max_connections_per_address", "must be an integer")]),
    ("\"4KiB\"", "\"1MiB\"", &[("max_packet", "must be from 1KiB to 256KiB")]),
    ("per_second = 50", "per_second = 0", &[("max_messages_per_second", "1 to 100000")]),
    ("per_second = 50", "per_second = \"no\"", &[("max_messages_per_second", "or \"off\"")]),
    ("max_sessions = 200", "max_sessions = 60000", &[("max_sessions", "1 to 50000")]),
    ("max_subscriptions = 16", "max_subscriptions = 2000", &[("max_subscriptions", "1 to 1024")]),
    ("subscriptions_size = \"512KiB\"", "subscriptions_size = \"1KiB\"", &[("subscriptions_size", "64KiB to 64MiB")]),
    ("max_in_flight = 20", "max_in_flight = 65535", &[("max_in_flight", "1 to 1000")]),
    ("queue_messages = 100", "queue_messages = -1", &[("queue_messages", "1 to 100000")]),
    ("\"1MiB\"", "\"1GiB\"", &[("queue_size", "must be from 64KiB to 32MiB")]),
    ("retained_messages = 50", "retained_messages = 0", &[("retained_messages", "1 to 100000")]),
    ("\"128KiB\"", "\"1KiB\"", &[("retained_size", "must be from 64KiB to 32MiB")]),
    ("\"2MiB\"", "\"2MB\"", &[("memory", "\"2MiB\"")]),
    // --- rules
    ("publish = \"local/#\"", "publsh = \"local/#\"", &[("rules[2].publsh", "did you mean `publish`?")]),
    ("publish = \"local/#\"", "publish = \"local/#/x\"", &[("rules[2].publish", "behind `#`")]),
    ("publish = \"local/#\"", "publish = \"local/{username}\"", &[("rules[2].publish", "user = \"*\"")]),
    ("publish = \"local/#\"", "publish = \"$SYS/#\"", &[("rules[2].publish", "begin with `$`")]),
    ("publish = \"local/#\"", "publish = []", &[("rules[2].publish", "1 to 64")]),
    ("publish = \"local/#\"", "publish = [\"a\", 7]", &[("rules[2].publish[1]", "must be a topic filter")]),
    ("\"status/{client_id}\"", "\"status-{client_id}\"", &[("rules[1].publish[1]", "fills a whole level")]),
    ("\"$SYS/#\"]", "\"$share/g/a/#\"]", &[("rules[1].subscribe[1]", "\"a/#\"")]),
    ("user = \"dash*\"", "user = \"\"", &[("rules[0].user", "is empty")]),
    ("user = \"dash*\"", "user = [\"a\"]", &[("rules[0].user", "must be a user name")]),
];

#[test]
fn what_clients_may_leave_behind_has_room_in_the_state() {
    for (text, expected) in [
        ("", None),
        ("queue_size = '32MiB'", None),
        ("retained_size = '32MiB'", None),
        ("subscriptions_size = '64MiB'", None),
        ("max_sessions = 20000", None),
        ("max_sessions = 50000\nmax_in_flight = 20", None),
        ("queue_size = '32MiB'\nretained_size = '16MiB'", Some(("queue_size", "60MiB of the state, at most 52MiB"))),
        ("queue_size = '16MiB'\nretained_size = '32MiB'", Some(("retained_size", "less; `queue_size`"))),
        ("subscriptions_size = '64MiB'\nqueue_size = '20MiB'", Some(("subscriptions_size", "60MiB of the state"))),
        ("max_sessions = 50000", Some(("max_sessions", "a smaller `max_in_flight`"))),
    ] {
        let whole = with(&format!("[listener]\n{text}\n"));
        match expected {
            None => {
                let broker = accepted(&whole).config.pipeline.broker.unwrap();
                assert!(broker.cost() <= LISTENER_COST_MAX, "{text}: {}", broker.cost());
            }
            Some((key, part)) => {
                let problems = refused(&whole).problems;
                assert_eq!(problems.len(), 1, "{text}: {problems:#?}");
                assert_eq!(problems[0].path, format!("listener.{key}"), "{text}");
                assert!(problems[0].to_string().contains(part), "{text}: {}", problems[0]);
            }
        }
    }
}

#[test]
fn every_wrong_value_of_the_listener_is_named_with_path_place_and_hint() {
    for (from, to, expected) in WRONG {
        assert!(LISTENER.contains(from), "{from} stands in the listener's section");
        let text = with(&LISTENER.replacen(from, to, 1));
        let problems = refused(&text).problems;
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        let wanted: Vec<String> = expected.iter().map(|(path, _)| format!("listener.{path}")).collect();
        assert_eq!(paths, wanted, "{to}: {problems:#?}");
        for (problem, (_, part)) in problems.iter().zip(*expected) {
            assert!(problem.to_string().contains(part), "{to}: {problem}");
            println!("{problem}");
        }
    }
}

#[test]
fn a_listener_that_lets_nobody_in_is_refused() {
    let tls = "cert_file = \"/c\"\nkey_file = \"/k\"";
    for (keys, path, part) in [
        ("tcp = \"0.0.0.0:1883\"".to_owned(), "tcp", "add `password_file`, or listen on 127.0.0.1"),
        ("tcp = [\"127.0.0.1:1883\", \"10.0.0.5:1883\"]".to_owned(), "tcp", "nobody could log in here"),
        ("websocket = \"[::]:8080\"".to_owned(), "websocket", "nobody could log in here"),
        (format!("tls = \"0.0.0.0:8883\"\n{tls}"), "tls", "`password_file` or `client_ca_file`"),
        (
            format!("tls = \"0.0.0.0:8883\"\ntcp = \"0.0.0.0:1883\"\n{tls}\nclient_ca_file = \"/a\""),
            "tcp",
            "nobody could log in here",
        ),
        ("anonymous = \"never\"".to_owned(), "anonymous", "no passwords and no client certificates"),
        ("unix = \"/s\"\nanonymous = \"never\"".to_owned(), "anonymous", "no passwords and no client certificates"),
    ] {
        let problems = refused(&with(&format!("[listener]\n{keys}\n"))).problems;
        assert_eq!(problems.len(), 1, "{keys}: {problems:#?}");
        assert_eq!(problems[0].path, format!("listener.{path}"), "{keys}");
        assert!(problems[0].to_string().contains(part), "{}", problems[0]);
    }
}

#[test]
fn the_control_socket_is_not_the_listeners() {
    let text = with("[listener]\nunix = \"/run/a.sock\"\n[control]\nsocket = \"/run/a.sock\"\n");
    let problems = refused(&text).problems;
    assert_eq!((problems.len(), problems[0].path.as_str()), (1, "listener.unix"), "{problems:#?}");
    assert!(problems[0].message.contains("`control.socket`"), "{}", problems[0]);
    let long = with(&format!("[listener]\nunix = \"/{}\"\n", "x".repeat(107)));
    assert!(refused(&long).problems[0].message.contains("107"));
}

#[test]
fn what_a_listener_probably_does_not_mean_is_a_warning() {
    let passwords = "password_file = \"/p\"";
    for (keys, path, part) in [
        (format!("tcp = \"0.0.0.0:1883\"\n{passwords}"), "tcp", "in clear text"),
        (format!("websocket = \"0.0.0.0:8080\"\n{passwords}"), "websocket", "`websocket_tls` instead"),
        ("ack_within = \"2s\"".to_owned(), "ack_within", "every 1s anyway"),
        (
            "rules = [{ publish = \"a\" }, { subscribe = \"a\" }]".to_owned(),
            "rules[1]",
            "listener.rules[0] fits everybody",
        ),
        (
            format!("{passwords}\nrules = [{{ user = \"*\" }}, {{ user = \"anna\" }}, {{ publish = \"a\" }}]"),
            "rules[1]",
            "put it before that one",
        ),
        ("rules = [{ user = \"anna\" }]".to_owned(), "rules[0]", "nobody has a user name"),
        (
            format!("{passwords}\nanonymous = \"loopback\"\nrules = [{{ user = \"anna\", publish = \"a\" }}]"),
            "rules",
            "no rule for clients without a user name",
        ),
    ] {
        let warnings = accepted(&with(&format!("[listener]\n{keys}\n"))).warnings;
        assert_eq!(warnings.len(), 1, "{keys}: {warnings:#?}");
        assert_eq!(warnings[0].path, format!("listener.{path}"), "{keys}");
        assert!(warnings[0].to_string().contains(part), "{}", warnings[0]);
    }
    let named = "[listener]\npassword_file = \"/p\"\nanonymous = \"loopback\"\nrules = [{ user = \"*\" }, { subscribe = \"#\" }]\n";
    assert_eq!(accepted(&with(named)).warnings, []);
    let quiet = "tcp = \"127.0.0.1:1883\"\npassword_file = \"/p\"\nack_within = \"1s\"\nrules = [{ user = \"a\" }, { user = \"*\" }]";
    assert_eq!(accepted(&with(&format!("[listener]\n{quiet}\n"))).warnings, []);
}

#[test]
fn a_mistyped_key_is_one_problem_and_nothing_follows_from_the_absence_of_what_was_meant() {
    let tls = "tls = \"0.0.0.0:8883\"\ncert_file = \"/c\"";
    for (keys, path) in [
        ("pasword_file = \"/p\"\nrules = [{ user = \"anna\" }]".to_owned(), "pasword_file"),
        ("tcp = \"0.0.0.0:1883\"\npasword_file = \"/p\"\n".to_owned(), "pasword_file"),
        (format!("{tls}\nkeyfile = \"/k\"\npassword_file = \"/p\""), "keyfile"),
        (format!("{tls}\nkey_file = \"/k\"\nclient_ca = \"/a\"\nclient_cert = \"required\""), "client_ca"),
        ("password_file = \"/p\"\nrules = [{ usr = \"anna\", publish = \"d/{username}\" }]".to_owned(), "rules[0].usr"),
    ] {
        let Refused { problems, warnings } = refused(&with(&format!("[listener]\n{keys}\n")));
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, [format!("listener.{path}")], "{problems:#?}");
        // In clear text it would go over the network, whatever the key.
        assert!(warnings.iter().all(|warning| warning.message.contains("clear text")), "{warnings:#?}");
    }
    for (from, to, path) in
        [("storage", "path = ", "pth = "), ("gateway", "id = ", "idd = "), ("uplink", "broker = ", "brokr = ")]
    {
        let text = with("");
        let head = text.find(&format!("[{from}]")).expect("it is there");
        let wrong = format!("{}{}", &text[..head], text[head..].replacen(to, path, 1));
        assert_eq!(refused(&wrong).problems.len(), 1, "{}", refused(&wrong));
    }
}

#[test]
fn a_socket_for_one_family_leaves_the_other_alone() {
    let spec = listener("[listener]\ntcp = [\"127.0.0.1:1883\", \"[::1]:1883\"]\n");
    assert_eq!(spec.sockets.len(), 2);
}

#[test]
fn what_is_shown_of_the_listener_is_what_is_meant_and_names_every_default() {
    for sections in ["", "[listener]\n", "[listener]\npassword_file = \"/p\"\n", LISTENER] {
        let text = with(sections);
        let shown = shown::listener(&text, "t.toml").unwrap();
        for key in keys::LISTENER.keys {
            let default = matches!(key.need, keys::Need::Default(_));
            assert!(!default || shown.contains(&format!("\n{} = ", key.name)), "{}: {shown}", key.name);
        }
        let again = accepted(&with(&shown)).config;
        let meant = accepted(&text).config;
        assert_eq!((again.listener, again.pipeline), (meant.listener, meant.pipeline), "{shown}");
    }
    assert_eq!(shown::listener(MINIMAL, "t.toml"), None, "there is none");
    assert!(shown::listener(&with(""), "t.toml").unwrap().contains("tcp = \"127.0.0.1:1883\"\n"));
}

#[test]
fn the_reference_lists_every_key_of_the_listener() {
    let reference = keys::reference();
    for line in LISTENER.lines().filter_map(|line| line.split_once(" = ")) {
        assert!(reference.contains(&format!("`{}`", line.0)), "{}", line.0);
    }
}

#[test]
fn the_listener_is_no_broker_of_its_own_agent() {
    let with = |devices: &str, uplink: &str, listener: &str| {
        let text = MINIMAL.replace("mqtt://127.0.0.1\"", &format!("{devices}\""));
        let text = text.replacen("broker = \"mqtt://cloud.example\"", &format!("broker = \"{uplink}\""), 1);
        format!("{text}\n[listener]\n{listener}\n")
    };
    let cloud = "mqtt://10.0.0.1";
    for (devices, uplink, listener, path) in [
        ("mqtt://127.0.0.1:1999", cloud, "tcp = \"127.0.0.1:1999\"", "devices.broker"),
        ("mqtt://localhost:1999", cloud, "tcp = \"127.0.0.1:1999\"", "devices.broker"),
        ("mqtt://[::1]:1999", cloud, "tcp = [\"127.0.0.1:1998\", \"[::1]:1999\"]", "devices.broker"),
        ("mqtt://127.0.0.1", "mqtt://127.0.0.1:1999", "tcp = \"127.0.0.1:1999\"", "uplink.broker"),
    ] {
        let refused = check(&with(devices, uplink, listener), "test.toml").expect_err(listener);
        let found: Vec<&str> = refused.problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(found, [path], "{refused}");
    }
    for (devices, listener) in [
        ("mqtt://127.0.0.1:1998", "tcp = \"127.0.0.1:1999\""),
        ("mqtt://127.0.0.2:1999", "tcp = \"127.0.0.1:1999\""),
        ("mqtt://127.0.0.1:1999", "websocket = \"127.0.0.1:1999\""),
    ] {
        check(&with(devices, cloud, listener), "test.toml").expect(listener);
    }
}
