//! Customers of a run: their plans, which are read again when somebody asks, and how each stands.

use super::{policy_status, wrong};
use crate::output::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_config::{CustomerPlan, Document, Errors, OutcomeConfig, PlansFile, RunConfig};
use weir_dataplane::{DirectionPlans, Handle, Impossible, PlanBook};
use weir_measure::Requirements;
use weir_operate::{CustomerNetwork, PlanFound, Problem, Refusal, Refused, UserStatus, UsersStatus, Valued};
use weir_queue::UserNow;
use weir_steer::Policy;

/// Between two looks at all users, and how long the packet loop is waited for.
const PERIOD: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(200);
/// Users that the packet loop tells of at once, so that it is busy with it for some microseconds.
const AT_ONCE: usize = 512;
/// Customers that are told one by one.
const TOLD_MAX: usize = 100;
/// A quality of outcome below it is poor.
const POOR: f64 = 0.5;

/// What keys of a single customer begin with, and which of them change while packets pass.
pub const CUSTOMERS: &str = "customers.";
const LIVE: [&str; 8] =
    ["down", "up", "burst", "target", "utilization_low", "utilization_target", "target_max", "exempt"];
/// Those that change with the file alone.
const FIXED: [&str; 4] = ["name", "site", "address", "vlan"];

/// Customers of a run, where it has some.
pub struct Customers {
    path: PathBuf,
    file: Arc<PlansFile>,
    book: Arc<PlanBook>,
    needs: Requirements,
    told: Option<Instant>,
    /// How the user at each place stood at the look before the last and at the last, by direction.
    seen: [[Arc<Vec<UserNow>>; 2]; 2],
    /// How long the look before the last was ago at the last.
    span: Option<Duration>,
    /// Memory for the next look, and for who has which rate.
    spare: Vec<UserNow>,
    ranked: Vec<(f64, u32)>,
    status: [Option<UsersStatus>; 2],
    /// Policies of those who have one of their own, by direction and key.
    policies: [Policies; 2],
    /// What they are called and found by, for who asks for more than a status tells.
    planned: Arc<Vec<String>>,
    networks: Arc<Vec<CustomerNetwork>>,
    rows: Vec<UserNow>,
}

type Policies = Arc<BTreeMap<u32, Policy>>;

