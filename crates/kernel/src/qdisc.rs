//! A queueing discipline in BPF (`struct_ops` `Qdisc_ops`): the queue that [`Program`] admits packets to,
//! with its shaper. The kernel knows it by a name of its own while the process lives; a queue that was
//! made stays.

use crate::Kernel;
use crate::program::{Program, quiet};
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{Link, MapCore, MapMut, Object, ObjectBuilder};
use weir_tc::{Action, Handle, Kind, Message, Subject, TcAttribute};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/qdisc.bpf.o"));
/// The variable of the object, and how names of the kernel's kinds begin.
const NAME: &str = "weir_gsp";
/// Names that are tried: each process, in whichever network namespace, has its own.
const NAMES: u32 = 1000;
/// Longest name of a kind, with the zero at its end.
const NAME_MAX: usize = 16;
/// Type by which the kernel says that it takes queues in BPF.
const TAKEN: &str = "bpf_struct_ops_Qdisc_ops";

/// Why this kernel has no queues in BPF, with what to do; `None` where it has.
pub fn missing() -> Option<String> {
    let remedy = "Remedy: Linux 6.16 or newer with CONFIG_NET_SCH_BPF and CONFIG_DEBUG_INFO_BTF (Debian: linux-image-amd64 of \
                  trixie-backports), or `weir steer`, which steers the queues that every kernel has";
    lacking().map(|why| format!("{why}. {remedy}"))
}

/// The reason alone.
pub fn lacking() -> Option<String> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let why = match Btf::from_vmlinux() {
        Err(e) => format!("tells nothing of its types ({e})"),
        Ok(all) if all.type_by_name::<types::Struct<'_>>(TAKEN).is_none() => {
            "takes no queues in BPF".to_string()
        }
        Ok(_) => return None,
    };
    Some(format!("this kernel ({}) {why}", kernel.trim()))
}

/// Whether a kind of discipline is one of these.
pub fn is_ours(kind: Option<&Kind>) -> bool {
    kind.is_some_and(|kind| kind.name().starts_with(NAME))
}

/// The discipline at the root of an interface.
pub fn root(kernel: &mut dyn Kernel, interface: i32) -> Result<Option<Message>, weir_tc::Error> {
    Ok(kernel.disciplines(interface)?.into_iter().find(|m| m.parent == Handle::ROOT))
}

/// Takes a discipline of ours off the root, for which the kernel puts its default.
pub fn remove(kernel: &mut dyn Kernel, interface: i32) -> Result<(), weir_tc::Error> {
    let mut order = Message::new(Subject::Discipline, Action::Delete, interface);
    order.parent = Handle::ROOT;
    kernel.change(&order)
}

/// A kind of discipline that the kernel knows while this lives.
pub struct Qdisc {
    name: String,
    _link: Link,
    _object: Object,
}

impl Qdisc {
    /// Loads it over the maps of the program that admits packets to it, and tells the kernel its name.
    pub fn load(admission: &Program) -> libbpf_rs::Result<Qdisc> {
        quiet();
        let mut number = 0;
        loop {
            let name = format!("{NAME}{number}");
            match Qdisc::named(admission, &name) {
                Err(e) if e.kind() == libbpf_rs::ErrorKind::AlreadyExists && number < NAMES => number += 1,
                done => return done,
            }
        }
    }

    fn named(admission: &Program, name: &str) -> libbpf_rs::Result<Qdisc> {
        let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
        for mut map in open.maps_mut() {
            let shared = admission.maps().into_iter().find(|(of, _)| map.name() == *of);
            if let Some((_, fd)) = shared {
                map.reuse_fd(fd)?;
            } else if map.name() == NAME {
                let value = map.initial_value_mut().expect("the object has its members");
                value[..NAME_MAX].fill(0);
                value[..name.len()].copy_from_slice(name.as_bytes());
            }
        }
        let mut object = open.load()?;
        let mut members: MapMut<'_> =
            object.maps_mut().find(|map| map.name() == NAME).expect("the object has its members");
        let link = members.attach_struct_ops()?;
        Ok(Qdisc { name: name.to_string(), _link: link, _object: object })
    }

    /// The name by which the kernel knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a queue of it at the root of an interface.
    pub fn make(&self, kernel: &mut dyn Kernel, interface: i32) -> Result<(), weir_tc::Error> {
        let mut order = Message::new(Subject::Discipline, Action::New, interface);
        order.parent = Handle::ROOT;
        order.attributes.push(TcAttribute::Kind(Kind::of(&self.name)));
        kernel.make(&order)
    }
}
