//! The BPF programs `probe`: how long each packet waits in a queue of the kernel, by the tracepoints of
//! enqueueing and dequeueing.

use crate::Kernel;
use crate::find::{ByHandle, by_handle};
use crate::journal::namespace;
use crate::place::{DelaysTold, Place};
use crate::program::quiet;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use serde::Serialize;
use std::path::Path;
use weir_steer::polled::Seen;
use weir_tc::{Handle, Kind, Message};
use weir_units::Duration;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.bpf.o"));
/// Where the kernel tells its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Queues at most: the room of the map.
const QUEUES_MAX: usize = 4096;
/// Disciplines above one another that are looked at.
const DEPTH_MAX: usize = 16;
/// Words of a window, and where `struct queue` has what is counted behind the two.
const WINDOW: usize = 5;
const PACKETS: usize = 2 * WINDOW;
const SUM: usize = PACKETS + 1;
const STRANGE: usize = PACKETS + 2;
const LOST: usize = PACKETS + 3;
const BUCKETS: usize = PACKETS + 4;
const BUCKET_COUNT: usize = 64;
/// Bits of the unit of buckets, in nanoseconds.
const UNIT: u32 = 14;

/// Why delays cannot be read, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum Unprobed {
    /// Other packets pass the same discipline.
    #[error(
        "{label}: the kernel tells of packets at {top}, where {beside} is served, too, so that they cannot be told apart: \
         leave `--probe` out, or give the queue a root, or a transmit queue below mq, of its own"
    )]
    Beside {
        /// Of the queue.
        label: String,
        /// The discipline above it.
        top: Handle,
        /// What else is there.
        beside: String,
    },
    /// More queues than the program has room for.
    #[error(
        "{0} queues are more than the {QUEUES_MAX} that `--probe` has room for: name fewer, or leave it out"
    )]
    Many(usize),
    /// The kernel does not describe its types.
    #[error(
        "`--probe` needs a kernel that describes its types (CONFIG_DEBUG_INFO_BTF): {TYPES} is not there. Take such a kernel, \
         or leave `--probe` out: delays are estimated then"
    )]
    NoTypes,
    /// The kernel refused the programs.
    #[error(
        "the kernel refused the programs of `--probe`: {error}. They need root (CAP_BPF, CAP_PERFMON), and the tracepoints \
         qdisc:qdisc_enqueue and qdisc:qdisc_dequeue of Linux 5.15 or newer with CONFIG_BPF_EVENTS. Without `--probe` delays \
         are estimated"
    )]
    Refused {
        /// What it said.
        error: libbpf_rs::Error,
    },
}

/// Delays of a queue since the programs were attached.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Delays {
    /// Packets that left.
    pub packets: u64,
    /// The sum of their delays, in nanoseconds.
    pub sum_ns: u64,
    /// Packets that left of which it is not known when they came: split on the way, or sent twice.
    pub unmatched: u64,
    /// Packets that came for which there was no room to note it.
    pub lost: u64,
    /// How many packets waited so long, by [`Delays::bound`].
    pub buckets: Vec<u64>,
}

impl Delays {
    /// The upper bound of a bucket; the last has what is longer, too.
    pub fn bound(bucket: usize) -> Duration {
        let bucket = bucket as u64;
        let units = if bucket < 4 { bucket + 1 } else { (5 + bucket % 4) << (bucket / 4 - 1) };
        Duration::from_nanos(units << UNIT)
    }

    /// As it is told at the end.
    pub(crate) fn told(&self) -> DelaysTold {
        DelaysTold {
            packets: self.packets,
            unmatched: self.unmatched,
            lost: self.lost,
            mean_ms: self.sum_ns as f64 / 1e6 / self.packets.max(1) as f64,
            p95_ms: self.percentile_ms(0.95).unwrap_or(0.0),
        }
    }

    /// The bound below which a share of the packets waited, in milliseconds; `None` if there was none.
    pub fn percentile_ms(&self, share: f64) -> Option<f64> {
        let wanted = (share * self.packets as f64).ceil() as u64;
        let mut so_far = 0;
        let at = self.buckets.iter().position(|count| {
            so_far += count;
            so_far >= wanted
        });
        at.filter(|_| self.packets > 0).map(|at| Delays::bound(at).as_millis_f64())
    }
}

/// The disciplines above a queue, up to the one that the kernel tells of: the root, or one of those below mq.
fn above(queue: &Message, all: &ByHandle<'_>) -> Vec<Handle> {
    let (mut way, mut parent) = (Vec::new(), queue.parent);
    while parent != Handle::ROOT && way.len() < DEPTH_MAX {
        match all.get(&parent.discipline()) {
            Some(above) if !matches!(above.kind(), Some(Kind::Mq | Kind::Mqprio)) => {
                way.push(above.handle);
                parent = above.parent;
            }
            _ => break,
        }
    }
    way
}

