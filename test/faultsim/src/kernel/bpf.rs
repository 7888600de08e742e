//! Programs and maps. What the programs of `port.bpf.c` do is done here by their control block and their
//! sockets; the instructions themselves are not run.

use super::xdp::Xsk;
use super::{Entry, Kernel, Object, error, given};
use crate::faults::Kind;
use libc::{c_int, c_long, c_void};
use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;

/// A page that a map and processes share.
pub struct Page(*mut u8);

impl Page {
    fn new() -> Page {
        // SAFETY: the layout is not empty.
        Page(unsafe { std::alloc::alloc_zeroed(Layout::from_size_align_unchecked(PAGE, PAGE)) })
    }

    /// Where it is.
    pub fn at(&self) -> *mut u8 {
        self.0
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { std::alloc::dealloc(self.0, Layout::from_size_align_unchecked(PAGE, PAGE)) };
    }
}

/// A map: a block of memory, or sockets by queue.
pub struct Map {
    name: String,
    page: Rc<Page>,
    sockets: BTreeMap<u32, Weak<RefCell<Xsk>>>,
}

impl Map {
    /// Its memory.
    pub fn page(&self) -> *mut u8 {
        self.page.at()
    }
}

/// A program, with the maps that it names.
pub struct Program {
    control: Option<Rc<RefCell<Map>>>,
    sockets: Option<Rc<RefCell<Map>>>,
    id: u32,
    /// The process that loaded it.
    owner: i32,
    /// The heartbeat that was seen last.
    beat: Cell<u64>,
}

impl Program {
    fn word(&self, at: usize) -> u64 {
        let Some(map) = &self.control else { return 0 };
        // SAFETY: the block lies in its page, and both sides use atomics.
        unsafe { (*map.borrow().page().add(at).cast::<AtomicU64>()).load(Ordering::Relaxed) }
    }

    /// When the loop last showed that it lives.
    pub fn beat(&self) -> u64 {
        self.word(0)
    }

    /// Whether the loop lives.
    pub fn is_fresh(&self, now: u64) -> bool {
        self.beat.set(self.beat());
        (now.wrapping_sub(self.beat()) as i64) < self.word(8) as i64
    }

    /// Index of the other port.
    pub fn peer(&self) -> Option<u32> {
        Some(self.word(24) as u32).filter(|peer| *peer != 0)
    }

    /// Whether the loop gets copies.
    pub fn is_copied(&self) -> bool {
        self.word(24) >> 32 != 0
    }

    /// A frame goes past the loop.
    pub fn count_bypassed(&self) {
        if let Some(map) = &self.control {
            // SAFETY: as in `word`.
            unsafe { (*map.borrow().page().add(16).cast::<AtomicU64>()).fetch_add(1, Ordering::Relaxed) };
        }
    }

    /// Socket of a queue.
    pub fn socket(&self, queue: u32) -> Option<Rc<RefCell<Xsk>>> {
        self.sockets.as_ref()?.borrow().sockets.get(&queue)?.upgrade()
    }

    pub(super) fn remove_socket(&self, queue: u32) {
        if let Some(map) = &self.sockets {
            map.borrow_mut().sockets.remove(&queue);
        }
    }

    /// The process is dead, and what it writes from now on does not count.
    pub fn detach_from_process(&self) {
        let Some(map) = &self.control else { return };
        let page = Page::new();
        // SAFETY: two pages that do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(map.borrow().page(), page.at(), PAGE) };
        map.borrow_mut().page = Rc::new(page);
    }

    /// The process that loaded it.
    pub fn owner(&self) -> i32 {
        self.owner
    }

    /// Number of the program in the kernel.
    pub fn id(&self) -> u32 {
        self.id
    }
}

/// What holds an XDP program on an interface.
pub struct Link {
    port: usize,
    id: u32,
    /// Its program, until it is taken off.
    program: RefCell<Option<Rc<Program>>>,
}

/// Text up to its end.
fn text(bytes: &[u8]) -> String {
    bytes.iter().take_while(|b| **b != 0).map(|b| *b as char).collect()
}

