//! Customers of a run: their plans, which are read again when somebody asks, and how each stands.

use crate::output::Failure;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_config::{CustomerPlan, OutcomeConfig, PlansFile, RunConfig};
use weir_dataplane::{DirectionPlans, Handle, PlanBook};
use weir_measure::Requirements;
use weir_operate::{CustomerNetwork, Problem, Refusal, Refused, UserStatus, UsersStatus, Valued};
use weir_queue::UserNow;

/// Between two looks at all users, and how long the packet loop is waited for.
const PERIOD: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(200);
/// Users that the packet loop tells of at once, so that it is busy with it for some microseconds.
const AT_ONCE: usize = 512;
/// Customers that are told one by one.
const TOLD_MAX: usize = 100;

/// What keys of a single customer begin with, and which of them change while packets pass.
pub const CUSTOMERS: &str = "customers.";
const LIVE: [&str; 5] = ["down", "up", "burst", "target", "exempt"];

/// Refuses a key of a customer.
fn wrong(key: &str, problem: String, remedy: &str) -> Refused {
    let error = format!("key `{key}`: {problem}. Remedy: {remedy}");
    let problem = Problem { key: Some(key.into()), line: None, problem, remedy: remedy.into() };
    (422, Refusal { error, problems: vec![problem], needs_restart: false })
}

/// Customers of a run, where it has some.
pub struct Customers {
    path: PathBuf,
    file: PlansFile,
    book: PlanBook,
    needs: Requirements,
    told: Option<Instant>,
    /// How each user stood at the last look, by direction.
    before: [HashMap<u32, UserNow>; 2],
    status: [Option<UsersStatus>; 2],
    /// All of them, for who asks for more than a status tells, and what they are called and found by.
    all: [Arc<Vec<UserStatus>>; 2],
    planned: Arc<Vec<String>>,
    networks: Arc<Vec<CustomerNetwork>>,
    rows: Vec<UserNow>,
}

/// Plans that were read and are not in force yet.
pub struct Read {
    file: PlansFile,
    book: PlanBook,
    /// For the packet loop.
    pub plans: [Option<DirectionPlans>; 2],
}

/// The file of plans that a configuration names; relative paths begin at the configuration's folder.
pub fn path(config: &RunConfig, file: &Path) -> Option<PathBuf> {
    let users = config.users.as_ref()?;
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    Some(file.parent().unwrap_or(Path::new("")).join(&users.file))
}

/// What the quality of outcome is measured by.
fn needs(outcome: &OutcomeConfig) -> Requirements {
    Requirements {
        delay: [outcome.delay_optimal, outcome.delay_unacceptable],
        loss: [outcome.loss_optimal.0, outcome.loss_unacceptable.0],
    }
}

impl Customers {
    /// As the file of plans says; with what the packet loop is built with.
    pub fn open(
        config: &RunConfig,
        file: &Path,
    ) -> Result<(Option<Customers>, [Option<DirectionPlans>; 2]), Failure> {
        let (Some(path), Some(users)) = (path(config, file), &config.users) else {
            return Ok((None, [None, None]));
        };
        let mut book = PlanBook::default();
        let file = PlansFile::load(&path).map_err(Failure::input)?;
        let plans = book
            .plans(config, &file)
            .map_err(|wrong| Failure::Input(format!("{}: {}", path.display(), wrong.join("\n"))))?;
        let mut customers = Customers {
            path,
            file,
            book,
            needs: needs(&users.outcome),
            told: None,
            before: Default::default(),
            status: Default::default(),
            all: Default::default(),
            planned: Arc::default(),
            networks: Arc::default(),
            rows: vec![UserNow::default(); AT_ONCE],
        };
        customers.name();
        Ok((Some(customers), plans))
    }

    /// Reads the plans again; nothing where they are as before.
    pub fn again(&self, config: &RunConfig) -> Result<Option<Read>, Refused> {
        let file = PlansFile::load(&self.path).map_err(super::refused)?;
        self.read(config, file)
    }