/// The discipline at which the kernel tells of the packets of a queue, which must be its own.
fn top(place: &Place, disciplines: &[Message], classes: &[Message]) -> Result<Handle, crate::Setup> {
    let all = by_handle(disciplines);
    let Some(queue) = all.get(&place.handle) else { return Ok(place.handle) };
    let way = above(queue, &all);
    let top_of = |of: &Message| above(of, &all).last().copied().unwrap_or(of.handle);
    let top = top_of(queue);
    let other = disciplines.iter().find(|d| {
        let is_of_it = d.handle == place.handle || d.handle == Handle::NONE || way.contains(&d.handle);
        !is_of_it && top_of(d) == top
    });
    let other =
        other.map(|d| format!("{} {}", d.kind().map(ToString::to_string).unwrap_or_default(), d.handle));
    // Packets may pass a class that has no discipline of its own.
    let is_inner = |class: &Message| {
        classes.iter().any(|below| below.parent == class.handle && below.handle != class.handle)
    };
    let several = way.iter().find_map(|handle| {
        let mut leaves = classes.iter().filter(|c| c.handle.discipline() == *handle && !is_inner(c));
        leaves.nth(1).map(|class| format!("class {}", class.handle))
    });
    match other.or(several) {
        Some(beside) => Err(Unprobed::Beside { label: place.label(), top, beside }.into()),
        None => Ok(top),
    }
}

/// A discipline as the programs know it: numbers of interfaces are those of their network namespace.
fn key(interface: i32, top: Handle) -> [u8; 16] {
    let mut key = [0; 16];
    // The kernel counts namespaces in 32 bits.
    let words = [namespace() as u32, interface as u32, top.0, 0];
    for (bytes, word) in key.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    key
}

/// The programs, attached. They end with this value, and with the process.
pub struct Probe {
    // Dropped in this order: links before what they hold.
    _links: Vec<Link>,
    queues: MapHandle,
    control: MapHandle,
    _object: Object,
    window: u64,
    /// Interfaces and disciplines at which the kernel tells of the queues, in their order.
    keys: Vec<[u8; 16]>,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Probe of {} queues", self.keys.len())
    }
}

impl Probe {
    /// Attaches the programs for queues of this network namespace.
    pub fn attach(places: &[&Place], kernel: &mut dyn Kernel) -> Result<Probe, crate::Setup> {
        if places.len() > QUEUES_MAX {
            return Err(Unprobed::Many(places.len()).into());
        }
        let mut keys = Vec::with_capacity(places.len());
        let mut looked: Option<(i32, Vec<Message>, Vec<Message>)> = None;
        for place in places {
            let found = match looked.take().filter(|(interface, ..)| *interface == place.interface) {
                Some(found) => found,
                None => {
                    let interface = place.interface;
                    (interface, kernel.disciplines(interface)?, kernel.classes(interface)?)
                }
            };
            let top = top(place, &found.1, &found.2)?;
            keys.push(key(place.interface, top));
            looked = Some(found);
        }
        if !Path::new(TYPES).exists() {
            return Err(Unprobed::NoTypes.into());
        }
        Probe::load(keys).map_err(|error| Unprobed::Refused { error }.into())
    }

    fn load(keys: Vec<[u8; 16]>) -> libbpf_rs::Result<Probe> {
        quiet();
        let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == name);
            MapHandle::try_from(&map.expect("the object has this map"))
        };
        let (queues, control) = (map("queues")?, map("control")?);
        let nothing = vec![0u8; 8 * (BUCKETS + BUCKET_COUNT)];
        for key in &keys {
            queues.update(key, &nothing, MapFlags::ANY)?;
        }
        let mut probe = Probe { _links: Vec::new(), queues, control, _object: object, window: 0, keys };
        probe.turn()?;
        let mut links = Vec::new();
        for program in probe._object.progs_mut() {
            links.push(program.attach()?);
        }
        probe._links = links;
        Ok(probe)
    }

    /// Ends the window that goes on, of which [`Probe::seen`] tells from now on.
    pub fn turn(&mut self) -> libbpf_rs::Result<()> {
        self.window += 1;
        self.control.update(&0u32.to_ne_bytes(), &self.window.to_ne_bytes(), MapFlags::ANY)
    }

    fn words(&self, queue: usize) -> libbpf_rs::Result<Vec<u64>> {
        let bytes = self.queues.lookup(&self.keys[queue], MapFlags::ANY)?;
        let bytes = bytes.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(2))?;
        Ok(bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().expect("8 bytes"))).collect())
    }

    /// What a queue's packets waited in the window that ended last, and since the start.
    pub fn seen(&self, queue: usize) -> libbpf_rs::Result<(Seen, Delays)> {
        let words = self.words(queue)?;
        let ended = self.window - 1;
        let window = &words[WINDOW * (ended & 1) as usize..][..WINDOW];
        let is_it = window[0] == ended;
        let seen = Seen {
            least: (is_it && window[3] > 0).then(|| Duration::from_nanos(window[1])),
            ran_empty: is_it && window[4] != 0,
        };
        let delays = Delays {
            packets: words[PACKETS],
            sum_ns: words[SUM],
            unmatched: words[STRANGE],
            lost: words[LOST],
            buckets: words[BUCKETS..].to_vec(),
        };
        Ok((seen, delays))
    }
}