impl Kernel {
    pub(crate) fn by_number(&mut self, number: c_long, a: [usize; 6]) -> Option<i64> {
        match number {
            libc::SYS_bpf => {
                if let Err(result) = self.step() {
                    return result;
                }
                // SAFETY: the process points to a block of attributes of this length.
                unsafe { self.ask_bpf(a[0], a[1] as *mut u8, a[2]) }
            }
            // Rights are no part of this machine, and those of the real one stay as they are.
            libc::SYS_capget | libc::SYS_capset => match self.step() {
                Ok(()) => Some(0),
                Err(result) => result,
            },
            libc::SYS_memfd_create => match self.step() {
                Ok(()) => self.open(Object::Plain),
                Err(result) => result,
            },
            libc::SYS_dup3 => {
                let (from, to) = (self.place(a[0] as c_int)?, self.place(a[1] as c_int)?);
                if let Err(result) = self.step() {
                    return result;
                }
                let copy =
                    match self.descriptors.get(from).and_then(Option::as_ref).map(|entry| &entry.object) {
                        Some(Object::Map(map)) => Object::Map(map.clone()),
                        Some(Object::Program(program)) => Object::Program(program.clone()),
                        _ => return error(libc::EBADF),
                    };
                self.descriptors[to] = Some(Entry { owner: self.process, object: copy });
                Some(a[1] as i64)
            }
            _ => None,
        }
    }

