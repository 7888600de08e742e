//! What an interface has that can be steered.

use crate::Kernel;
use crate::place::{Place, Shaper};
use std::collections::{BTreeMap, BTreeSet};
use weir_tc::{Action, Error, Handle, Interface, Kind, Message, Options, Subject, TcAttribute};
use weir_units::{Duration, Rate};

/// Shapers above a queue that are looked at: a tree of HTB has at most eight levels.
const DEPTH_MAX: usize = 16;
/// How often is asked for what should be there.
const LOOKS: u32 = 3;
/// What a frame of Ethernet has beside what the MTU counts.
const ETHERNET: u32 = 14;
/// The MTU of an interface that tells none.
const MTU: u32 = 1500;

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

/// Which kinds of queues can be steered on a kernel, by their names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Steerable {
    /// Those that the kernel has.
    pub here: Vec<&'static str>,
    /// Those that it has not.
    pub missing: Vec<&'static str>,
}

/// Finds out which kinds the kernel has, by asking for one of each at the root of an interface that nobody
/// needs. A FIFO of bytes counts where there is a shaper to stand above it.
pub fn steerable(kernel: &mut dyn Kernel, interface: i32) -> Result<Steerable, Error> {
    let mut has = |kind: &Kind| {
        let mut order = Message::new(Subject::Discipline, Action::New, interface);
        order.parent = Handle::ROOT;
        order.attributes.push(TcAttribute::Kind(kind.clone()));
        match kernel.make(&order) {
            Ok(()) => Ok(true),
            // Of a kind that it has it may miss options, or an interface of several queues.
            Err(Error::Refused { source, .. }) => Ok(source.raw_os_error() != Some(ENOENT)),
            Err(error) => Err(error),
        }
    };
    let has_shaper = has(&Kind::Htb)? || has(&Kind::Tbf)?;
    let mut found = Steerable::default();
    for kind in Kind::ALL {
        let has_target = Options::with_target(kind, Duration::from_millis(5), None).is_some();
        if has_target || *kind == Kind::Bfifo {
            let list =
                if has(kind)? && (has_target || has_shaper) { &mut found.here } else { &mut found.missing };
            list.push(kind.name());
        }
    }
    Ok(found)
}

/// The kernel has no kind of that name.
const ENOENT: i32 = 2;

/// Asks for disciplines or classes, again where one that should be there is missing: the kernel goes on with
/// a dump by the number of those that it told already (`tc_dump_qdisc`), so that it passes one over where
/// another one was removed meanwhile, and says nothing of that.
pub(crate) fn with_all(
    mut dump: impl FnMut() -> Result<Vec<Message>, Error>,
    known: impl IntoIterator<Item = Handle>,
) -> Result<Vec<Message>, Error> {
    let mut all = dump()?;
    let known: BTreeSet<Handle> = known.into_iter().collect();
    for _ in 1..LOOKS {
        let there: BTreeSet<Handle> = all.iter().map(|message| message.handle).collect();
        if known.is_subset(&there) {
            break;
        }
        all = dump()?;
    }
    Ok(all)
}

/// Looks at the disciplines and classes of an interface.
pub fn find(interface: &Interface, disciplines: &[Message], classes: &[Message]) -> Found {
    let name = interface.name.as_str();
    let mut found = Found::default();
    let (all, classes) = (by_handle(disciplines), by_handle(classes));
    let shapers = shapers_of(disciplines, &all, &classes);
    let mtu = if interface.mtu == 0 { MTU } else { interface.mtu };
    let frame = mtu.saturating_add(ETHERNET);
    for (message, shaper) in disciplines.iter().zip(shapers) {
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
        let above = all.get(&message.parent.discipline());
        if above.and_then(|d| d.kind()) == Some(&Kind::CakeMq) {
            continue;
        }
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
                    "the kernel made it by default and gave it no handle, so that it cannot be changed: {} gives it one",
                    with_handle(name, kind, message.parent)
                ),
            });
            continue;
        }
        let is_of_many = matches!(above.and_then(|d| d.kind()), Some(Kind::Mq | Kind::Mqprio));
        found.places.push(Place {
            interface: interface.index,
            name: name.to_owned(),
            frame,
            is_of_many,
            handle: message.handle,
            parent: message.parent,
            kind: kind.clone(),
            options: options.clone(),
            shaper,
        });
    }
    found
}

