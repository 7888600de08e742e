//! What an interface has that can be steered.

use crate::place::{Place, Shaper};
use weir_tc::{Handle, Kind, Message, Subject};
use weir_units::Rate;

/// Shapers above a queue that are looked at: a tree of HTB has at most eight levels.
const DEPTH_MAX: usize = 16;

/// What was found on an interface.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Queues that can be steered.
    pub places: Vec<Place>,
    /// Queues that cannot, with the reason.
    pub refused: Vec<Refused>,
}

/// A queue that cannot be steered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The discipline.
    pub handle: Handle,
    /// Its kind.
    pub kind: Kind,
    /// Why, and what to do instead.
    pub why: String,
}

/// Looks at the disciplines and classes of an interface.
pub fn find(interface: i32, name: &str, disciplines: &[Message], classes: &[Message]) -> Found {
    let mut found = Found::default();
    for message in disciplines {
        let (Some(kind), Some(options)) = (message.kind(), message.options()) else { continue };
        if *kind == Kind::Red {
            found.refused.push(Refused {
                handle: message.handle,
                kind: kind.clone(),
                why: format!(
                    "RED throws its whole queue away at each change of its parameters: replace it, for instance with \
                     `tc qdisc replace dev {name} parent {} fq_codel`",
                    message.parent
                ),
            });
            continue;
        }
        // `cake_mq` has a CAKE for each queue of the interface, which takes its parameters from it.
        let above = disciplines.iter().find(|d| d.handle == message.parent.discipline());
        if above.and_then(Message::kind) == Some(&Kind::CakeMq) {
            continue;
        }
        let shaper = shaper(message, disciplines, classes);
        // A FIFO of bytes below a shaper has a target, too: the time that its room takes.
        let is_fifo = *kind == Kind::Bfifo && shaper.as_ref().is_some_and(|s| s.rate > Rate::ZERO);
        if options.target().is_none() && !is_fifo {
            continue;
        }
        // Nothing has a name: the kernel cannot be told which one is meant.
        if message.handle == Handle::NONE {
            found.refused.push(Refused {
                handle: message.handle,
                kind: kind.clone(),
                why: format!(
                    "the kernel made it by default and gave it no handle, so that it cannot be changed: `tc qdisc replace \
                     dev {name} parent {} {kind}` gives it one",
                    message.parent
                ),
            });
            continue;
        }
        found.places.push(Place {
            interface,
            name: name.to_owned(),
            handle: message.handle,
            parent: message.parent,
            kind: kind.clone(),
            options: options.clone(),
            shaper,
        });
    }
    found
}

/// The shaper that serves a queue: itself, or the nearest one above.
fn shaper(queue: &Message, disciplines: &[Message], classes: &[Message]) -> Option<Shaper> {
    let of = |message: &Message, subject: Subject| {
        let options = message.options()?;
        options.shaped_rate()?;
        Some(Shaper {
            subject,
            handle: message.handle,
            parent: message.parent,
            kind: message.kind()?.clone(),
            options: options.clone(),
            rate: Rate::ZERO,
        })
    };
    let mut nearest = of(queue, Subject::Discipline);
    let mut slowest = nearest.as_ref().and_then(|s| s.options.shaped_rate());
    let mut parent = queue.parent;
    for _ in 0..DEPTH_MAX {
        if parent == Handle::ROOT || parent == Handle::NONE {
            break;
        }
        let class = classes.iter().find(|class| class.handle == parent);
        let above = disciplines.iter().find(|d| d.handle == parent.discipline());
        let shaper = class.and_then(|class| of(class, Subject::Class));
        let shaper = shaper.or_else(|| above.and_then(|d| of(d, Subject::Discipline)));
        if let Some(rate) = shaper.as_ref().and_then(|s| s.options.shaped_rate()) {
            slowest = Some(slowest.map_or(rate, |so_far| so_far.min(rate)));
        }
        nearest = nearest.or(shaper);
        parent = match (class, above) {
            // A class at the top says that the root is above it, and means its discipline.
            (Some(class), Some(above)) if class.parent == Handle::ROOT => above.parent,
            (Some(class), _) if class.parent != parent => class.parent,
            (_, Some(above)) => above.parent,
            _ => break,
        };
    }
    // What is above may be slower.
    nearest.map(|shaper| Shaper { rate: Rate::from_bps(slowest.unwrap_or(0).saturating_mul(8)), ..shaper })
}