/// Policies of customers in both directions.
fn policies(plans: &[Option<DirectionPlans>; 2]) -> [Policies; 2] {
    plans.each_ref().map(|plans| plans.as_ref().map(|plans| plans.policies().clone()).unwrap_or_default())
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
        let (file, document) = PlansFile::load(&path).map_err(Failure::input)?;
        let plans = book.plans(config, &file).map_err(|wrong| Failure::input(in_file(&document, &wrong)))?;
        let mut customers = Customers {
            path,
            file: Arc::new(file),
            book: Arc::new(book),
            needs: needs(&users.outcome),
            told: None,
            seen: Default::default(),
            span: None,
            spare: Vec::new(),
            ranked: Vec::new(),
            status: Default::default(),
            policies: policies(&plans),
            planned: Arc::default(),
            networks: Arc::default(),
            rows: vec![UserNow::default(); AT_ONCE],
        };
        customers.name();
        Ok((Some(customers), plans))
    }

    /// Reads the plans again; nothing where they are as before.
    pub fn again(&self, config: &RunConfig) -> Result<Option<Read>, Refused> {
        let (file, document) = PlansFile::load(&self.path).map_err(super::refused)?;
        self.read(config, file, Some(&document))
    }

    /// The plans with other keys of single customers, by `NAME.KEY`, and what that changes; the file is not
    /// written.
    pub fn with(
        &self,
        config: &RunConfig,
        values: &BTreeMap<String, String>,
    ) -> Result<(Option<Read>, Vec<Valued>), Refused> {
        let mut file = PlansFile::clone(&self.file);
        // Keys of one customer change together: each alone may not go with what is there.
        let mut asked: BTreeMap<usize, Vec<(&str, &str)>> = BTreeMap::new();
        for (key, value) in values {
            let full = format!("{CUSTOMERS}{key}");
            // A name may have dots, a key has none.
            let (name, own) = key.rsplit_once('.').unwrap_or((key, ""));
            let at = file.customers.iter().position(|customer| customer.name == name);
            let Some(at) = at else {
                let remedy = format!("{}name a customer of {}", meant(&file, name), self.path.display());
                return Err(wrong(Some(&full), format!("{name:?} is no customer"), &remedy));
            };
            if !LIVE.contains(&own) {
                let remedy =
                    format!("set one of {}, or change the file and `weir ctl reload`", LIVE.join(", "));
                return Err(wrong(Some(&full), format!("{own:?} does not change so"), &remedy));
            }
            asked.entry(at).or_default().push((own, value));
        }
        let mut changed = Vec::new();
        for (at, values) in asked {
            let before = alone(&file.customers[at]);
            let name = &file.customers[at].name;
            let after = before.with(ALONE, &values).map_err(|errors| {
                let error = errors.iter().next().expect("there is one");
                let own = error.key.as_deref().and_then(|key| key.strip_prefix(ALONE));
                let key = format!("{CUSTOMERS}{name}{}", own.unwrap_or_default());
                wrong(Some(&key), error.problem.clone(), &error.remedy)
            })?;
            let shown = [&before, &after].map(PlansFile::values);
            for (own, _) in values {
                let [from, to] = shown.each_ref().map(|all| all.get(&format!("{ALONE}.{own}")).cloned());
                if from != to {
                    changed.push(Valued { key: format!("{CUSTOMERS}{name}.{own}"), from, to });
                }
            }
            let site = file.customers[at].site.take();
            let customer = after.customers.into_iter().next().expect("one was put in");
            file.customers[at] = CustomerPlan { site, ..customer };
        }
        Ok((self.read(config, file, None)?, changed))
    }

    /// Makes plans for the packet loop; nothing where they are as before.
    fn read(
        &self,
        config: &RunConfig,
        file: PlansFile,
        document: Option<&Document>,
    ) -> Result<Option<Read>, Refused> {
        if file == *self.file { Ok(None) } else { self.planned(config, file, document).map(Some) }
    }

    /// The plans in force under another configuration, where they have policies that depend on it.
    pub fn under(&self, config: &RunConfig) -> Result<Option<Read>, Refused> {
        let has_policies = self.policies.iter().any(|own| !own.is_empty());
        has_policies.then(|| self.planned(config, PlansFile::clone(&self.file), None)).transpose()
    }

    /// Makes plans for the packet loop, or tells what the configuration cannot do: by the lines of a document
    /// that was read just now, else by the names of customers.
    fn planned(
        &self,
        config: &RunConfig,
        file: PlansFile,
        document: Option<&Document>,
    ) -> Result<Read, Refused> {
        let mut book = PlanBook::clone(&self.book);
        let plans = book.plans(config, &file).map_err(|wrong| match document {
            Some(document) => super::refused(in_file(document, &wrong)),
            None => self.by_name(&file, wrong),
        })?;
        Ok(Read { file, book, plans })
    }

    /// What the configuration cannot do of plans that are in force, or differ from the file.
    fn by_name(&self, file: &PlansFile, wrong: Vec<Impossible>) -> Refused {
        let key = |one: &Impossible| {
            let named = one.key.strip_prefix(CUSTOMERS).and_then(|key| {
                let (at, own) = key.split_once('.')?;
                Some(format!("{CUSTOMERS}{}.{own}", file.customers.get(at.parse::<usize>().ok()?)?.name))
            });
            named.unwrap_or_else(|| one.key.clone())
        };
        let path = self.path.display();
        let line =
            |one: &Impossible| format!("{path}: key `{}`: {}. Remedy: {}", key(one), one.problem, one.remedy);
        let error = wrong.iter().map(line).collect::<Vec<_>>().join("\n");
        let problem = |one: Impossible| Problem {
            key: Some(key(&one)),
            line: None,
            problem: one.problem,
            remedy: one.remedy,
        };
        let problems = wrong.into_iter().map(problem).collect();
        (422, Refusal { error, problems, needs_restart: false })
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
        self.policies = policies(&read.plans);
        (self.file, self.book) = (Arc::new(read.file), Arc::new(read.book));
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
        // Until somebody has sent something nothing is known of either.
        let is_idle = self.status.iter().all(Option::is_none);
        let looked = (0..2).filter(|direction| is_idle || self.status[*direction].is_some());
        weir_operate::Customers {
            plans: Some(Arc::new(InForce { path: self.path.clone(), file: self.file.clone() })),
            planned: self.planned.clone(),
            networks: self.networks.clone(),
            directions: looked
                .map(|at| (directions[at].to_string(), Arc::new(self.last_look(at)) as _))
                .collect(),
        }
    }

    fn last_look(&self, direction: usize) -> Look {
        let [before, now] = self.seen[direction].clone();
        let (book, policies) = (self.book.clone(), self.policies[direction].clone());
        Look { before, now, book, policies, needs: self.needs, per_s: bits_per_s(self.span) }
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
            let mut all = std::mem::take(&mut self.spare);
            all.clear();
            // A loop that did not answer in time still has them.
            self.rows.resize(AT_ONCE, UserNow::default());
            loop {
                // A loop that does not turn is told of elsewhere.
                let Ok(told) = handle.users(direction, all.len(), &mut self.rows, PATIENCE) else {
                    return false;
                };
                all.extend_from_slice(&self.rows[..told]);
                if told == 0 || told < self.rows.len() {
                    break;
                }
            }
            if !all.is_empty() || self.status[direction].is_some() {
                self.adopt_rows(direction, all, span);
            }
        }
        self.told = Some(Instant::now());
        true
    }

    /// How each user of a direction stands now, and how long the look before was ago.
    fn adopt_rows(&mut self, direction: usize, all: Vec<UserNow>, span: Option<Duration>) -> &UsersStatus {
        let [before, now] = &mut self.seen[direction];
        std::mem::swap(before, now);
        let past = std::mem::replace(now, Arc::new(all));
        // Who asked for all customers may still read it.
        self.spare = Arc::try_unwrap(past).unwrap_or_default();
        self.span = span;
        let status = self.stand(direction);
        self.status[direction].insert(status)
    }

    /// How the customers of a direction stand, out of what the packet loop told of all users by their places,
    /// which nobody changes. Nothing is allocated for those who are not told one by one.
    fn stand(&mut self, direction: usize) -> UsersStatus {
        let look = self.last_look(direction);
        let mut total = self.status[direction].take().unwrap_or_default();
        total = UsersStatus {
            planned: self.file.customers.len() as u64,
            with_queue: look.now.len() as u64,
            dropped_packets: total.dropped_packets,
            marked_packets: total.marked_packets,
            ..UsersStatus::default()
        };
        self.ranked.clear();
        for (at, now) in look.now.iter().enumerate() {
            let since = look.since(at);
            let rate_bps = since.bytes as f64 * look.per_s;
            if look.book.name(now.key).is_none() {
                total.others_bps += rate_bps;
                continue;
            }
            total.delivered_bps += rate_bps;
            total.dropped_packets += since.dropped;
            total.marked_packets += since.marked;
            let outcome = since.outcome(&look.needs, now);
            total.scored += u64::from(outcome.is_some());
            total.poor += u64::from(outcome.is_some_and(|outcome| outcome < POOR));
            self.ranked.push((rate_bps, at as u32));
        }
        let name = |at: u32| look.book.name(look.now[at as usize].key).unwrap_or_default();
        let order =
            |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then_with(|| name(a.1).cmp(name(b.1)));
        if self.ranked.len() > TOLD_MAX {
            self.ranked.select_nth_unstable_by(TOLD_MAX - 1, order);
            self.ranked.truncate(TOLD_MAX);
        }
        self.ranked.sort_by(order);
        total.users = self.ranked.iter().filter_map(|(_, at)| look.user(*at as usize)).collect();
        total
    }
}

