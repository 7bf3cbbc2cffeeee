//! Properties of MQTT 5: which packet may carry which, each at most once.
//!
//! Types and ranges of values are the codec's knowledge; it takes any property in any packet,
//! as often as it comes, so that is checked here first.

use mqtt_protocol_core::mqtt::packet::Property;
use mqtt_protocol_core::mqtt::result_code::MqttError;

use crate::engine::broker::packet::Properties;

use super::fault::Fault;
use super::frame::Body;
use super::gate;

/// User properties of one packet. Five bytes can be one, and each takes memory many times that.
const USER_MAX: usize = 128;
/// Identifier of the one that may repeat.
const USER: u8 = 0x26;
/// Identifier of the number that stands for a topic.
const TOPIC_ALIAS: u8 = 0x23;

/// Which properties a packet may have: a bit for each identifier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed(u64);

impl Allowed {
    const fn of(ids: &[u8]) -> Allowed {
        let (mut bits, mut index) = (0, 0);
        while index < ids.len() {
            bits |= 1 << ids[index];
            index += 1;
        }
        Allowed(bits)
    }

    pub(super) const CONNECT: Allowed = Allowed::of(&[0x11, 0x21, 0x27, 0x22, 0x19, 0x17, USER, 0x15, 0x16]);
    pub(super) const WILL: Allowed = Allowed::of(&[0x18, 0x01, 0x02, 0x03, 0x08, 0x09, USER]);
    /// Of a client: no subscription identifiers.
    pub(super) const PUBLISH: Allowed = Allowed::of(&[0x01, 0x02, TOPIC_ALIAS, 0x08, 0x09, 0x03, USER]);
    pub(super) const ACK: Allowed = Allowed::of(&[0x1f, USER]);
    pub(super) const SUBSCRIBE: Allowed = Allowed::of(&[0x0b, USER]);
    pub(super) const UNSUBSCRIBE: Allowed = Allowed::of(&[USER]);
    /// Of a client: no server reference.
    pub(super) const DISCONNECT: Allowed = Allowed::of(&[0x11, 0x1f, USER]);
}

/// Everything that a client may say in properties.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What goes with a message.
    pub(super) message: Properties,
    pub(super) expiry_secs: Option<u32>,
    pub(super) topic_alias: Option<u16>,
    pub(super) subscription: Option<u32>,
    pub(super) session_expiry_secs: Option<u32>,
    pub(super) receive_max: Option<u16>,
    pub(super) packet_max: Option<u32>,
    pub(super) topic_alias_max: Option<u16>,
    pub(super) will_delay_secs: Option<u32>,
    pub(super) authentication_method: Option<String>,
    has_authentication_data: bool,
}

impl Said {
    /// What goes with a message; `None`: nothing.
    pub(super) fn boxed_message(self) -> Option<Box<Properties>> {
        (self.message != Properties::default()).then(|| Box::new(self.message))
    }
}

/// Reads the properties that come next in `body`.
pub(super) fn read(body: &mut Body<'_>, allowed: Allowed) -> Result<Said, Fault> {
    let mut said = Said::default();
    let mut section = body.section()?.0;
    let mut seen = 0_u64;
    while let Some(&id) = section.first() {
        let bit = 1_u64.checked_shl(u32::from(id)).unwrap_or(0);
        if allowed.0 & bit == 0 {
            return Err(Fault::Protocol("a property that this packet cannot have"));
        }
        if seen & bit != 0 && id != USER {
            return Err(Fault::Protocol("a property that comes twice"));
        }
        seen |= bit;
        // The codec calls it a protocol error; MQTT 5 has a code of its own for it.
        if let [TOPIC_ALIAS, 0, 0, ..] = section {
            return Err(Fault::TopicAlias(0));
        }
        let (property, len) = Property::parse(section).map_err(refused)?;
        section = section.get(len..).ok_or(Fault::Malformed("it ends too early"))?;
        said.note(property)?;
    }
    if said.has_authentication_data && said.authentication_method.is_none() {
        return Err(Fault::Protocol("authentication data without a method"));
    }
    Ok(said)
}

impl Said {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only those in a list above come this far")]
    fn note(&mut self, property: Property) -> Result<(), Fault> {
        match property {
            Property::PayloadFormatIndicator(it) => self.message.payload_format = Some(it.val()),
            Property::MessageExpiryInterval(it) => self.expiry_secs = Some(it.val()),
            Property::ContentType(it) => self.message.content_type = Some(text(it.val())?.into()),
            Property::ResponseTopic(it) => {
                gate::topic(it.val())?;
                self.message.response_topic = Some(text(it.val())?.into());
            }
            Property::CorrelationData(it) => self.message.correlation = Some(it.val().into()),
            Property::UserProperty(it) => {
                if self.message.user.len() == USER_MAX {
                    return Err(Fault::Quota("user properties"));
                }
                self.message.user.push((text(it.key())?.into(), text(it.val())?.into()));
            }
            Property::TopicAlias(it) => self.topic_alias = Some(it.val()),
            Property::SubscriptionIdentifier(it) => self.subscription = Some(it.val()),
            Property::SessionExpiryInterval(it) => self.session_expiry_secs = Some(it.val()),
            Property::ReceiveMaximum(it) => self.receive_max = Some(it.val()),
            Property::MaximumPacketSize(it) => self.packet_max = Some(it.val()),
            Property::TopicAliasMaximum(it) => self.topic_alias_max = Some(it.val()),
            Property::WillDelayInterval(it) => self.will_delay_secs = Some(it.val()),
            Property::AuthenticationMethod(it) => self.authentication_method = Some(text(it.val())?.to_owned()),
            Property::AuthenticationData(_) => self.has_authentication_data = true,
            Property::ReasonString(it) => text(it.val()).map(|_| ())?,
            // Whether it wants response information and reason strings: none are ever sent.
            _ => {}
        }
        Ok(())
    }
}