    /// The plans with other keys of single customers, by `NAME.KEY`, and what that changes; the file is not
    /// written.
    pub fn with(
        &self,
        config: &RunConfig,
        values: &BTreeMap<String, String>,
    ) -> Result<(Option<Read>, Vec<Valued>), Refused> {
        let mut file = self.file.clone();
        let mut changed = Vec::new();
        for (key, value) in values {
            let full = format!("{CUSTOMERS}{key}");
            // A name may have dots, a key has none.
            let (name, own) = key.rsplit_once('.').unwrap_or((key, ""));
            let at = file.customers.iter().position(|customer| customer.name == name);
            let Some(at) = at else {
                let names = file.customers.iter().map(|customer| customer.name.as_str());
                let near = weir_config::nearest(name, names);
                let near = near.map_or(String::new(), |near| format!("did you mean {near:?}? "));
                let remedy = format!("{near}name a customer of {}", self.path.display());
                return Err(wrong(&full, format!("{name:?} is no customer"), &remedy));
            };
            if !LIVE.contains(&own) {
                let remedy =
                    format!("set one of {}, or change the file and `weir ctl reload`", LIVE.join(", "));
                return Err(wrong(&full, format!("{own:?} does not change so"), &remedy));
            }
            let alone = |customer: &CustomerPlan| PlansFile {
                sites: Vec::new(),
                customers: vec![CustomerPlan { site: None, ..customer.clone() }],
            };
            let before = alone(&file.customers[at]);
            let after = before.with("customers.0", own, value).map_err(|errors| {
                let error = errors.iter().next();
                let (problem, remedy) =
                    error.map_or_else(Default::default, |e| (e.problem.clone(), e.remedy.clone()));
                wrong(&full, problem, &remedy)
            })?;
            let shown = |file: &PlansFile| file.values().get(&format!("customers.0.{own}")).cloned();
            if before != after {
                changed.push(Valued { key: full, from: shown(&before), to: shown(&after) });
            }
            let site = file.customers[at].site.take();
            let customer = after.customers.into_iter().next().expect("one was put in");
            file.customers[at] = CustomerPlan { site, ..customer };
        }
        Ok((self.read(config, file)?, changed))
    }

    /// Makes plans for the packet loop; nothing where they are as before.
    fn read(&self, config: &RunConfig, file: PlansFile) -> Result<Option<Read>, Refused> {
        if file == self.file {
            return Ok(None);
        }
        let mut book = self.book.clone();
        let plans = book.plans(config, &file).map_err(|wrong| {
            let path = self.path.display();
            let problem = |text: &String| {
                let (problem, remedy) =
                    text.split_once(". Remedy: ").unwrap_or((text, "change the file of plans"));
                Problem {
                    key: None,
                    line: None,
                    problem: format!("{path}: {problem}"),
                    remedy: remedy.into(),
                }
            };
            let problems = wrong.iter().map(problem).collect();
            let error = format!("{path}: {}", wrong.join("\n"));
            (422, Refusal { error, problems, needs_restart: false })
        })?;
        Ok(Some(Read { file, book, plans }))
    }

    /// What changes with plans that were read.
    pub fn changed(&self, read: &Read) -> Valued {
        let named = |file: &PlansFile| -> BTreeMap<String, CustomerPlan> {
            file.customers.iter().map(|customer| (customer.name.clone(), customer.clone())).collect()
        };
        let (before, after) = (named(&self.file), named(&read.file));
        let new = after.keys().filter(|name| !before.contains_key(*name)).count();
        let gone = before.keys().filter(|name| !after.contains_key(*name)).count();
        let other =
            after.iter().filter(|(name, plan)| before.get(*name).is_some_and(|was| was != *plan)).count();
        let size =
            |file: &PlansFile| format!("{} customers at {} sites", file.customers.len(), file.sites.len());
        let to = format!("\"{}: {new} new, {gone} gone, {other} with another plan\"", size(&read.file));
        Valued { key: "users.file".into(), from: Some(format!("\"{}\"", size(&self.file))), to: Some(to) }
    }

    /// The quality of outcome is measured by what this configuration says.
    pub fn measure_by(&mut self, config: &RunConfig) {
        if let Some(users) = &config.users {
            self.needs = needs(&users.outcome);
        }
    }

    /// These plans are in force.
    pub fn adopt(&mut self, read: Read) {
        (self.file, self.book) = (read.file, read.book);
        self.name();
    }

