//! One packet loop for several links, which it turns one after the other.
//!
//! A link that rests is turned when a frame came to one of its ports or something of it is due, and with the
//! others every 100 us while one of them has work. Each link fails, ends and is taken over by itself: what
//! takes long at its end, such as closing its sockets, is done by a thread of its own as long as other links
//! turn here.

use crate::engine::{End, Loop, Outcome, Turned, Turns};
use crate::port::poll;
use crate::processor::Claim;
use crate::{Error, clock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use weir_units::{Duration, Time};

/// How long a link that rests is left alone at most while others have work, beyond a turn of these.
const LOOK_AROUND: Duration = Duration::from_micros(100);
/// After a sleep without frames all are turned if that was so long ago: so links that rest fall into step,
/// and one wakeup is enough for all.
const IN_STEP: Duration = Duration::from_millis(1);

/// What comes of a link, once it has ended.
pub type Ended = Receiver<Result<Outcome, Error>>;

/// Several links, ready to be turned together.
pub struct SharedLoop {
    links: Vec<Newcomer>,
}

/// A link that is not turned yet.
struct Newcomer {
    looping: Loop,
    stop: Arc<AtomicBool>,
    ended: Sender<Result<Outcome, Error>>,
}

/// A link among others.
struct Member {
    looping: Loop,
    turns: Turns,
    stop: Arc<AtomicBool>,
    ended: Sender<Result<Outcome, Error>>,
    /// When it is to be turned, whether or not a frame comes; zero as long as it has work.
    due: Time,
}

impl SharedLoop {
    /// For these links, each of which turns until its flag is set; of each, in their order, what comes of it.
    pub fn new(links: impl IntoIterator<Item = (Loop, Arc<AtomicBool>)>) -> (SharedLoop, Vec<Ended>) {
        let with_end = |(looping, stop)| {
            let (ended, end) = channel();
            (Newcomer { looping, stop, ended }, end)
        };
        let (links, ends) = links.into_iter().map(with_end).unzip();
        (SharedLoop { links }, ends)
    }

    /// As [`Loop::run`] for all of them, until the last has ended. The loop stays on the core that the first
    /// names, asks for a real-time class if one of them does, and never sleeps if one of them must not.
    pub fn run(self) {
        let wants = self.links.iter().map(|link| link.looping.wants());
        let all = wants.reduce(|(core, realtime, busy), of| (core.or(of.0), realtime || of.1, busy || of.2));
        let Some((core, realtime, busy)) = all else { return };
        let mut claim = Claim::make(core, realtime);
        let begin = |Newcomer { mut looping, stop, ended }| {
            let turns = looping.begin(claim);
            Member { due: turns.last, looping, turns, stop, ended }
        };
        let mut members: Vec<Member> = self.links.into_iter().map(begin).collect();
        let (mut polls, mut looked, mut all_turned) = (Vec::new(), clock(), clock());
        while !members.is_empty() {
            let begun = clock();
            let is_round = busy || begun.since(looked) >= LOOK_AROUND;
            let (mut at, mut worked) = (0, false);
            while let Some(member) = members.get_mut(at) {
                if !is_round && member.due > begun {
                    at += 1;
                    continue;
                }
                match member.step(busy) {
                    None => {
                        worked |= member.due == Time::ZERO;
                        at += 1;
                    }
                    Some(result) => {
                        let member = members.remove(at);
                        member.end(result, members.is_empty());
                    }
                }
            }
            if is_round {
                (looked, all_turned) = (begun, begun);
            }
            match worked {
                true => {}
                false if busy => claim.idle(begun),
                // What came meanwhile is found by whoever sleeps.
                false => {
                    let told = sleep(&mut members, &mut polls);
                    looked = clock();
                    if told == 0 && looked.since(all_turned) >= IN_STEP {
                        members.iter_mut().for_each(|member| member.due = looked);
                        all_turned = looked;
                    }
                }
            }
        }
    }
}

impl Member {
    /// Turns once, and notes when it is to be turned again; why it ends, if it does. A panic ends this link
    /// and no other.
    fn step(&mut self, busy: bool) -> Option<Result<End, Error>> {
        let Member { looping, turns, stop, due, .. } = self;
        let stepped = catch_unwind(AssertUnwindSafe(|| {
            let turned = looping.step(turns, stop)?;
            *due = match turned {
                Turned::Worked => Time::ZERO,
                // Where nobody sleeps all are turned each time.
                Turned::Idle if busy => turns.last,
                Turned::Idle => turns.last + looping.rest_at_most(turns),
                Turned::Ended(end) => return Ok(Some(end)),
            };
            Ok(None)
        }));
        match stepped {
            Ok(result) => result.transpose(),
            Err(_) => Some(Err(Error::Refused("the packet loop panicked".into()))),
        }
    }

    /// Ends it: here if it is the last, else where nobody waits for it.
    fn end(self, result: Result<End, Error>, is_last: bool) {
        let Member { looping, ended, .. } = self;
        // Whoever does not want to know has gone.
        let finish = move || drop(ended.send(looping.finish(result)));
        if is_last {
            return finish();
        }
        // Where there is no thread to be had it is put back here, and its end is told as one without a word.
        let _ = std::thread::Builder::new().name("weir-closing".into()).spawn(finish);
    }
}

/// Sleeps until a frame comes to a link, which is due then, or something is due; to how many one came.
fn sleep(members: &mut [Member], polls: &mut Vec<libc::pollfd>) -> usize {
    let Some(due) = members.iter().map(|member| member.due).min() else { return 0 };
    let begun = clock();
    let mut span = due.since(begun);
    polls.clear();
    for member in members.iter_mut() {
        span = member.looping.ports().sleeper().enlist(polls, span);
    }
    poll(polls, span);
    let now = clock();
    let slept = now.since(begun).min(span);
    let (mut told, mut count) = (&polls[..], 0);
    for member in members.iter_mut() {
        if member.looping.ports().sleeper().take(&mut told) {
            member.due = now;
            count += 1;
        }
        member.looping.slept(&mut member.turns, slept);
    }
    count
}