/// The codec lets NUL through.
fn text(text: &str) -> Result<&str, Fault> {
    if text.as_bytes().contains(&0) { Err(Fault::Malformed("a text with NUL in it")) } else { Ok(text) }
}

fn refused(error: MqttError) -> Fault {
    if error == MqttError::ProtocolError {
        Fault::Protocol("a property with a value that it cannot have")
    } else {
        Fault::Malformed("a property that cannot be read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8], allowed: Allowed) -> Result<Said, Fault> {
        let section: Vec<u8> = [u8::try_from(bytes.len()).unwrap()].iter().chain(bytes).copied().collect();
        read(&mut Body(&section), allowed)
    }

    #[test]
    fn a_property_comes_once_and_where_it_belongs() {
        assert_eq!(read_all(&[0x21, 0, 5], Allowed::CONNECT).unwrap().receive_max, Some(5));
        assert_eq!(read_all(&[0x21, 0, 5, 0x21, 0, 5], Allowed::CONNECT).unwrap_err().code(), 0x82);
        assert_eq!(read_all(&[0x21, 0, 5], Allowed::PUBLISH).unwrap_err().code(), 0x82);
        assert_eq!(read_all(&[0x0b, 5], Allowed::PUBLISH).unwrap_err().code(), 0x82, "of a client");
        assert_eq!(read_all(&[0x0b, 5, 0x0b, 6], Allowed::SUBSCRIBE).unwrap_err().code(), 0x82);
        for unknown in [0x00, 0x04, 0x2b, 0x40, 0x41, 0xff] {
            assert_eq!(read_all(&[unknown, 0], Allowed::CONNECT).unwrap_err().code(), 0x82, "{unknown}");
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        for (bytes, allowed) in [
            (&[0x21, 0, 0][..], Allowed::CONNECT),
            (&[0x27, 0, 0, 0, 0], Allowed::CONNECT),
            (&[0x17, 2], Allowed::CONNECT),
            (&[0x19, 2], Allowed::CONNECT),
            (&[0x16, 0, 1, 7], Allowed::CONNECT),
            (&[0x01, 2], Allowed::PUBLISH),
            (&[0x23, 0, 0], Allowed::PUBLISH),
            (&[0x0b, 0], Allowed::SUBSCRIBE),
            (&[0x08, 0, 1, b'#'], Allowed::PUBLISH),
            (&[0x08, 0, 0], Allowed::PUBLISH),
            (&[0x03, 0, 1, 0], Allowed::PUBLISH),
            (&[0x03, 0, 1, 0xff], Allowed::PUBLISH),
            (&[0x03, 0, 9, b'a'], Allowed::PUBLISH),
            (&[0x26, 0, 1, b'a', 0, 1, 0], Allowed::ACK),
            (&[0x1f, 0, 1, 0], Allowed::ACK),
            (&[0x0b, 0x80, 0x80, 0x80, 0x80, 1], Allowed::SUBSCRIBE),
            (&[0x02, 0, 0], Allowed::PUBLISH),
        ] {
            assert!(read_all(bytes, allowed).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_zero_that_cannot_be_breaks_the_protocol_but_as_a_topic_alias_has_a_code_of_its_own() {
        for (bytes, allowed, code) in [
            (&[0x23, 0, 0][..], Allowed::PUBLISH, 0x94),
            (&[0x01, 0, 0x23, 0, 0], Allowed::PUBLISH, 0x94),
            (&[0x23, 0], Allowed::PUBLISH, 0x81),
            (&[0x23, 0, 1, 0x23, 0, 0], Allowed::PUBLISH, 0x82),
            (&[0x23, 0, 0], Allowed::WILL, 0x82),
            (&[0x21, 0, 0], Allowed::CONNECT, 0x82),
            (&[0x27, 0, 0, 0, 0], Allowed::CONNECT, 0x82),
            (&[0x0b, 0], Allowed::SUBSCRIBE, 0x82),
        ] {
            assert_eq!(read_all(bytes, allowed).unwrap_err().code(), code, "{bytes:?}");
        }
    }

    #[test]
    fn user_properties_repeat_up_to_their_bound() {
        let many = |count: usize| {
            let mut bytes = vec![];
            let len = u16::try_from(count * 5).unwrap();
            bytes.extend([u8::try_from(len & 0x7f).unwrap() | 0x80, u8::try_from(len >> 7).unwrap()]);
            bytes.extend([USER, 0, 0, 0, 0].repeat(count));
            bytes
        };
        assert_eq!(read(&mut Body(&many(USER_MAX)), Allowed::ACK).unwrap().message.user.len(), USER_MAX);
        assert_eq!(read(&mut Body(&many(USER_MAX + 1)), Allowed::ACK).unwrap_err().code(), 0x97);
    }
}