/// What gives a queue that the kernel made by default a handle. Below a discipline without one, as the kernel
/// makes `mq` by default, nothing can be named either: that has to be made first.
fn with_handle(name: &str, kind: &Kind, parent: Handle) -> String {
    let replace = |parent: Handle| format!("`tc qdisc replace dev {name} parent {parent} {kind}`");
    if parent.major() != 0 {
        return replace(parent);
    }
    let below = replace(Handle::new(1, parent.minor()));
    format!("`tc qdisc replace dev {name} root handle 1: mq`, and then {below},")
}

/// The shaper that serves each discipline, and whether it is the nearest one above several queues:
/// disciplines with nothing below them.
fn shapers_of(disciplines: &[Message], all: &ByHandle<'_>, classes: &ByHandle<'_>) -> Vec<Option<Shaper>> {
    let mut shapers: Vec<Option<Shaper>> = disciplines.iter().map(|m| shaper(m, all, classes)).collect();
    let key = |shaper: &Shaper| (shaper.subject == Subject::Class, shaper.handle);
    let above: BTreeSet<Handle> = disciplines.iter().map(|message| message.parent.discipline()).collect();
    let mut served: BTreeMap<_, usize> = BTreeMap::new();
    for (queue, shaper) in disciplines.iter().zip(&shapers) {
        if let Some(shaper) = shaper.as_ref().filter(|_| !above.contains(&queue.handle)) {
            *served.entry(key(shaper)).or_default() += 1;
        }
    }
    for shaper in shapers.iter_mut().flatten() {
        shaper.is_shared = served.get(&key(shaper)).is_some_and(|queues| *queues > 1);
    }
    shapers
}

/// Disciplines or classes of an interface by their handles.
pub(crate) type ByHandle<'a> = BTreeMap<Handle, &'a Message>;

pub(crate) fn by_handle(messages: &[Message]) -> ByHandle<'_> {
    // The first of those that the kernel gave no handle is the root.
    messages.iter().rev().map(|m| (m.handle, m)).collect()
}

/// Visits what shapes a queue, from itself upwards, with the rate in bytes per second.
pub(crate) fn shapers<'a>(
    queue: &'a Message,
    disciplines: &ByHandle<'a>,
    classes: &ByHandle<'a>,
    visit: &mut dyn FnMut(Subject, &'a Message, u64),
) {
    let mut see = |subject, message: &'a Message| {
        let rate = message.options().and_then(Options::shaped_rate);
        rate.inspect(|rate| visit(subject, message, *rate)).is_some()
    };
    see(Subject::Discipline, queue);
    let mut parent = queue.parent;
    for _ in 0..DEPTH_MAX {
        if parent == Handle::ROOT || parent == Handle::NONE {
            break;
        }
        let class = classes.get(&parent).copied();
        let above = disciplines.get(&parent.discipline()).copied();
        if !class.is_some_and(|class| see(Subject::Class, class)) {
            above.map(|above| see(Subject::Discipline, above));
        }
        parent = match (class, above) {
            // A class at the top says that the root is above it, and means its discipline.
            (Some(class), Some(above)) if class.parent == Handle::ROOT => above.parent,
            (Some(class), _) if class.parent != parent => class.parent,
            (_, Some(above)) => above.parent,
            _ => break,
        };
    }
}

/// The rate of the slowest shaper of a queue.
pub(crate) fn slowest(queue: &Message, disciplines: &ByHandle<'_>, classes: &ByHandle<'_>) -> Option<Rate> {
    let mut least: Option<u64> = None;
    shapers(queue, disciplines, classes, &mut |_, _, rate| {
        least = Some(least.map_or(rate, |so_far| so_far.min(rate)));
    });
    least.map(|bytes| Rate::from_bps(bytes.saturating_mul(8)))
}

/// The shaper that serves a queue: itself, or the nearest one above. What is above that may be slower.
fn shaper(queue: &Message, disciplines: &ByHandle<'_>, classes: &ByHandle<'_>) -> Option<Shaper> {
    let mut nearest = None;
    let mut needs_classes = false;
    shapers(queue, disciplines, classes, &mut |subject, message, _| {
        needs_classes |= subject == Subject::Class;
        nearest.get_or_insert((subject, message));
    });
    let (subject, message) = nearest?;
    Some(Shaper {
        subject,
        handle: message.handle,
        parent: message.parent,
        kind: message.kind()?.clone(),
        options: message.options()?.clone(),
        rate: slowest(queue, disciplines, classes)?,
        needs_classes,
        is_shared: false,
    })
}