/// What a configuration cannot do of a file of plans, with the lines.
fn in_file(document: &Document, wrong: &[Impossible]) -> Errors {
    document.refuse_all(
        wrong
            .iter()
            .map(|Impossible { key, problem, remedy }| (key.as_str(), problem.clone(), remedy.clone())),
    )
}

/// The table of a plan that is alone in a file.
const ALONE: &str = "customers.0";

/// A plan alone.
fn alone(customer: &CustomerPlan) -> PlansFile {
    PlansFile { sites: Vec::new(), customers: vec![CustomerPlan { site: None, ..customer.clone() }] }
}

/// Which customer may be meant by a name that is none, as the beginning of a remedy.
fn meant(file: &PlansFile, name: &str) -> String {
    let names = file.customers.iter().map(|customer| customer.name.as_str());
    let near = weir_config::nearest(name, names);
    near.map_or(String::new(), |near| format!("did you mean {near:?}? "))
}

/// Plans in force, for who asks for one of them.
#[derive(Debug)]
struct InForce {
    path: PathBuf,
    file: Arc<PlansFile>,
}

impl weir_operate::EachPlan for InForce {
    fn find(&self, key: &str) -> Result<PlanFound, String> {
        let named = key.strip_prefix(CUSTOMERS).unwrap_or_default();
        let of = |name: &str| self.file.customers.iter().find(|customer| customer.name == name);
        // A name may have dots, a key has none. Where the whole is the name of another customer, it is a key
        // all the same, as it is for who sets it.
        let split = named.rsplit_once('.').and_then(|(name, own)| Some((of(name)?, Some(own))));
        let is_key = |own: &str| LIVE.contains(&own) || FIXED.contains(&own);
        let key_of = split.filter(|(_, own)| own.is_some_and(is_key));
        let Some((customer, own)) = key_of.or(of(named).map(|customer| (customer, None))).or(split) else {
            let name = named.rsplit_once('.').map_or(named, |(name, _)| name);
            if name.is_empty() {
                return Err(format!(
                    "key `{key}` names no customer. Remedy: name one, such as `{CUSTOMERS}NAME.down`"
                ));
            }
            let (meant, path) = (meant(&self.file, name), self.path.display());
            return Err(format!(
                "key `{key}`: {name:?} is no customer. Remedy: {meant}name a customer of {path}, such as \
                 `customers.NAME.down`"
            ));
        };
        let site = customer.site.iter().map(|site| ("site".to_string(), format!("{site:?}")));
        let values = alone(customer).values().into_iter();
        let own_key = |key: &str| Some(key.strip_prefix(ALONE)?.strip_prefix('.')?.to_string());
        let values = values.filter_map(|(key, value)| Some((own_key(&key)?, value)));
        let mut values: BTreeMap<String, String> = values.chain(site).collect();
        if let Some(own) = own {
            values.retain(|key, _| key == own);
            // What takes a key out is what one that is out has for a value.
            if values.is_empty() && LIVE.contains(&own) {
                values.insert(own.into(), "\"none\"".into());
            }
            if values.is_empty() {
                let keys = LIVE.join(", ");
                return Err(format!("key `{key}`: the plan has no `{own}`. Remedy: ask for one of {keys}"));
            }
        }
        let path = |key: &str| format!("{CUSTOMERS}{}.{key}", customer.name);
        Ok(PlanFound { values: values.iter().map(|(key, value)| (path(key), value.clone())).collect() })
    }
}