    /// Notes names and networks of the plans in force.
    fn name(&mut self) {
        let customers = &self.file.customers;
        self.planned = Arc::new(customers.iter().map(|customer| customer.name.clone()).collect());
        let networks = customers.iter().enumerate().flat_map(|(at, customer)| {
            customer.address.iter().map(move |network| (network.address, network.length, at as u32))
        });
        self.networks = Arc::new(networks.collect());
    }

    /// All customers, as of the last look.
    pub fn all(&self, directions: [&str; 2]) -> weir_operate::Customers {
        let looked = (0..2).filter(|direction| self.status[*direction].is_some());
        weir_operate::Customers {
            planned: self.planned.clone(),
            networks: self.networks.clone(),
            directions: looked.map(|at| (directions[at].to_string(), self.all[at].clone())).collect(),
        }
    }

    /// How the customers of a direction stand, as of the last look.
    pub fn status(&self, direction: usize) -> Option<UsersStatus> {
        self.status[direction].clone()
    }

    /// Asks the packet loop for all users, once in a while; whether it did.
    pub fn look(&mut self, handle: &mut Handle) -> bool {
        let span = self.told.map(|told| told.elapsed());
        if span.is_some_and(|span| span < PERIOD) {
            return false;
        }
        for direction in [0, 1] {
            let mut all = HashMap::new();
            let mut from = 0;
            // A loop that did not answer in time still has them.
            self.rows.resize(AT_ONCE, UserNow::default());
            loop {
                // A loop that does not turn is told of elsewhere.
                let Ok(told) = handle.users(direction, from, &mut self.rows, PATIENCE) else { return false };
                all.extend(self.rows[..told].iter().map(|user| (user.key, *user)));
                from += told;
                if told == 0 || told < self.rows.len() {
                    break;
                }
            }
            if from == 0 && self.status[direction].is_none() {
                continue;
            }
            let before = std::mem::replace(&mut self.before[direction], all);
            let status = self.standing(direction, &before, span);
            self.status[direction] = Some(status);
        }
        self.told = Some(Instant::now());
        true
    }

    fn standing(
        &mut self,
        direction: usize,
        before: &HashMap<u32, UserNow>,
        span: Option<Duration>,
    ) -> UsersStatus {
        let mut status = UsersStatus { planned: self.file.customers.len() as u64, ..UsersStatus::default() };
        let mut users = Vec::new();
        for (key, now) in &self.before[direction] {
            // Who lost the place since then begins at nothing.
            let was = before.get(key).filter(|was| was.bytes <= now.bytes && was.packets <= now.packets);
            let was = was.copied().unwrap_or_default();
            let per_s = span.map_or(0.0, |span| 8.0 / span.as_secs_f64().max(1e-3));
            let rate_bps = (now.bytes - was.bytes) as f64 * per_s;
            status.with_queue += 1;
            let Some(name) = self.book.name(*key) else {
                status.others_bps += rate_bps;
                continue;
            };
            let packets = now.packets - was.packets;
            let delays = now.delays - was.delays;
            let dropped = now.dropped.saturating_sub(was.dropped);
            let loss = (packets + dropped > 0).then(|| dropped as f64 / (packets + dropped) as f64);
            let delay = (packets > 0).then(|| now.delay_max + now.rtt.unwrap_or_default());
            status.delivered_bps += rate_bps;
            users.push(UserStatus {
                name: name.into(),
                rate_bps: now.rate.map(|rate| rate.as_bps_f64()),
                delivered_bps: rate_bps,
                delivered_bytes: now.bytes,
                delivered_packets: now.packets,
                dropped_packets: now.dropped,
                marked_packets: now.marked,
                delay_mean_ms: (packets > 0).then(|| delays.as_millis_f64() / packets as f64),
                delay_max_ms: now.delay_max.as_millis_f64(),
                rtt_ms: now.rtt.map(|rtt| rtt.as_millis_f64()),
                outcome: self.needs.score(delay, loss),
                backlog_bytes: now.backlog.get(),
            });
        }
        users.sort_by(|a, b| b.delivered_bps.total_cmp(&a.delivered_bps).then_with(|| a.name.cmp(&b.name)));
        status.users = users.iter().take(TOLD_MAX).cloned().collect();
        self.all[direction] = Arc::new(users);
        status
    }
}
