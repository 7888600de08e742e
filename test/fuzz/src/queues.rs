//! Scripts for messages of the kernel about queueing disciplines.

use crate::bytes::Script;
use weir_tc::{Action, Kind, Message, Raw, Subject, TcAttribute};

/// Messages of which some kernel may send any part: what is taken is written again as it was read, and what
/// is computed from it panics on nothing.
pub fn tc_message(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let choice = script.byte_or_zero();
    let mut whole = Vec::new();
    if choice.is_multiple_of(4) {
        whole.extend_from_slice(script.rest());
    } else {
        let subject = if choice & 4 == 0 { Subject::Discipline } else { Subject::Class };
        let mut message = Message::new(subject, Action::New, 1);
        let kind = Kind::ALL[usize::from(script.byte_or_zero()) % Kind::ALL.len()].clone();
        message.attributes.push(TcAttribute::Kind(kind));
        while let Some(attribute) = script.byte() {
            let length = usize::from(script.byte_or_zero()) % 64;
            let value = (0..length).map(|_| script.byte_or_zero()).collect();
            message
                .attributes
                .push(TcAttribute::Other(Raw { kind: u16::from(attribute % 18), bytes: value }));
        }
        message.encode(&mut whole);
    }
    let Ok(message) = Message::decode(&whole) else { return };
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(again, whole, "what is taken is written again as it was read");
    let _ = message.counters();
    if let Some(options) = message.options() {
        let _ = (options.target(), options.interval());
        for rate in [0, 1, 125_000_000, u64::MAX] {
            let changed = options.with_shaped_rate(rate);
            assert!(changed.is_none() || options.shaped_rate().is_some());
        }
    }
}