/// Bits per second for each byte of a span.
fn bits_per_s(span: Option<Duration>) -> f64 {
    span.map_or(0.0, |span| 8.0 / span.as_secs_f64().max(1e-3))
}

/// All users of a direction at the last look and the one before, of which what is told is made when somebody
/// asks.
#[derive(Debug)]
struct Look {
    before: Arc<Vec<UserNow>>,
    now: Arc<Vec<UserNow>>,
    book: Arc<PlanBook>,
    policies: Policies,
    needs: Requirements,
    per_s: f64,
}

impl Look {
    fn since(&self, at: usize) -> Since {
        Since::between(self.before.get(at), &self.now[at])
    }

    /// The customer at a place; none where it is somebody else.
    fn user(&self, at: usize) -> Option<UserStatus> {
        let (now, since) = (&self.now[at], self.since(at));
        let name = self.book.name(now.key)?;
        let own = self.policies.get(&now.key);
        Some(UserStatus {
            name: name.into(),
            rate_bps: now.rate.map(|rate| rate.as_bps_f64()),
            delivered_bps: since.bytes as f64 * self.per_s,
            delivered_bytes: now.bytes,
            delivered_packets: now.packets,
            dropped_packets: now.dropped,
            marked_packets: now.marked,
            delay_mean_ms: (since.packets > 0).then(|| since.delays.as_millis_f64() / since.packets as f64),
            delay_max_ms: now.delay_max.as_millis_f64(),
            delay_p95_ms: now.delay_p95.map(|delay| delay.as_millis_f64()),
            rtt_ms: now.rtt.map(|rtt| rtt.as_millis_f64()),
            outcome: since.outcome(&self.needs, now),
            backlog_bytes: now.backlog.get(),
            setpoint_ms: now.setpoint.map(|setpoint| setpoint.as_millis_f64()),
            policy: own.map(|own| policy_status(format!("{CUSTOMERS}{name}"), own)),
        })
    }
}

