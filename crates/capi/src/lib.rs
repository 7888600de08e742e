//! libweir: Weir's queues and algorithms for programs in C.
//!
//! What C sees is in [`abi`], from which cbindgen makes `include/weir.h`; the manual is `docs/libweir.md`.
//! The library has no thread and no state of its own, reads no clock and does no I/O. Nothing panics across
//! the border: a panic would be a fault of this library, and is told as `WEIR_E_FAULT`.
//!
//! ```
//! use weir_capi::abi::*;
//!
//! let config = c"rate = '10Mbit/s'\naqm = { name = 'codel' }";
//! let options = weir_options { config: config.as_ptr(), ..weir_options::new() };
//! let mut queue = std::ptr::null_mut();
//! let packet = weir_packet { cookie: 7, length: 1500, flow: 1, sender: 0, receiver: 0, ecn: 0, reserved: [0; 7] };
//! let mut verdict = 0;
//! let mut gone = weir_departure::default();
//! // SAFETY: all pointers are to variables of this example.
//! unsafe {
//!     assert_eq!(weir_queue_create(&options, &mut queue), WEIR_OK);
//!     assert_eq!(weir_queue_enqueue(queue, 0, &packet, 1, &mut verdict), 1);
//!     assert_eq!(weir_queue_dequeue(queue, 3_000_000, &mut gone, 1), 1);
//!     assert_eq!(weir_queue_destroy(&mut queue), WEIR_OK);
//! }
//! assert_eq!((verdict, gone.cookie, gone.sojourn_ns), (WEIR_FORWARD, 7, 3_000_000));
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod abi;
mod guide;
mod handle;
mod memory;
mod queue;
mod types;
