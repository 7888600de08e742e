//! Looks at the counters, asks the law, changes the queue.

use crate::Kernel;
use crate::find::{ByHandle, Refused, by_handle, find, slowest, with_all};
use crate::journal::Journal;
use crate::place::{Left, Place, Report, Sums, is_noted, is_same_but_for_rate, noted, same};
use crate::probe::{Delays, Probe, Unprobed};
use std::collections::BTreeMap;
use weir_aqm::Value;
use weir_config::{SteerConfig, SteeredQueue};
use weir_steer::polled::{Counters, Pace, Polled, Seen};
use weir_steer::{Epoch, Law, Move, Observer, Policy, PolicyError, SteeringLaw, TableState};
use weir_tc::{Error, Handle, Kind, Message, Options, Subject};
use weir_units::{Bytes, Duration, Rate, Time};

/// Why nothing can be steered.
#[derive(Debug, thiserror::Error)]
pub enum Setup {
    /// There is no such interface.
    #[error("there is no interface `{0}` in this network namespace; `ip link` lists those there are")]
    NoInterface(String),
    /// It has no queue with a target.
    #[error("{name} has no queue that can be steered: {found}. Remedy: {remedy}")]
    NoQueue {
        /// Of the interface.
        name: String,
        /// What there is instead.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// The rate of the link is not known.
    #[error(
        "{label}: no shaper and no driver tells the rate of the link; say it, as `--rate 100Mbit/s` or `rate` in the file"
    )]
    NoRate {
        /// Of the queue.
        label: String,
    },
    /// It shares the link with others, and nothing tells what is its own.
    #[error(
        "{label} is one of several queues that share the link (mq), and nothing tells which rate is its own. Remedy: one queue for all, as by \
         `tc qdisc replace dev {interface} root handle 1: fq_codel`, or a shaper above it; `--rate` says what each queue has"
    )]
    NoShare {
        /// Of the queue.
        label: String,
        /// Its interface.
        interface: String,
    },
    /// There is no shaper to be slowed.
    #[error(
        "{label}: a utilization_target below 100% is held by the rate of a shaper above the queue, and there is none that serves \
         it alone: put tbf or htb above it, use cake with a bandwidth, or leave utilization_target at 100%"
    )]
    NoShaper {
        /// Of the queue.
        label: String,
    },
    /// The shaper would undo what is set below it.
    #[error(
        "{label}: tbf gives a fifo below it its own limit whenever its rate is changed, so that a utilization_target below 100% \
         cannot be held: take htb in its place, or an AQM in place of the fifo, or leave utilization_target at 100%"
    )]
    FifoBelowTbf {
        /// Of the queue.
        label: String,
    },
    /// The policy contradicts itself.
    #[error("{0}")]
    Policy(#[from] PolicyError),
    /// Delays cannot be read.
    #[error("{0}")]
    Probe(#[from] Unprobed),
    /// The kernel could not be asked.
    #[error("{0}")]
    Kernel(#[from] Error),
    /// Somebody steers it already.
    #[error("{interface} {handle} is steered by process {pid} already; end that one first")]
    Rival {
        /// The process.
        pid: u32,
        /// The interface.
        interface: String,
        /// The discipline.
        handle: Handle,
    },
    /// The journal could not be written; nothing was changed.
    #[error("cannot write the journal: {0}; nothing was changed")]
    Journal(#[from] std::io::Error),
}

/// Something worth telling.
#[derive(Clone, PartialEq, Debug)]
pub struct News {
    /// Since the start.
    pub time: Time,
    /// The queue.
    pub label: String,
    /// What happened.
    pub event: Event,
}

/// What happened to a queue.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// Its target was set.
    Target {
        /// Before.
        from: Duration,
        /// Now.
        to: Duration,
        /// The rule of the law.
        rule: &'static str,
    },
    /// The rate of its shaper was set.
    Rate {
        /// Before.
        from: Rate,
        /// Now.
        to: Rate,
    },
    /// It is left as it is from now on.
    Left(Left),
}

/// Remembers the last rule of the law.
#[derive(Default)]
struct LastRule(Option<&'static str>);

impl Observer for LastRule {
    fn moved(&mut self, m: &Move) {
        if matches!(m.to, Value::Duration(_)) || self.0.is_none() {
            self.0 = Some(m.rule.name());
        }
    }
}

/// A queue that is steered.
struct Queue {
    place: Place,
    /// Which of the configuration's queues it is.
    number: usize,
    policy: Policy,
    /// Of the link, as the user or the shaper says.
    link: Rate,
    /// Whether that is what the shaper says.
    follows: bool,
    polled: Polled,
    /// What was seen of each packet since the last look, and since the start, where somebody looks.
    seen: Option<Seen>,
    delays: Option<Delays>,
    sums: Sums,
    /// What was read back last, or found.
    options: Options,
    /// What was set and is to be read back.
    asked: Option<u64>,
    target: Duration,
    /// The rate of the shaper in force, in bit/s.
    rate: Rate,
    asked_rate: bool,
    /// Whether that is another one than the shaper was found with, by what was set here.
    is_moved: bool,
    /// Options of the shaper as they were read back while it is moved.
    shaped: Option<Options>,
    waiting_packets: u32,
    /// What the link could have sent since the first look.
    capacity_bytes: f64,
    pace: Pace,
    changes: u64,
    polls: u64,
    range: Option<(Duration, Duration)>,
    first: Option<Counters>,
    last: Option<Counters>,
    left: Option<Left>,
    /// Whether the kernel refused to put something back: its journal stays for the next start.
    is_owed: bool,
    rule: &'static str,
}

/// Steers any number of queues.
pub struct Steerer {
    queues: Vec<Queue>,
    journal: Option<Journal>,
    refused: Vec<(String, Refused)>,
    probe: Option<Probe>,
}

/// What to do where no queue can be steered. What is there must not be lost by it.
fn remedy(refused: &[Refused], name: &str, disciplines: &[Message]) -> String {
    if let Some(refused) = refused.first() {
        return refused.why.clone();
    }
    let is_shaper = |m: &&Message| matches!(m.kind(), Some(Kind::Tbf | Kind::Htb));
    match disciplines.iter().find(is_shaper) {
        Some(shaper) => {
            let class = match shaper.kind() {
                Some(Kind::Htb) => "CLASS, which is its leaf class,".to_string(),
                _ => format!("{}1", shaper.handle),
            };
            format!(
                "`tc qdisc add dev {name} parent {class} handle f00: fq_codel` puts one below {}",
                shaper.handle
            )
        }
        None => format!(
            "`tc qdisc replace dev {name} root handle 1: fq_codel`, which takes the place of what is there; a kernel that knows no \
             such kind has `bfifo`, which is steered below `tbf`"
        ),
    }
}

impl Steerer {
    /// Finds the queues of a configuration. `driver_rate` tells the rate of an interface that no shaper
    /// limits. Nothing is changed yet.
    pub fn find(
        config: &SteerConfig,
        kernel: &mut dyn Kernel,
        driver_rate: &dyn Fn(&str) -> Option<Rate>,
    ) -> Result<Steerer, Setup> {
        let interfaces = kernel.interfaces()?;
        let mut steerer = Steerer { queues: Vec::new(), journal: None, refused: Vec::new(), probe: None };
        for (number, wanted) in config.queues.iter().enumerate() {
            let interface = interfaces.iter().find(|i| i.name == wanted.interface);
            let interface = interface.ok_or_else(|| Setup::NoInterface(wanted.interface.clone()))?;
            let disciplines = kernel.disciplines(interface.index)?;
            let classes = kernel.classes(interface.index)?;
            let mut found = find(interface, &disciplines, &classes);
            let handles: Vec<String> = found.places.iter().map(|place| place.handle.to_string()).collect();
            if let Some(major) = wanted.major() {
                found.places.retain(|place| place.handle == Handle::new(major, 0));
                found.refused.retain(|refused| refused.handle == Handle::new(major, 0));
            }
            if found.places.is_empty() {
                let there = disciplines.iter().map(|m| {
                    let kind = m.kind().map(ToString::to_string).unwrap_or_default();
                    format!("{kind} {}", m.handle)
                });
                let there: Vec<String> = there.collect();
                return Err(Setup::NoQueue {
                    name: interface.name.clone(),
                    found: if there.is_empty() {
                        "nothing is there".into()
                    } else {
                        format!("there is {}", there.join(", "))
                    },
                    remedy: match handles.as_slice() {
                        [] => remedy(&found.refused, &interface.name, &disciplines),
                        some => format!(
                            "the handle must be one of those that can be steered: {}",
                            some.join(", ")
                        ),
                    },
                });
            }
            for place in found.places {
                let policy = config.policy_of(wanted, place.options.default_target());
                let queue = Queue::new(place, (number, wanted), &policy, config.steer.settle, driver_rate)?;
                steerer.queues.push(queue);
            }
            steerer.refused.extend(found.refused.into_iter().map(|r| (interface.name.clone(), r)));
        }
        let policies: Vec<Policy> = steerer.queues.iter().map(|queue| queue.policy.clone()).collect();
        steerer.check_shapers(&policies)?;
        Ok(steerer)
    }

    /// A shaper whose rate is moved must serve one queue alone.
    fn check_shapers(&self, policies: &[Policy]) -> Result<(), Setup> {
        for (queue, policy) in self.queues.iter().zip(policies) {
            if !policy.uses_virtual_queue() {
                continue;
            }
            // `tbf_change` of the kernel sets the limit of a FIFO.
            let is_below_tbf = queue.place.shaper.as_ref().is_some_and(|s| s.kind == Kind::Tbf);
            if queue.place.kind == Kind::Bfifo && is_below_tbf {
                return Err(Setup::FifoBelowTbf { label: queue.place.label() });
            }
            // What is above may be the slower one: then moving this one holds nothing.
            let alone = queue.place.shaper.as_ref().is_some_and(|s| s.rate == s.own() && !s.is_shared);
            if !alone {
                return Err(Setup::NoShaper { label: queue.place.label() });
            }
        }
        Ok(())
    }

    /// The queues that were found.
    pub fn places(&self) -> impl Iterator<Item = (&Place, Rate, &Policy)> {
        self.queues.iter().map(|q| (&q.place, q.link, &q.policy))
    }

    /// How the queues stand.
    pub fn stand(&self) -> impl Iterator<Item = Standing<'_>> {
        self.queues.iter().map(|queue| Standing {
            place: &queue.place,
            number: queue.number,
            policy: &queue.policy,
            link: queue.link,
            target: queue.target,
            shaper: queue.is_moved.then_some(queue.rate),
            counters: queue.last.as_ref(),
            marked: queue.sums.marked(),
            shed: queue.sums.shed(),
            waiting_packets: queue.waiting_packets,
            capacity_bytes: queue.capacity_bytes,
            rule: queue.rule,
            state: queue.table_state(),
            left: queue.left.as_ref(),
        })
    }

    /// Puts another configuration of the same queues into force: policies, rates of links and `settle`. It is
    /// for all queues, or refused and nothing is changed. The targets follow with the next turn.
    ///
    /// Which queues there are is not looked at: the configuration must name those that were found.
    pub fn change(
        &mut self,
        config: &SteerConfig,
        driver_rate: &dyn Fn(&str) -> Option<Rate>,
    ) -> Result<(), Setup> {
        self.check(config, driver_rate).map(|changes| {
            for (queue, (policy, (link, follows))) in self.queues.iter_mut().zip(changes) {
                queue.pace.set_settle(config.steer.settle);
                // It was checked, so that this is never refused.
                if policy != queue.policy && queue.polled.law_mut().set_policy(&policy).is_ok() {
                    queue.policy = policy;
                    // Until the law moves it, a set point moves because of its new bounds.
                    queue.rule = "policy";
                }
                (queue.link, queue.follows) = (link, follows);
            }
        })
    }

    /// Whether [`Steerer::change`] would do it; the policies and rates of the queues then, and
    /// whether those are what shapers say.
    pub fn check(
        &self,
        config: &SteerConfig,
        driver_rate: &dyn Fn(&str) -> Option<Rate>,
    ) -> Result<Vec<(Policy, LinkRate)>, Setup> {
        let mut changes = Vec::with_capacity(self.queues.len());
        for queue in &self.queues {
            let Some(wanted) = config.queues.get(queue.number) else { continue };
            let policy = config.policy_of(wanted, queue.place.options.default_target());
            SteeringLaw::new(&policy)?;
            changes.push((policy, link_of(&queue.place, wanted, driver_rate)?));
        }
        let policies: Vec<Policy> = changes.iter().map(|(policy, _)| policy.clone()).collect();
        self.check_shapers(&policies)?;
        Ok(changes)
    }

    /// Has delays read of each packet from now on, instead of estimating them. Refused where that cannot be
    /// for every queue; nothing is changed then.
    pub fn probe(&mut self, kernel: &mut dyn Kernel) -> Result<(), Setup> {
        let places: Vec<&Place> = self.queues.iter().map(|queue| &queue.place).collect();
        self.probe = Some(Probe::attach(&places, kernel)?);
        Ok(())
    }

    /// Queues of the same interfaces that cannot be steered.
    pub fn refused(&self) -> &[(String, Refused)] {
        &self.refused
    }

    /// Notes in a journal what was found. From then on [`Steerer::turn`] may change it.
    pub fn begin(&mut self, mut journal: Journal) -> Result<(), Setup> {
        for queue in &self.queues {
            journal.found(&queue.place)?;
        }
        let places: Vec<(i32, Handle)> =
            self.queues.iter().map(|q| (q.place.interface, q.place.handle)).collect();
        if let Some((pid, interface, handle)) = journal.rival(&places) {
            journal.remove();
            return Err(Setup::Rival { pid, interface, handle });
        }
        journal.started();
        self.journal = Some(journal);
        Ok(())
    }

    /// Whether no queue is left to be steered.
    pub fn is_done(&self) -> bool {
        self.queues.iter().all(|queue| queue.left.is_some())
    }

    /// What is to be there of the queues that are not left, by interface.
    fn known(&self) -> BTreeMap<i32, Known> {
        let mut known: BTreeMap<i32, Known> = BTreeMap::new();
        for queue in self.queues.iter().filter(|q| q.left.is_none()) {
            known.entry(queue.place.interface).or_default().note(queue);
        }
        known
    }

    /// One look at all queues: counters, law, changes. `now` is a time that never goes back. An error of the
    /// kernel's socket ends nothing: the next turn asks again.
    pub fn turn(
        &mut self,
        kernel: &mut dyn Kernel,
        now: Time,
        tell: &mut dyn FnMut(News),
    ) -> Result<(), Error> {
        let interfaces = self.known();
        let probe = &mut self.probe;
        // A look that the kernel refuses is one without: what it tells is estimated then.
        let is_seen = probe.as_mut().is_some_and(|probe| probe.turn().is_ok());
        for (interface, known) in interfaces {
            let (disciplines, classes) = known.look(interface, kernel)?;
            let (by_name, by_class) = (by_handle(&disciplines), by_handle(&classes));
            // An interface has at least the kernel's own discipline, as long as it is there.
            let gone = disciplines.is_empty() && !kernel.interfaces()?.iter().any(|i| i.index == interface);
            for (number, queue) in self.queues.iter_mut().enumerate() {
                if queue.place.interface != interface || queue.left.is_some() {
                    continue;
                }
                let told = probe.as_ref().filter(|_| is_seen).and_then(|probe| probe.seen(number).ok());
                queue.seen = told.map(|(seen, delays)| {
                    queue.delays = Some(delays);
                    seen
                });
                let there = by_name.get(&queue.place.handle).copied();
                let mut left =
                    if gone { Err(Left::Gone) } else { queue.look(there, &by_name, &by_class, now) };
                if left.is_ok() && self.journal.is_some() {
                    let journal = self.journal.as_mut();
                    left = queue.act(number, kernel, journal, now, tell);
                }
                if let Err(mut why) = left {
                    let wrong = if matches!(why, Left::Refused { .. }) {
                        // Nobody else changed it: it is put back. What was set in this turn is not in the
                        // dump yet.
                        let now = kernel.disciplines(interface);
                        queue.put_back(kernel, now.as_ref().unwrap_or(&disciplines), &classes)
                    } else {
                        // The shaper may be as it was set here all the same; if it is not, it is left, too.
                        queue.put_shaper_back(kernel, &disciplines, &classes).into_iter().collect()
                    };
                    let refused: Vec<&NotBack> = wrong.iter().filter(|one| !one.is_foreign).collect();
                    queue.is_owed = !refused.is_empty();
                    if let (Some(journal), false) = (&mut self.journal, queue.is_owed) {
                        // It only says less if this fails: the value there is not ours.
                        let _ = journal.left(number);
                    }
                    for one in refused {
                        let what = format!("{}; NOT put its {} back: {}", why.text(), one.what, one.why);
                        why = Left::Refused { what };
                    }
                    queue.left = Some(why.clone());
                    tell(News { time: now, label: queue.place.label(), event: Event::Left(why) });
                }
            }
        }
        Ok(())
    }

    /// Ends: puts back what is as this program set it, or leaves it with `keep`. Says in words what was not
    /// put back.
    pub fn end(&mut self, kernel: &mut dyn Kernel, keep: bool) -> Vec<String> {
        let mut is_open = self.queues.iter().any(|queue| queue.is_owed);
        let (mut said, mut journal) = (Vec::new(), self.journal.take());
        if !keep {
            let known = self.known();
            let mut dumps = BTreeMap::new();
            for (number, queue) in self.queues.iter_mut().enumerate().rev().filter(|(_, q)| q.left.is_none())
            {
                let interface = queue.place.interface;
                let dumped =
                    dumps.entry(interface).or_insert_with(|| known[&interface].look(interface, kernel));
                let wrong = match dumped {
                    Ok((disciplines, classes)) => queue.put_back(kernel, disciplines, classes),
                    Err(error) => {
                        vec![NotBack { what: "target", why: format!("{error}"), is_foreign: false }]
                    }
                };
                // What somebody else changed is his.
                let is_done = wrong.iter().all(|one| one.is_foreign);
                is_open |= !is_done;
                if let (Some(journal), true) = (&mut journal, is_done) {
                    let _ = journal.left(number);
                }
                let label = queue.place.label();
                said.extend(wrong.iter().map(|one| {
                    let remedy =
                        if one.is_foreign { "" } else { ". Remedy: `weir doctor --clean` tries it again" };
                    format!("{label}: NOT put its {} back: {}{remedy}", one.what, one.why)
                }));
            }
        }
        // What the kernel refused is tried again at the next start.
        if let (Some(journal), false) = (journal, is_open) {
            journal.remove();
        }
        said
    }

    /// What became of the queues.
    pub fn reports(&self) -> Vec<Report> {
        self.queues.iter().map(Queue::report).collect()
    }
}

/// What is known to be on an interface.
#[derive(Default)]
struct Known {
    disciplines: Vec<Handle>,
    classes: Vec<Handle>,
    needs_classes: bool,
}

impl Known {
    /// A queue is there, and its shaper.
    fn note(&mut self, queue: &Queue) {
        self.disciplines.push(queue.place.handle);
        self.needs_classes |= queue.looks_at_classes();
        if let Some(shaper) = &queue.place.shaper {
            match shaper.subject {
                Subject::Discipline => self.disciplines.push(shaper.handle),
                Subject::Class => self.classes.push(shaper.handle),
            }
        }
    }

    /// The disciplines, and the classes if they are needed.
    fn look(&self, interface: i32, kernel: &mut dyn Kernel) -> Result<(Vec<Message>, Vec<Message>), Error> {
        let disciplines = with_all(|| kernel.disciplines(interface), self.disciplines.iter().copied())?;
        let mut classes = Vec::new();
        if self.needs_classes {
            classes = with_all(|| kernel.classes(interface), self.classes.iter().copied())?;
        }
        Ok((disciplines, classes))
    }
}

/// The rate of a link, and whether it is what the shaper says.
pub type LinkRate = (Rate, bool);

/// How a queue stands.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The queue, as it was found.
    pub place: &'a Place,
    /// Its number among the queues of the configuration.
    pub number: usize,
    /// The policy in force.
    pub policy: &'a Policy,
    /// Rate of the link.
    pub link: Rate,
    /// The target in force.
    pub target: Duration,
    /// The rate of the shaper above it, where that was moved.
    pub shaper: Option<Rate>,
    /// What the kernel counted: signals and discarded packets since the first look, the rest since the queue
    /// is there; none before that look.
    pub counters: Option<&'a Counters>,
    /// Packets marked since then.
    pub marked: u64,
    /// Packets discarded for lack of room since then.
    pub shed: u64,
    /// Packets that waited at the last look.
    pub waiting_packets: u32,
    /// What the link could have sent since the first look.
    pub capacity_bytes: f64,
    /// The rule of the law that decided last.
    pub rule: &'static str,
    /// State of the queue relative to its target; none before the first look.
    pub state: Option<TableState>,
    /// Why it is left as it is, where it is.
    pub left: Option<&'a Left>,
}

/// The rate of the link that a queue stands before: as the user says, or the shaper, or the driver; and
/// whether it is what the shaper says.
fn link_of(
    place: &Place,
    wanted: &SteeredQueue,
    driver_rate: &dyn Fn(&str) -> Option<Rate>,
) -> Result<LinkRate, Setup> {
    let shaped = place.shaper.as_ref().map(|shaper| shaper.rate).filter(|rate| *rate > Rate::ZERO);
    let link = wanted.rate.or(shaped);
    let follows = wanted.rate.is_none() && shaped.is_some();
    if link.is_none() && place.is_of_many {
        return Err(Setup::NoShare { label: place.label(), interface: place.name.clone() });
    }
    let link = link.or_else(|| driver_rate(&place.name));
    Ok((link.ok_or_else(|| Setup::NoRate { label: place.label() })?, follows))
}

/// Something that was not put back.
struct NotBack {
    what: &'static str,
    why: String,
    /// Whether it is somebody else's by now; else the kernel refused it.
    is_foreign: bool,
}

/// Sends what puts something back; none where it is somebody else's by now.
fn restored(what: &'static str, order: Option<Message>, kernel: &mut dyn Kernel) -> Option<NotBack> {
    let Some(order) = order else {
        return Some(NotBack { what, why: "somebody else changed it".into(), is_foreign: true });
    };
    let error = kernel.change(&order).err()?;
    Some(NotBack { what, why: error.to_string(), is_foreign: false })
}

impl Queue {
    fn new(
        place: Place,
        (number, wanted): (usize, &SteeredQueue),
        policy: &Policy,
        settle: Duration,
        driver_rate: &dyn Fn(&str) -> Option<Rate>,
    ) -> Result<Queue, Setup> {
        let (link, follows) = link_of(&place, wanted, driver_rate)?;
        let target = place.target(&place.options).unwrap_or(Duration::ZERO);
        Ok(Queue {
            polled: Polled::new(SteeringLaw::new(policy)?),
            policy: policy.clone(),
            link,
            follows,
            seen: None,
            delays: None,
            sums: Sums::default(),
            options: place.options.clone(),
            asked: None,
            target,
            rate: place.shaper.as_ref().map_or(Rate::ZERO, crate::place::Shaper::own),
            asked_rate: false,
            is_moved: false,
            shaped: None,
            waiting_packets: 0,
            capacity_bytes: 0.0,
            number,
            pace: Pace::new(settle),
            changes: 0,
            polls: 0,
            range: None,
            first: None,
            last: None,
            left: None,
            is_owed: false,
            rule: "start",
            place,
        })
    }

    fn looks_at_classes(&self) -> bool {
        self.place.shaper.as_ref().is_some_and(|shaper| shaper.needs_classes)
    }

    /// Looks at what is there: whether it is still ours, and what its counters say to the law.
    fn look(
        &mut self,
        there: Option<&Message>,
        disciplines: &ByHandle<'_>,
        classes: &ByHandle<'_>,
        now: Time,
    ) -> Result<(), Left> {
        let there = there.filter(|m| m.kind() == Some(&self.place.kind) && m.parent == self.place.parent);
        let there = there.ok_or(Left::Replaced)?;
        let options = there.options().ok_or(Left::Replaced)?;
        self.read_back(options)?;
        self.read_shaper(there, disciplines, classes)?;
        let counters = there.counters();
        self.waiting_packets = counters.waiting_packets;
        let (signals, discarded) = self.sums.take(&counters).ok_or(Left::Replaced)?;
        let counters = Counters {
            now,
            sent: Bytes::new(counters.bytes),
            sent_packets: counters.packets,
            signals,
            discarded,
            waiting: Bytes::new(u64::from(counters.waiting_bytes)),
            // Where the queue is empty the kernel still tells the delay of the last packet.
            delay: counters.delay.filter(|_| counters.waiting_packets > 0),
            seen: self.seen,
        };
        let mut rule = LastRule::default();
        let polling = self.polled.poll(&counters, self.link, &mut rule);
        self.pace.note(&polling);
        self.rule = rule.0.unwrap_or(self.rule);
        self.polls += 1;
        if let Some(last) = self.last {
            self.capacity_bytes += self.link.as_bps_f64() / 8.0 * counters.now.since(last.now).as_secs_f64();
        }
        self.first.get_or_insert(counters);
        self.last = Some(counters);
        Ok(())
    }

    /// Whether the options are those that were found, with the target that was set.
    fn read_back(&mut self, options: &Options) -> Result<(), Left> {
        if let Some(asked) = self.asked.take() {
            if !is_noted(options, asked) {
                let got = self.place.target(options).ok_or(Left::Replaced)?;
                let [asked, got] = [self.target, got].map(|d| format!("{:.3} ms", d.as_millis_f64()));
                return Err(Left::Changed {
                    what: format!("its target: {asked} was set and {got} is there"),
                });
            }
            self.options = options.clone();
            return Ok(());
        }
        if *options == self.options {
            return Ok(());
        }
        // The rate of CAKE is among its options; whether it may be another one is for `read_shaper` to say.
        if is_same_but_for_rate(options, &self.options) {
            self.options = options.clone();
            return Ok(());
        }
        let what = match (self.place.target(options), self.place.target(&self.options)) {
            (Some(now), Some(before)) if now != before => {
                format!("its target from {:.3} to {:.3} ms", before.as_millis_f64(), now.as_millis_f64())
            }
            _ => "its options".into(),
        };
        Err(Left::Changed { what })
    }

    /// Follows the rate of the shapers, or notices that somebody else changes the one that is moved here.
    fn read_shaper(
        &mut self,
        there: &Message,
        disciplines: &ByHandle<'_>,
        classes: &ByHandle<'_>,
    ) -> Result<(), Left> {
        let Some(shaper) = &mut self.place.shaper else { return Ok(()) };
        let all = if shaper.subject == Subject::Class { classes } else { disciplines };
        let options = all.get(&shaper.handle).and_then(|m| m.options()).ok_or(Left::Replaced)?;
        let rate = |bytes: u64| Rate::from_bps(bytes.saturating_mul(8));
        let own = options.shaped_rate().map(rate).ok_or(Left::Replaced)?;
        let slowest = slowest(there, disciplines, classes).unwrap_or(own);
        let was_asked = std::mem::take(&mut self.asked_rate);
        let is_held = was_asked || self.is_moved || self.policy.uses_virtual_queue();
        let changed = |what: String| Err(Left::Changed { what });
        if is_held && own != self.rate {
            return changed(format!(
                "the rate of the shaper {}: {} was set and {own} is there",
                shaper.handle, self.rate
            ));
        }
        if is_held && slowest < own {
            return changed(format!(
                "a shaper above {}: it has {slowest} now, so that slowing {} to {own} holds nothing",
                shaper.handle, shaper.handle
            ));
        }
        // The options of CAKE were read back with those of the queue.
        if self.is_moved && shaper.handle != self.place.handle {
            let before = if was_asked { None } else { self.shaped.as_ref() };
            match before {
                Some(before) if before != options => {
                    return changed(format!("the options of the shaper {}", shaper.handle));
                }
                Some(_) => {}
                None => self.shaped = Some(options.clone()),
            }
        }
        if !self.is_moved && !was_asked && shaper.options != *options {
            shaper.options = options.clone();
        }
        if is_held || (own, slowest) == (self.rate, shaper.rate) {
            return Ok(());
        }
        // The rate of the link changed, and with it what the policy means.
        (self.rate, shaper.rate) = (own, slowest);
        if self.follows {
            self.link = slowest;
        }
        // The room of a FIFO means another time now.
        self.target = self.place.target(&self.options).unwrap_or(self.target);
        Ok(())
    }

    /// Puts into force what the law decided, at most once in `settle`.
    fn act(
        &mut self,
        number: usize,
        kernel: &mut dyn Kernel,
        mut journal: Option<&mut Journal>,
        now: Time,
        tell: &mut dyn FnMut(News),
    ) -> Result<(), Left> {
        if !self.pace.is_due(now) {
            return Ok(());
        }
        let refused = |what: &str, e: &dyn std::fmt::Display| Left::Refused {
            what: format!("{what} could not be set: {e}"),
        };
        let wanted = self.place.reachable(self.polled.wanted_target());
        // A policy may have changed so little that a step would not be worth while.
        let is_outside = self.changes > 0
            && (self.target > self.policy.target_max || self.target < self.policy.target_min);
        if !same(wanted, self.target) && (is_outside || Pace::is_step(self.target, wanted)) {
            let order = self.place.set_target(wanted, self.policy.target_max).ok_or(Left::Replaced)?;
            let value = order.options().and_then(noted);
            if let (Some(journal), Some(value)) = (journal.as_deref_mut(), value) {
                journal
                    .target(number, value)
                    .map_err(|e| refused("its target", &format!("the journal: {e}")))?;
            }
            kernel.change(&order).map_err(|e| refused("its target", &e))?;
            let from = std::mem::replace(&mut self.target, wanted);
            self.asked = value;
            let range = self.range.get_or_insert((wanted, wanted));
            *range = (range.0.min(wanted), range.1.max(wanted));
            self.changes += 1;
            self.pace.changed(now);
            let event = Event::Target { from, to: wanted, rule: self.rule };
            tell(News { time: now, label: self.place.label(), event });
        }
        if !self.policy.uses_virtual_queue() && !self.is_moved {
            return Ok(());
        }
        let Some(shaper) = &self.place.shaper else { return Ok(()) };
        // Never faster than it was found.
        let most = if self.policy.uses_virtual_queue() { self.link.min(shaper.own()) } else { shaper.own() };
        let wanted = self.polled.wanted_rate(self.link, shaper.own());
        let wanted = if self.policy.uses_virtual_queue() { wanted } else { most };
        if Pace::is_rate_step(self.rate, wanted, most, self.link) {
            // Back at what was found, it is as found to the bit.
            let order = if wanted == shaper.own() {
                shaper.restore(self.place.interface)
            } else {
                shaper.set_rate(self.place.interface, wanted)
            };
            let order = order.ok_or(Left::Replaced)?;
            if let Some(journal) = journal.as_deref_mut() {
                // As it is now, which may be of somebody else since it was found.
                let before = if self.is_moved { Ok(()) } else { journal.shaper(number, &self.place) };
                before
                    .and_then(|()| journal.rate(number, wanted))
                    .map_err(|e| refused("its shaper's rate", &format!("the journal: {e}")))?;
            }
            kernel.change(&order).map_err(|e| refused("its shaper's rate", &e))?;
            let from = std::mem::replace(&mut self.rate, wanted);
            (self.asked_rate, self.is_moved) = (true, wanted != shaper.own());
            if let (Some(journal), false) = (journal, self.is_moved) {
                // Others may change it from here on, and keep that after a kill, too. If this fails, the
                // journal only says less.
                let _ = journal.shaper(number, &self.place);
            }
            self.changes += 1;
            self.pace.changed(now);
            tell(News { time: now, label: self.place.label(), event: Event::Rate { from, to: wanted } });
        }
        Ok(())
    }

    /// State of the queue relative to its target, at the last look.
    fn table_state(&self) -> Option<TableState> {
        let now = self.last?.now;
        let (arrived, link) = (Bytes::ZERO, self.link);
        // Of an epoch that began with that look, as each does where all looks find signals, nothing was seen.
        let begun = Epoch { start: now, now, arrived, delay_min: None, ran_empty: false, link };
        Some(self.polled.law().state(&self.polled.epoch(self.link).unwrap_or(begun)))
    }

    /// Puts target and rate back, where they are as they were set.
    fn put_back(
        &mut self,
        kernel: &mut dyn Kernel,
        disciplines: &[Message],
        classes: &[Message],
    ) -> Vec<NotBack> {
        let mut wrong = Vec::new();
        let found = self.place.target(&self.place.options).unwrap_or(self.target);
        // As found is to the bit: what the law set may lie within the kernel's rounding beside it.
        let value = |options: &Options| (noted(options), options.interval());
        if self.asked.is_some() || value(&self.options) != value(&self.place.options) {
            let there = disciplines
                .iter()
                .find(|m| m.handle == self.place.handle && m.kind() == Some(&self.place.kind));
            // As in the journal by what was given to the kernel: the room of a FIFO is a target cut to bytes.
            let ours = there.and_then(Message::options).is_some_and(|now| match self.asked {
                Some(asked) => is_noted(now, asked),
                None => noted(now) == noted(&self.options),
            });
            let order = self.place.restore_target();
            wrong.extend(restored("target", order.filter(|_| ours), kernel));
            self.target = found;
        }
        wrong.extend(self.put_shaper_back(kernel, disciplines, classes));
        wrong
    }

    /// Puts the rate of the shaper back, where it is as it was set.
    fn put_shaper_back(
        &mut self,
        kernel: &mut dyn Kernel,
        disciplines: &[Message],
        classes: &[Message],
    ) -> Option<NotBack> {
        let shaper = self.place.shaper.as_ref().filter(|s| self.is_moved && s.own() != self.rate)?;
        let all = if shaper.subject == Subject::Class { classes } else { disciplines };
        let now = all.iter().find(|m| m.handle == shaper.handle).and_then(Message::options);
        let ours = now.is_some_and(|now| {
            let is_rate = now.shaped_rate() == Some(self.rate.as_bps() / 8);
            is_rate && (self.asked_rate || self.shaped.as_ref().is_none_or(|read| read == now))
        });
        let order = shaper.restore(self.place.interface).filter(|_| ours);
        let wrong = restored("shaper's rate", order, kernel);
        (self.rate, self.is_moved) = (shaper.own(), false);
        wrong
    }

    fn report(&self) -> Report {
        let used = self.first.zip(self.last).and_then(|(first, last)| {
            let time = last.now.since(first.now).as_secs_f64();
            let could = self.link.as_bps_f64() / 8.0 * time;
            (could > 0.0).then(|| (last.sent - first.sent).get() as f64 / could)
        });
        let found = self.place.target(&self.place.options).unwrap_or(Duration::ZERO);
        let range = self.range.unwrap_or((self.target, self.target));
        Report {
            interface: self.place.name.clone(),
            handle: self.place.handle.to_string(),
            kind: self.place.kind.to_string(),
            rate_bps: self.link.as_bps(),
            target_found_ms: found.as_millis_f64(),
            target_ms: self.target.as_millis_f64(),
            target_min_ms: range.0.as_millis_f64(),
            target_max_ms: range.1.as_millis_f64(),
            shaper_bps: self.place.shaper.as_ref().map(|_| self.rate.as_bps()),
            changes: self.changes,
            polls: self.polls,
            signals: self.pace.signals(),
            utilization: used,
            delays: self.delays.as_ref().map(Delays::told),
            left: self.left.as_ref().map(Left::text),
        }
    }
}