impl weir_operate::EachUser for Look {
    fn users(&self) -> Vec<UserStatus> {
        (0..self.now.len()).filter_map(|at| self.user(at)).collect()
    }
}

/// What happened to a user between two looks.
struct Since {
    bytes: u64,
    packets: u64,
    dropped: u64,
    marked: u64,
    delays: weir_units::Duration,
}

impl Since {
    /// Of a place at both looks. Who took the place since then, or lost it in between, begins at nothing.
    fn between(was: Option<&UserNow>, now: &UserNow) -> Since {
        let same =
            |was: &&UserNow| was.key == now.key && was.bytes <= now.bytes && was.packets <= now.packets;
        let was = was.filter(same).copied().unwrap_or_default();
        Since {
            bytes: now.bytes - was.bytes,
            packets: now.packets - was.packets,
            dropped: now.dropped.saturating_sub(was.dropped),
            marked: now.marked.saturating_sub(was.marked),
            delays: now.delays - was.delays,
        }
    }

    /// The quality of outcome.
    fn outcome(&self, needs: &Requirements, now: &UserNow) -> Option<f64> {
        let sent = self.packets + self.dropped;
        let loss = (sent > 0).then(|| self.dropped as f64 / sent as f64);
        let delay = (self.packets > 0).then(|| now.delay_max + now.rtt.unwrap_or_default());
        needs.score(delay, loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_aqm::Algorithm;
    use weir_aqm::algorithms::codel::{self, CoDel};
    use weir_queue::{Discipline, Limits, Managed, PerUser, Plan, Plans, Setup, per_user};
    use weir_units::{Bytes, Rate, Time};

    #[test]
    fn a_plan_in_force_is_told_by_the_paths_by_which_it_changes() {
        use weir_operate::EachPlan;
        let text = "[[sites]]\nname = \"s\"\n[[customers]]\nname = \"a.b\"\nsite = \"s\"\naddress = [\"10.0.0.1\"]\n\
                    down = \"5Mbit/s\"\n[[customers]]\nname = \"c\"\naddress = [\"10.0.0.2\"]\n";
        let file = Arc::new(PlansFile::parse("p.toml", text).unwrap());
        let plans = InForce { path: "p.toml".into(), file };
        let told = |key: &str| plans.find(key).map(|found| found.values.into_iter().collect::<Vec<_>>());
        let value = |key: &str| told(key).map(|mut values| (values.len(), values.remove(0).1)).unwrap();
        assert_eq!(value("customers.a.b.down"), (1, "\"5Mbit/s\"".into()));
        assert_eq!(value("customers.a.b.site"), (1, "\"s\"".into()));
        // Each key that changes has a value, which changes nothing when it is set.
        for key in LIVE {
            assert_eq!(value(&format!("customers.c.{key}")).0, 1, "{key}");
        }
        assert_eq!(value("customers.c.down"), (1, "\"none\"".into()));
        let whole = told("customers.a.b").unwrap();
        let keys: Vec<&str> = whole.iter().map(|(key, _)| key.as_str()).collect();
        assert!(
            keys.contains(&"customers.a.b.address")
                && keys.iter().all(|key| key.starts_with("customers.a.b."))
        );
        for (key, words) in [
            ("customers.d.down", "\"d\" is no customer. Remedy: name a customer of p.toml"),
            ("customers", "Remedy: name one"),
            ("customers.c.speed", "the plan has no `speed`. Remedy: ask for one of down, up"),
        ] {
            let error = told(key).unwrap_err();
            assert!(error.starts_with(&format!("key `{key}`")) && error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_a_direction_cannot_do_is_told_with_the_line_of_the_file_or_the_name_of_the_customer() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f.toml");
        let config = |policy: &str| {
            let text = format!(
                "ports = {{ a = \"x\", b = \"y\" }}\nusers = {{ file = \"p.csv\" }}\n[a_to_b]\nrate = \"1Gbit/s\"\n\
                 aqm = {{ name = \"codel\" }}\nqueue = {{ discipline = \"user\" }}\n{policy}"
            );
            RunConfig::parse("f.toml", &text).unwrap()
        };
        let plans = |low: &str, aim: &str, up: &str| {
            let table = format!(
                "name,address,down,up,utilization_low,utilization_target\ns,,1Gbit/s,,,\na.b,10.0.0.1,1Mbit/s,,,\n\
                 plain,10.0.0.2,1Mbit/s,{up},{low},{aim}\n"
            );
            std::fs::write(folder.path().join("p.csv"), table).unwrap();
        };
        let steered = config("policy = { utilization_low = \"90%\" }\n");
        plans("99%", "95%", "");
        let Err(Failure::Input(told)) = Customers::open(&steered, &file) else { panic!("refused") };
        let path = folder.path().join("p.csv").display().to_string();
        assert!(
            told.starts_with(&format!("{path}:4: key `customers.1.utilization_low`: utilization_low = 99%")),
            "{told}"
        );
        plans("", "", "1Mbit/s");
        let Err(Failure::Input(told)) = Customers::open(&steered, &file) else { panic!("refused") };
        assert!(
            told.starts_with(&format!("{path}:4: key `customers.1.up`: b_to_a keeps no queue")),
            "{told}"
        );
        plans("94%", "95%", "");
        let (customers, _) = Customers::open(&steered, &file).map_err(drop).unwrap();
        let customers = customers.unwrap();
        // Read again.
        plans("96%", "95%", "");
        let (_, refusal) = customers.again(&steered).map(drop).unwrap_err();
        assert_eq!(refusal.problems[0].line, Some(4));
        // Set over the file, and under another configuration.
        let set = |key: &str, value: &str| {
            customers.with(&steered, &[(key.to_string(), value.to_string())].into()).map(drop).unwrap_err().1
        };
        let refusal = set("plain.utilization_target", "93%");
        assert!(
            refusal.error.starts_with(&format!("{path}: key `customers.plain.utilization_low`: ")),
            "{}",
            refusal.error
        );
        assert_eq!(refusal.problems[0].key.as_deref(), Some("customers.plain.utilization_low"));
        let (_, refusal) = customers.under(&config("")).map(drop).unwrap_err();
        assert_eq!(refusal.problems[0].key.as_deref(), Some("customers.plain.utilization_low"));
        // Keys of one customer are looked at together.
        let both =
            [("plain.down", "none"), ("plain.utilization_low", "none"), ("plain.utilization_target", "none")];
        let both = both.map(|(key, value)| (key.to_string(), value.to_string())).into();
        let (_, changed) = customers.with(&steered, &both).map_err(|(_, refusal)| refusal.error).unwrap();
        assert_eq!(changed.len(), 3, "{changed:?}");
        assert!(set("a.b.down", "1").problems[0].key.as_deref() == Some("customers.a.b.down"));
    }

    #[test]
    fn a_key_of_a_customer_is_the_same_for_get_and_set_where_another_is_called_like_it() {
        use weir_operate::EachPlan;
        let text = ["x", "x.down", "x.y"].map(|name| {
            let address = format!("10.0.0.{}", name.len());
            format!("[[customers]]\nname = \"{name}\"\naddress = [\"{address}\"]\n")
        });
        let file = Arc::new(PlansFile::parse("p.toml", &text.concat()).unwrap());
        let plans = InForce { path: "p.toml".into(), file };
        let keys = |key: &str| plans.find(key).unwrap().values.into_keys().collect::<Vec<_>>();
        assert_eq!(keys("customers.x.down"), ["customers.x.down"]);
        assert_eq!(keys("customers.x.name"), ["customers.x.name"]);
        assert_eq!(keys("customers.x.down.down"), ["customers.x.down.down"]);
        assert!(keys("customers.x.y").iter().all(|key| key.starts_with("customers.x.y.")));
        assert!(keys("customers.x").len() > 2);
    }

    /// So many customers, of whom each has an address.
    fn customers(count: u32) -> Customers {
        let text = format!(
            "ports = {{ a = \"x\", b = \"y\" }}\nusers = {{ file = \"p.csv\" }}\n[a_to_b]\nrate = \"1Gbit/s\"\n\
             aqm = {{ name = \"codel\" }}\nqueue = {{ discipline = \"user\", users = {} }}\n",
            count + 1
        );
        let config = RunConfig::parse("f.toml", &text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let rows: String =
            (0..count).map(|n| format!("c{n},10.{}.{}.{}\n", n >> 16 & 255, n >> 8 & 255, n & 255)).collect();
        std::fs::write(folder.path().join("p.csv"), format!("name,address\n{rows}")).unwrap();
        Customers::open(&config, &folder.path().join("f.toml")).map_err(drop).unwrap().0.unwrap()
    }

    /// Customer `n` has sent so many packets of 1000 bytes, and of those that wanted in so many were
    /// discarded.
    fn user(n: u32, packets: u64, dropped: u64) -> UserNow {
        let delay = weir_units::Duration::from_millis(2);
        UserNow {
            key: n,
            bytes: packets * 1000,
            packets,
            dropped,
            marked: packets / 10,
            delays: weir_units::Duration::from_millis(2 * packets),
            delay_max: delay,
            backlog: Bytes::new(3000),
            ..UserNow::default()
        }
    }

    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    #[test]
    fn totals_count_all_customers_and_the_fastest_are_told_one_by_one() {
        let mut customers = customers(300);
        let stranger = UserNow { key: 1 << 31, ..user(0, 70, 0) };
        let of = |packets: u64, dropped: u64| (0..300).map(move |n| user(n, packets * u64::from(n), dropped));
        let first = customers.adopt_rows(0, of(10, 1).chain([stranger]).collect(), None);
        assert_eq!((first.dropped_packets, first.with_queue, first.planned), (300, 301, 300));
        // Half of what wanted in since then was discarded of customer 1, and nothing of customer 299.
        let mut rows: Vec<UserNow> = of(20, 1).collect();
        rows[1].dropped += 10;
        let stranger = UserNow { key: 1 << 31, ..user(0, 170, 0) };
        rows.push(stranger);
        let status = customers.adopt_rows(0, rows.clone(), SECOND);
        let sum: u64 = (0..300).map(|n| n * 10).sum();
        assert_eq!((status.delivered_bps, status.others_bps), (sum as f64 * 8000.0, 800_000.0));
        assert_eq!((status.dropped_packets, status.marked_packets), (310, (0..300u64).map(|n| 2 * n).sum()));
        // Customer 0 sent nothing.
        assert_eq!((status.scored, status.poor), (299, 1));
        let told: Vec<&str> = status.users.iter().map(|user| user.name.as_str()).collect();
        assert_eq!((told.len(), told[0], told[99]), (TOLD_MAX, "c299", "c200"));
        assert_eq!(status.users[0].outcome, Some(1.0));
        assert_eq!(status.users[0].delay_mean_ms, Some(2.0));
        // Another one has the place now: what that one did counts from nothing.
        rows[299] = user(7000, 5, 3);
        rows[298] = user(298, 1, 2);
        let status = customers.adopt_rows(0, rows, SECOND);
        assert_eq!(status.dropped_packets, 312, "of those who are customers");
        assert_eq!(status.users[0].delivered_bps, 8000.0);
    }

    /// At 100 000 customers, all of whom send, the work of each second is about a hundredth of one: that of
    /// the packet loop, which is asked for all of them, and that of the thread that asks. It is compared with
    /// what a packet of each costs on the same machine: 0.73 to 0.84 of that, alone and beside others.
    #[test]
    fn the_outcome_of_a_hundred_thousand_customers_costs_less_than_a_packet_and_a_half_of_each() {
        let count = 100_000;
        let mut customers = customers(count);
        let queue = per_user::Params { users: count, ..per_user::Params::default() };
        let limits = Limits { bytes: Bytes::new(1 << 30), packets: 1 << 16 };
        let setup = Setup { limits, rate: Rate::from_mbps(10_000), seed: 1, grows: true };
        let mut queue: PerUser<CoDel, ()> =
            PerUser::new(&queue, CoDel::new(&codel::Params::default(), Time::ZERO), &setup);
        queue.make_plans(weir_units::Duration::from_millis(1));
        queue.set_plans(&mut Plans::new(vec![Plan::default(); count as usize], &[]));
        assert!((0..count).all(|key| queue.admit(Time::ZERO, key)));
        let (mut sent, mut asked, mut settled) = (Duration::MAX, Duration::MAX, Duration::MAX);
        let mut rows = vec![UserNow::default(); AT_ONCE];
        let mut now = Time::ZERO;
        for look in 1..8u64 {
            // Each has sent a packet since the last look.
            let begun = busy();
            for user in 0..count {
                let mut none = |_: &weir_aqm::Packet, (), _| panic!("there is room");
                let hosts = weir_queue::Hosts { sender: user, receiver: user };
                let len = Bytes::new(1000);
                let arrival =
                    weir_queue::Arrival { len, flow: user, hosts, ecn: weir_aqm::Ecn::NotEct, nqb: false };
                queue.enqueue(now, arrival, (), &mut none);
                now += weir_units::Duration::from_micros(5);
                assert!(queue.dequeue(now, &mut none).is_some());
            }
            sent = sent.min(busy() - begun);
            let begun = busy();
            let mut all: Vec<UserNow> = std::mem::take(&mut customers.spare);
            all.clear();
            loop {
                let told = queue.tell_users(all.len(), &mut rows);
                all.extend_from_slice(&rows[..told]);
                if told < rows.len() {
                    break;
                }
            }
            asked = asked.min(busy() - begun);
            assert_eq!(all.len(), count as usize);
            for (n, row) in (0..count).zip(&mut all) {
                *row = user(n, 10 * look * (1 + u64::from(n * 7919 % count)), 10 * look);
            }
            let begun = busy();
            let status = customers.adopt_rows(0, all, SECOND);
            settled = settled.min(busy() - begun);
            assert_eq!((status.scored, status.users.len()), (u64::from(count), TOLD_MAX));
        }
        println!(
            "{asked:?} to ask for {count} customers, {settled:?} to settle what they have, {sent:?} for a packet of each"
        );
        assert!(2 * (asked + settled) < 3 * sent, "{asked:?} and {settled:?}, beside {sent:?}");
    }

    /// Time that this thread had a processor for.
    fn busy() -> Duration {
        // SAFETY: the pointer is to a plain struct.
        let time = unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            assert_eq!(libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time), 0);
            time
        };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}