    /// # Safety
    /// The pointer must be to a block of `len` bytes as `bpf(2)` describes it for the command.
    unsafe fn ask_bpf(&mut self, command: usize, block: *mut u8, len: usize) -> Option<i64> {
        // SAFETY: within the block, which has the fields of the command.
        let word = |at: usize| if at + 4 <= len { unsafe { given::<u32>(block.add(at).cast()) } } else { 0 };
        // SAFETY: the same.
        let long = |at: usize| if at + 8 <= len { unsafe { given::<u64>(block.add(at).cast()) } } else { 0 };
        if matches!(command, 0 | 5 | 28)
            && let Some(number) = self.armed.program.take_one()
        {
            self.met.count(Kind::OpenErrno);
            return error(number);
        }
        match command {
            // A map is made.
            0 => {
                // SAFETY: the name is sixteen bytes of the block.
                let name = unsafe { text(std::slice::from_raw_parts(block.add(28), 16)) };
                let page = Rc::new(Page::new());
                self.pages.push(page.clone());
                self.open(Object::Map(Rc::new(RefCell::new(Map { name, page, sockets: BTreeMap::new() }))))
            }
            // A map is written to.
            2 => {
                let Some(Object::Map(map)) = self.object(word(0) as c_int) else { return error(libc::EBADF) };
                let map = map.clone();
                if map.borrow().name != "sockets" {
                    return Some(0);
                }
                // SAFETY: key and value of this map are numbers of four bytes.
                let (queue, fd) = unsafe {
                    (given::<u32>(long(8) as *const c_void), given::<u32>(long(16) as *const c_void))
                };
                let Some(Object::Xsk(socket)) = self.object(fd as c_int) else {
                    return error(libc::EOPNOTSUPP);
                };
                let socket = Rc::downgrade(socket);
                map.borrow_mut().sockets.insert(queue, socket);
                Some(0)
            }
            // A program is loaded. Its instructions name maps by their descriptors.
            5 => {
                let count = word(4) as usize;
                // SAFETY: the block says where the instructions are, and how many.
                let instructions = unsafe { std::slice::from_raw_parts(long(8) as *const u64, count) };
                let (mut control, mut sockets) = (None, None);
                for instruction in instructions {
                    let (code, source, number) =
                        (*instruction as u8, (*instruction >> 12) as u8 & 15, (*instruction >> 32) as i32);
                    if code != 0x18 || source != 1 {
                        continue;
                    }
                    let Some(Object::Map(map)) = self.object(number) else { continue };
                    match map.borrow().name.as_str() {
                        "control" => control = Some(map.clone()),
                        "sockets" => sockets = Some(map.clone()),
                        _ => {}
                    }
                }
                self.programs += 1;
                let (id, owner, beat) = (self.programs, self.process, Cell::new(0));
                self.open(Object::Program(Rc::new(Program { control, sockets, id, owner, beat })))
            }
            // What is known of an object. All-zero, but for what is asked of programs and links.
            15 => {
                let (fd, len, to) = (word(0) as c_int, word(4) as usize, long(8) as *mut u8);
                // SAFETY: the block says where there is room, and how much.
                unsafe { std::ptr::write_bytes(to, 0, len) };
                let put = |at: usize, value: u32| {
                    if at + 4 <= len {
                        // SAFETY: within what was just filled with zeros.
                        unsafe { to.add(at).cast::<u32>().write_unaligned(value) }
                    }
                };
                match self.object(fd) {
                    Some(Object::Program(program)) => put(4, program.id()),
                    Some(Object::Link(link)) => {
                        const XDP: u32 = 6;
                        put(0, XDP);
                        put(4, link.id);
                        if let Some(program) = &*link.program.borrow() {
                            put(8, program.id());
                            put(16, self.interfaces[link.port].index);
                        }
                    }
                    _ => {}
                }
                Some(0)
            }
            // Type information is loaded.
            18 => self.open(Object::Plain),
            // A map is frozen.
            22 => Some(0),
            // A program is attached.
            28 => {
                let Some(Object::Program(program)) = self.object(word(0) as c_int) else {
                    return error(libc::EBADF);
                };
                let program = program.clone();
                let Some(port) = self.port_of(word(4)) else { return error(libc::ENODEV) };
                const IN_DRIVER: u32 = 1 << 2;
                let is_native = word(12) & IN_DRIVER != 0;
                let interface = &mut self.interfaces[port];
                if interface.xdp.is_some() {
                    return error(libc::EBUSY);
                }
                if is_native && !interface.has_native {
                    return error(libc::EOPNOTSUPP);
                }
                (interface.xdp, interface.xdp_is_native) = (Some(program.clone()), is_native);
                self.links += 1;
                let link = Link { port, id: self.links, program: RefCell::new(Some(program)) };
                self.open(Object::Link(Rc::new(link)))
            }
            // The program of a link is exchanged.
            29 => {
                let Some(Object::Link(link)) = self.object(word(0) as c_int) else {
                    return error(libc::EBADF);
                };
                let (link, Some(program)) = (link.clone(), self.program_of(word(4) as c_int)) else {
                    return error(libc::EBADF);
                };
                if link.program.borrow().is_none() {
                    return error(libc::ENOLINK);
                }
                self.interfaces[link.port].xdp = Some(program.clone());
                link.program.replace(Some(program));
                Some(0)
            }
            // A link by its number, and the next number.
            30 => {
                let wanted = word(0);
                let links = self.descriptors.iter().flatten().find_map(|entry| match &entry.object {
                    Object::Link(link) if link.id == wanted => Some(link.clone()),
                    _ => None,
                });
                links.map_or(error(libc::ENOENT), |link| self.open(Object::Link(link)))
            }
            31 => {
                let after = word(0);
                let ids = self.descriptors.iter().flatten().filter_map(|entry| match &entry.object {
                    Object::Link(link) if link.id > after => Some(link.id),
                    _ => None,
                });
                let Some(next) = ids.min() else { return error(libc::ENOENT) };
                // SAFETY: the second word of the block is where the number goes.
                unsafe { block.add(4).cast::<u32>().write_unaligned(next) };
                Some(0)
            }
            // A link is taken off.
            34 => {
                let Some(Object::Link(link)) = self.object(word(0) as c_int) else {
                    return error(libc::EBADF);
                };
                let link = link.clone();
                self.detach(&link);
                Some(0)
            }
            _ => error(libc::EOPNOTSUPP),
        }
    }

    /// A link holds its program no more.
    pub(super) fn detach(&mut self, link: &Link) {
        if link.program.take().is_some() {
            self.interfaces[link.port].xdp = None;
        }
    }

    /// Somebody takes the XDP program off an interface.
    pub fn take_xdp_off(&mut self, port: usize) {
        self.interfaces[port].xdp = None;
        let links = self.descriptors.iter().flatten().filter_map(|entry| match &entry.object {
            Object::Link(link) if link.port == port => Some(link.clone()),
            _ => None,
        });
        links.for_each(|link| drop(link.program.take()));
    }

    /// The program of a descriptor.
    pub(super) fn program_of(&self, fd: c_int) -> Option<Rc<Program>> {
        match self.object(fd) {
            Some(Object::Program(program)) => Some(program.clone()),
            _ => None,
        }
    }
}
