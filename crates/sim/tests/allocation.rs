//! Steady state allocates nothing, and an idle flow is small.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use weir_config::Scenario;
use weir_units::{Duration, Time};

struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        HELD.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn scenario(flows: &str) -> Scenario {
    let text = format!(
        "title = \"t\"\n[link]\nrate = \"1Gbit/s\"\n[path]\nrtt = \"10ms\"\n[aqm]\nname = \"codel\"\n{flows}\
         [run]\nduration = \"30s\"\nsample = \"10s\"\n"
    );
    Scenario::parse("t", &text).unwrap()
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Calls of the allocator in five seconds after twenty, and packets in that time.
fn steady(flows: &str) -> (u64, u64) {
    let mut simulation = weir_sim::build(&scenario(flows), 1, ()).unwrap();
    simulation.run_until(at(20_001));
    let (before, packets) = (CALLS.load(Relaxed), simulation.counts().hops);
    simulation.run_until(at(25_000));
    (CALLS.load(Relaxed) - before, simulation.counts().hops - packets)
}

/// One test, as the counters are those of the process.
#[test]
fn memory_is_asked_for_at_the_start_and_is_little() {
    let (calls, packets) = steady("[[flows]]\ncount = 20\nwindow = \"50kB\"\n");
    assert!(calls == 0 && packets > 300_000, "{calls} calls for {packets} packets");
    let flows = "[[flows]]\ncount = 20\nvoice = {}\n[[flows]]\ngame = {}\n[[flows]]\nrealtime = {}\n";
    let (calls, packets) = steady(flows);
    assert!(calls == 0 && packets > 5_000, "{calls} calls for {packets} packets");
    // The memory for the repair of a loss is kept for the next one, until a flow is idle.
    let (calls, packets) = steady("[[flows]]\ncount = 20\n");
    assert!(calls == 0 && packets > 300_000, "{calls} calls for {packets} packets");

    // Flows that have sent a little and wait, many against few.
    let idle = |count: u32| {
        let flows = format!(
            "[[flows]]\ncount = {count}\nstart_spread = \"1s\"\n[flows.web]\nobjects = 1\nobject_size = \"1kB\"\nthink = \"3600s\"\n"
        );
        let before = HELD.load(Relaxed);
        let mut simulation = weir_sim::build(&scenario(&flows), 1, ()).unwrap();
        simulation.run_until(at(9_999));
        HELD.load(Relaxed) - before
    };
    let each = (idle(8_192) - idle(1_024)) / (8_192 - 1_024);
    // About half of it is the transport of both ends, and a tenth the application; 40 bytes are what is told
    // of the transfer that it completed, and nine what a sender keeps to undo a reduction for a segment that
    // was late.
    assert!(each <= 1104, "{each} bytes for an idle flow");
}
