//! Handles: where they lie, how a pointer is known for one, and what happens when something panics.

use crate::memory::{ALIGN, Region, within};
use crate::types::{
    WEIR_E_CONFIG, WEIR_E_FAULT, WEIR_E_HANDLE, WEIR_E_MEMORY, WEIR_E_NULL, WEIR_E_SIZE, WEIR_E_VALUE,
    WEIR_OK, weir_departure, weir_options, weir_packet,
};
use std::ffi::CStr;
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use weir_units::Time;

/// What the first word of a handle says, but while it lives.
const FAULTY: u64 = 0x7765_6972_2d66_6c74;
const ENDED: u64 = 0x7765_6972_2d65_6e64;

/// What handles are of.
pub trait Body {
    /// What the first word of a handle says while it lives: another for each kind.
    const LIVE: u64;
}

/// Latest time that is taken: 146 years after the origin, so that no sum of times overflows.
const TIME_MAX: u64 = 1 << 62;

/// What a handle points to.
#[repr(C)]
pub struct Handle<T> {
    magic: u64,
    /// The region of the caller's that it lies in; null if the library allocated it.
    region: *mut Region,
    /// Calls whose time lay before that of the call before.
    pub clamped: u64,
    pub body: T,
}

/// The time of a call on something whose last call was at `last`.
pub fn clock(last: &mut Time, clamped: &mut u64, now_ns: u64) -> Result<Time, i32> {
    if now_ns > TIME_MAX {
        return Err(WEIR_E_VALUE);
    }
    let now = Time::from_nanos(now_ns);
    *clamped += u64::from(now < *last);
    *last = now.max(*last);
    Ok(*last)
}

/// Whether an array of the caller's may be read or written.
pub fn usable<T>(array: *const T, count: usize) -> Result<(), i32> {
    if count > 0 && array.is_null() {
        return Err(WEIR_E_NULL);
    }
    let is_small = count.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= isize::MAX as usize);
    if array.is_aligned() && is_small { Ok(()) } else { Err(WEIR_E_VALUE) }
}

/// Runs what may panic; a panic is a fault of this library and is told as one.
pub fn caught(call: impl FnOnce() -> Result<i32, i32>) -> i32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(code) | Err(code)) => code,
        Err(_) => WEIR_E_FAULT,
    }
}

impl<T: Body> Handle<T> {
    /// Does something with a live handle.
    ///
    /// # Safety
    ///
    /// Null, or memory of a handle, also of one that ended if the memory is still the caller's; no other call
    /// on it is under way.
    pub unsafe fn with(this: *mut Handle<T>, call: impl FnOnce(&mut Handle<T>) -> Result<i32, i32>) -> i32 {
        if let Err(code) = usable(this, 1) {
            return if code == WEIR_E_VALUE { WEIR_E_HANDLE } else { code };
        }
        // SAFETY: the caller's promise.
        match unsafe { (*this).magic } {
            magic if magic == T::LIVE => {}
            FAULTY => return WEIR_E_FAULT,
            _ => return WEIR_E_HANDLE,
        }
        // SAFETY: it is live, and nobody else is in it.
        let handle = unsafe { &mut *this };
        let region = handle.region;
        let guarded = AssertUnwindSafe(|| call(handle));
        // What is left of a panic is freed where it was made.
        let done = if region.is_null() {
            catch_unwind(guarded).map_err(drop)
        } else {
            within(region, || catch_unwind(guarded).map_err(drop))
        };
        match done {
            Ok(Ok(code) | Err(code)) => code,
            Err(()) => {
                // SAFETY: as above. What a panic left behind is not asked again.
                unsafe { (*this).magic = FAULTY };
                WEIR_E_FAULT
            }
        }
    }

