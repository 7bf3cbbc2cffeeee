//! What goes wrong with a broker, in the words of this command: its options, not the keys of a
//! configuration file.

use crate::agent::mqtt::connection::LinkError;
use crate::agent::mqtt::pipeline::PipelineSpec;
use crate::agent::mqtt::tls::CertificateError;
use crate::config::boot::{TlsSpec, Trust};

/// The problem, and what to do about it where that is known.
pub(super) fn told(problem: &LinkError, spec: &PipelineSpec) -> String {
    let tls = spec.broker.tls.as_ref();
    let trusts_system = tls.is_some_and(|tls| tls.trust == Trust::System);
    let (problem, hint) = match problem {
        LinkError::Certificate(CertificateError::UnknownIssuer) => (
            "the broker's certificate is not from an authority that is trusted here".to_owned(),
            if trusts_system { Some(CA_FILE) } else { Some("is --ca-file that of this broker's authority?") },
        ),
        LinkError::Certificate(CertificateError::NotForName(name)) => (
            format!("the broker's certificate is not for {name}"),
            Some("name the broker as its certificate does, with --broker mqtts://NAME"),
        ),
        LinkError::Certificate(CertificateError::Ours(_)) => (problem.to_string(), certificate(tls)),
        LinkError::Version(other) => (
            "the broker does not speak this version of MQTT".to_owned(),
            Some(if *other == "5" { "--protocol 5" } else { "--protocol 3.1.1" }),
        ),
        LinkError::Tls(_) => (problem.to_string(), trusts_system.then_some(CA_FILE)),
        LinkError::Refused(reason) if matches!(reason.code, 0x86 | 0x87) => {
            (problem.to_string(), spec.broker.username.is_none().then_some("--username NAME --password-file FILE"))
        }
        LinkError::Certificate(CertificateError::Unusable(_))
        | LinkError::Credential(_)
        | LinkError::Refused(_)
        | LinkError::Ended(_)
        | LinkError::NoAnswer(_)
        | LinkError::Closed
        | LinkError::Unresponsive
        | LinkError::TooLarge(_)
        | LinkError::Broken(_) => (problem.to_string(), None),
    };
    hint.map_or(problem.clone(), |hint| format!("{problem}\n    hint: {hint}"))
}

const CA_FILE: &str = "--ca-file FILE says whom to trust: the certificate of the broker's authority";

fn certificate(tls: Option<&TlsSpec>) -> Option<&'static str> {
    tls.is_some_and(|tls| tls.client.is_none()).then_some("--cert-file FILE --key-file FILE")
}

/// That the broker has no room for more connections; `None` when there is none at all, which has
/// other reasons.
pub(super) fn limit(connected: usize, wanted: u32) -> Option<String> {
    (connected > 0).then(|| {
        format!(
            "the broker closes further connections: {connected} of {wanted} are there, and its limit is probably \
             {connected}\n    hint: --connections {connected}, or a higher limit there (max_connections, open files)"
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::agent::mqtt::pipeline::Assurance;
    use crate::agent::mqtt::reason::Reason;
    use crate::config::boot::{BrokerSpec, Protocol};
    use crate::model::time::Span;

    use super::*;

    fn spec(trust: Trust) -> PipelineSpec {
        let tls = Some(TlsSpec { trust, client: None, server_name: None, alpn: Vec::new() });
        let broker = BrokerSpec {
            host: "b".into(),
            port: 1,
            tls,
            protocol: Protocol::V311,
            proxy: None,
            client_id: "f".into(),
            username: None,
            password: None,
            password_file: None,
            keep_alive: Span::from_secs(60),
        };
        PipelineSpec { broker, assurance: Assurance::AtLeastOnce, window: 20, persistent: false }
    }

    #[test]
    fn what_helps_is_named_as_an_option_and_never_as_a_key_of_a_file() {
        let unknown = || LinkError::Certificate(CertificateError::UnknownIssuer);
        for (problem, trust, option) in [
            (unknown(), Trust::System, "--ca-file FILE"),
            (unknown(), Trust::File("ca.pem".into()), "is --ca-file"),
            (LinkError::Certificate(CertificateError::NotForName("b".into())), Trust::System, "--broker"),
            (LinkError::Certificate(CertificateError::Ours("UnknownCA".into())), Trust::System, "--cert-file FILE"),
            (LinkError::Version("5"), Trust::System, "--protocol 5"),
            (LinkError::Refused(Reason::of_connack(5)), Trust::System, "--username NAME"),
        ] {
            let told = told(&problem, &spec(trust));
            assert!(told.contains(option) && !told.contains('`'), "{told}");
        }
        assert!(!told(&LinkError::Closed, &spec(Trust::System)).contains("hint"));
    }

    #[test]
    fn a_limit_is_guessed_from_the_connections_that_are_there() {
        assert_eq!(limit(0, 50), None);
        assert!(limit(20, 50).is_some_and(|told| told.contains("20 of 50") && told.contains("probably 20")));
    }
}