    /// Ends a handle, and takes it out of the caller's variable.
    ///
    /// # Safety
    ///
    /// As [`with`](Self::with), for the pointer in `place`.
    pub unsafe fn end(place: *mut *mut Handle<T>) -> i32 {
        if let Err(code) = usable(place, 1) {
            return code;
        }
        // SAFETY: the caller's variable.
        let this = unsafe { *place };
        if let Err(code) = usable(this, 1) {
            return if code == WEIR_E_VALUE { WEIR_E_HANDLE } else { code };
        }
        // SAFETY: the caller's promise.
        let (magic, region) = unsafe { ((*this).magic, (*this).region) };
        if magic != T::LIVE && magic != FAULTY {
            return WEIR_E_HANDLE;
        }
        // SAFETY: it is a handle, made below, and after this nothing takes it for one.
        let freed = unsafe {
            (*this).magic = ENDED;
            *place = ptr::null_mut();
            if region.is_null() {
                catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(this)))).map_err(drop)
            } else {
                let body = AssertUnwindSafe(|| ptr::drop_in_place(&raw mut (*this).body));
                within(region, || catch_unwind(body).map_err(drop))
            }
        };
        if freed.is_ok() { WEIR_OK } else { WEIR_E_FAULT }
    }

    /// Bytes of a region before what is allocated in it.
    const HEAD: usize =
        size_of::<Region>().next_multiple_of(ALIGN) + size_of::<Handle<T>>().next_multiple_of(ALIGN);

    /// Bytes that [`make`](Self::make) needs of the caller, wherever they start.
    pub fn bytes(make: impl FnOnce() -> Result<T, Refusal>) -> Result<usize, Refusal> {
        let mut region = Region::counting();
        within(&raw mut region, || make().map(drop))?;
        Ok(ALIGN - 1 + Self::HEAD + region.used())
    }

    /// The same of something that allocates nothing.
    pub fn bytes_of_plain() -> usize {
        ALIGN - 1 + Self::HEAD
    }

    /// Makes a handle, in the caller's memory if there is any.
    ///
    /// # Safety
    ///
    /// The memory of the options is the caller's, and stays as it is until the handle has ended.
    pub unsafe fn make(
        options: &Options,
        make: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<*mut Handle<T>, Refusal> {
        let of = |region, body| Handle { magic: T::LIVE, region, clamped: 0, body };
        if options.memory.is_null() {
            return Ok(Box::into_raw(Box::new(of(ptr::null_mut(), make()?))));
        }
        let skipped = options.memory.align_offset(ALIGN);
        let rest = options.memory_size.checked_sub(skipped + Self::HEAD);
        let start = options.memory.wrapping_add(skipped);
        start.expose_provenance();
        let region_at = start.cast::<Region>();
        let handle_at = start.wrapping_add(size_of::<Region>().next_multiple_of(ALIGN)).cast::<Handle<T>>();
        let mut region = Region::new(start.wrapping_add(Self::HEAD), rest.unwrap_or(0));
        let made = within(&raw mut region, || {
            let made = catch_unwind(AssertUnwindSafe(make));
            made.unwrap_or_else(|panic| {
                drop(panic);
                Err(Refusal::new(WEIR_E_FAULT, "the library failed"))
            })
        });
        let needs = ALIGN - 1 + Self::HEAD + region.used();
        match made {
            Ok(body) if rest.is_some() && region.fits() => {
                // SAFETY: both lie in the caller's memory, which is long enough, and are aligned.
                unsafe {
                    region_at.write(region);
                    handle_at.write(of(region_at, body));
                }
                Ok(handle_at)
            }
            other => {
                let text = format!("{} bytes of memory are too few: give {needs}", options.memory_size);
                let refusal = match &other {
                    // The text is copied, as it may lie in the region.
                    Err(refusal) => Refusal::new(refusal.code, refusal.text.as_str()),
                    Ok(_) => Refusal::new(WEIR_E_MEMORY, text),
                };
                within(&raw mut region, || drop(other));
                Err(refusal)
            }
        }
    }
}

/// Why something was not made.
pub struct Refusal {
    pub code: i32,
    pub text: String,
}

impl Refusal {
    pub fn new(code: i32, text: impl Into<String>) -> Refusal {
        Refusal { code, text: text.into() }
    }
}

impl From<i32> for Refusal {
    fn from(code: i32) -> Refusal {
        Refusal { code, text: String::new() }
    }
}

/// The options of a caller, checked.
pub struct Options {
    pub config: String,
    pub start: Time,
    pub seed: u64,
    pub memory: *mut u8,
    pub memory_size: usize,
    message: *mut u8,
    message_size: usize,
}

impl Options {
    /// Reads what the caller gave.
    ///
    /// # Safety
    ///
    /// Null, or options as the header describes them.
    pub unsafe fn read(options: *const weir_options) -> Result<Options, i32> {
        usable(options, 1)?;
        // SAFETY: it begins with its size, and is read as far as that says.
        let given = unsafe { &*options };
        let sizes = (given.size as usize, usize::from(given.packet_size), usize::from(given.departure_size));
        if sizes != (size_of::<weir_options>(), size_of::<weir_packet>(), size_of::<weir_departure>()) {
            return Err(WEIR_E_SIZE);
        }
        let (message, message_size) = (given.message.cast::<u8>(), given.message_size);
        let mut read = Options {
            config: String::new(),
            start: Time::from_nanos(given.start_ns),
            seed: given.seed,
            memory: given.memory.cast(),
            memory_size: given.memory_size,
            message: if message_size == 0 { ptr::null_mut() } else { message },
            message_size,
        };
        read.say("");
        if given.start_ns > TIME_MAX {
            read.say("`start_ns` is later than 2^62 ns");
            return Err(WEIR_E_VALUE);
        }
        // SAFETY: a text that ends with a zero, as the header says.
        match unsafe { text(given.config) } {
            Ok(config) => read.config = config.to_string(),
            Err(code) => {
                read.say(if code == WEIR_E_NULL { "there is no `config`" } else { "`config` is not UTF-8" });
                return Err(code);
            }
        }
        Ok(read)
    }

    /// Says a text where the caller wants it, as much of it as fits.
    pub fn say(&self, text: &str) {
        if !self.message.is_null() {
            // SAFETY: the caller's buffer of that size, which is not zero.
            unsafe { put(text, self.message, self.message_size) };
        }
    }

    /// The code of a refusal, whose text is said.
    pub fn refused(&self, refusal: Refusal) -> i32 {
        self.say(&refusal.text);
        refusal.code
    }
}

/// Copies a text and a zero, as much as fits.
///
/// # Safety
///
/// `size` bytes at `to` are the caller's; at least one.
pub unsafe fn put(text: &str, to: *mut u8, size: usize) {
    let mut len = text.len().min(size - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr(), len);
        to.add(len).write(0);
    }
}

/// A text of the caller's.
///
/// # Safety
///
/// Null, or bytes that end with a zero.
pub unsafe fn text<'a>(from: *const std::ffi::c_char) -> Result<&'a str, i32> {
    if from.is_null() {
        return Err(WEIR_E_NULL);
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(from) }.to_str().map_err(|_| WEIR_E_CONFIG)
}
