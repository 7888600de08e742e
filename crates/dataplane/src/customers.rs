//! Customers of a direction: whose a packet is by its addresses or tags, and what each is entitled to.
//!
//! Networks that lie in each other are flattened into ranges when plans are made, so that a packet is looked
//! up by one binary search, in time that the number of customers bounds. Keys of customers are numbers from 0
//! on, those of others have the highest bit set, so that nobody is taken for a customer.

use crate::steering::{Steering, of_customers};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use weir_config::{CustomerPlan, IpNetwork, PlansFile, PolicyConfig, RunConfig, SitePlan};
use weir_queue::{EACH_USER, OwnGuides, Plan, Plans, UserKey};
use weir_steer::Policy;
use weir_units::Rate;
use weir_wire::frame::{Ends, Headers, Kind, ends};
use weir_wire::vlan;

/// Keys of those who are no customers have it.
const STRANGER: u32 = 1 << 31;
const NOBODY: u32 = u32::MAX;

/// Plans of a direction, as whoever runs it hands them over.
#[derive(Clone, Debug, Default)]
pub struct DirectionPlans {
    customers: Vec<Plan>,
    /// Of those who have one of their own.
    policies: Arc<BTreeMap<u32, Policy>>,
    sites: Vec<Option<Rate>>,
    networks: Vec<(IpNetwork, u32)>,
    vlans: Vec<(u32, u32)>,
}

/// Names of customers and sites with the numbers that they keep from one file of plans to the next.
#[derive(Clone, Debug, Default)]
pub struct PlanBook {
    customers: Numbers,
    sites: Numbers,
}

#[derive(Clone, Debug, Default)]
struct Numbers {
    of: HashMap<String, u32>,
    names: Vec<Option<String>>,
}

impl Numbers {
    /// Gives each name a number: its own from before, else one that nobody had before.
    fn take<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone) {
        let before = self.names.len();
        let free: Vec<u32> = (0..before as u32).filter(|at| self.names[*at as usize].is_none()).collect();
        let mut free = free.into_iter();
        let wanted: std::collections::HashSet<&str> = names.clone().collect();
        for at in 0..before {
            if let Some(gone) = self.names[at].take_if(|name| !wanted.contains(name.as_str())) {
                self.of.remove(&gone);
            }
        }
        for name in names {
            if !self.of.contains_key(name) {
                let number = free.next().unwrap_or(self.names.len() as u32);
                if number as usize == self.names.len() {
                    self.names.push(None);
                }
                self.names[number as usize] = Some(name.to_string());
                self.of.insert(name.to_string(), number);
            }
        }
    }
}

impl PlanBook {
    /// What a file of plans says of both directions; `None` of one that keeps no queue for each user. Refused
    /// is what a direction cannot do.
    pub fn plans(
        &mut self,
        config: &RunConfig,
        file: &PlansFile,
    ) -> Result<[Option<DirectionPlans>; 2], Vec<Impossible>> {
        check(config, file)?;
        self.customers.take(file.customers.iter().map(|customer| customer.name.as_str()));
        self.sites.take(file.sites.iter().map(|site| site.name.as_str()));
        Ok([0, 1].map(|direction| {
            let planned = planned(config, direction)?;
            let policy = [&config.a_to_b, &config.b_to_a][direction].policy.as_ref();
            Some(self.of(file, &planned, policy))
        }))
    }

    fn of(&self, file: &PlansFile, planned: &Planned, policy: Option<&PolicyConfig>) -> DirectionPlans {
        let mut customers = vec![Plan::default(); self.customers.names.len()];
        let mut policies = BTreeMap::new();
        let (mut networks, mut vlans) = (Vec::new(), Vec::new());
        let rate = |customer: &CustomerPlan| if planned.is_down { customer.down } else { customer.up };
        for customer in &file.customers {
            let number = self.customers.of[&customer.name];
            let site = customer.site.as_ref().and_then(|site| self.sites.of.get(site).copied());
            let (plan, own) = customer.terms.plan(rate(customer), site, policy);
            customers[number as usize] = plan;
            policies.extend(own.map(|own| (number, own)));
            networks.extend(customer.address.iter().map(|network| (*network, number)));
            vlans.extend((!customer.vlan.is_empty()).then(|| (tags(customer.vlan.iter().copied()), number)));
        }
        let mut sites = vec![None; self.sites.names.len()];
        for site in &file.sites {
            sites[self.sites.of[&site.name] as usize] = if planned.is_down { site.down } else { site.up };
        }
        DirectionPlans { customers, policies: policies.into(), sites, networks, vlans }
    }

    /// The name of the customer with this key; `None` of somebody else.
    pub fn name(&self, key: u32) -> Option<&str> {
        self.customers.names.get(key as usize)?.as_deref()
    }
}

/// A direction that keeps a queue for each user, behind which are customers.
struct Planned {
    is_down: bool,
    key: UserKey,
}

fn planned(config: &RunConfig, direction: usize) -> Option<Planned> {
    let channel = [&config.a_to_b, &config.b_to_a][direction];
    let users = config.users.as_ref()?;
    let is_down = (users.port == weir_config::PortName::B) == (direction == 0);
    Some(Planned { is_down, key: channel.queue.user_key()? })
}

/// What a file of plans asks for that the configuration cannot do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Impossible {
    /// The key in the file, such as `customers.0.down`.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

fn check(config: &RunConfig, file: &PlansFile) -> Result<(), Vec<Impossible>> {
    let mut all = Vec::new();
    let mut wrong = |key: String, problem: String, remedy: String| {
        all.push(Impossible { key, problem, remedy });
        // The first few say enough.
        all.len() >= WRONG_MAX
    };
    // A customer's own policy is for the directions that have one.
    let is_steered = (0..2).any(|direction| {
        let has_policy = [&config.a_to_b, &config.b_to_a][direction].policy.is_some();
        has_policy && planned(config, direction).is_some()
    });
    for (direction, name) in ["a_to_b", "b_to_a"].into_iter().enumerate() {
        let channel = [&config.a_to_b, &config.b_to_a][direction];
        let is_down =
            config.users.as_ref().is_some_and(|u| (u.port == weir_config::PortName::B) == (direction == 0));
        let word = if is_down { "down" } else { "up" };
        let rate = |customer: &CustomerPlan| if is_down { customer.down } else { customer.up };
        let Some(Planned { key, .. }) = planned(config, direction) else {
            let remedy = || format!("`{name}.queue.discipline = \"{EACH_USER}\"`, or leave `{word}` out");
            let problem = || format!("{name} keeps no queue for each user");
            if let Some(at) = file.customers.iter().position(|customer| rate(customer).is_some()) {
                wrong(format!("customers.{at}.{word}"), problem(), remedy());
            }
            let site_rate = |site: &SitePlan| if is_down { site.down } else { site.up };
            if let Some(at) = file.sites.iter().position(|site| site_rate(site).is_some()) {
                wrong(format!("sites.{at}.{word}"), problem(), remedy());
            }
            continue;
        };
        if file.customers.len() > key.most as usize {
            let count = file.customers.len();
            let problem = format!("are {count} in number, and {name} has places for {}", key.most);
            wrong("customers".into(), problem, format!("`{name}.queue.users = {count}`"));
        }
        for (at, customer) in file.customers.iter().enumerate() {
            let mut is_enough = false;
            let mut wrong = |key: &str, problem: String, remedy: String| {
                is_enough |= wrong(format!("customers.{at}.{key}"), problem, remedy);
            };
            if customer.vlan.is_empty() == key.vlan {
                let (has, wants) = if key.vlan { ("address", "VLANs") } else { ("vlan", "addresses") };
                let remedy = format!("`{name}.queue.vlan = {}`", !key.vlan);
                wrong(has, format!("users of {name} are {wants}"), remedy);
            }
            // Who is forgotten has no debt.
            let refill = rate(customer).map(|rate| rate.time_for(customer.terms.burst));
            if let Some(time) = refill.filter(|time| *time > key.idle) {
                let problem = format!(
                    "is sent at the rate in {time}, and a user of {name} is forgotten after {}, who could send it again",
                    key.idle
                );
                wrong("burst", problem, format!("a smaller `burst`, or a longer `{name}.queue.idle`"));
            }
            if customer.terms.target.is_some() && channel.policy.is_some() {
                let remedy = format!("remove `{name}.policy`, or say `target_max` in its place");
                wrong("target", format!("the policy of {name} moves the set points of all"), remedy);
            }
            let (policy, aqm) = (channel.policy.as_ref(), channel.aqm.as_ref());
            if (policy.is_some() || !is_steered)
                && let Some((key, problem, remedy)) =
                    customer.terms.policy.wrong_in(policy, aqm, &channel.queue, (word, rate(customer)))
            {
                wrong(key, format!("{problem} in {name}"), remedy);
            }
            if is_enough {
                return Err(all);
            }
        }
    }
    if all.is_empty() { Ok(()) } else { Err(all) }
}

const WRONG_MAX: usize = 10;

/// Tags as one number, in which the leading one tells how many there are: two, one or none.
fn tags(ids: impl Iterator<Item = u32>) -> u32 {
    ids.fold(1, |key, id| key << 12 | (id & 0xfff))
}

/// Plans in the form that packets need.
pub(crate) struct Made {
    /// What the queue holds customers to.
    pub queue: Plans,
    /// What steers customers with a policy of their own.
    pub guides: OwnGuides<Steering>,
    /// Whose a packet is.
    pub classes: Classes,
}

impl DirectionPlans {
    /// Policies of customers that have one of their own, by the key of the customer.
    pub fn policies(&self) -> &Arc<BTreeMap<u32, Policy>> {
        &self.policies
    }

    /// Allocates what packets need.
    pub(crate) fn make(&self) -> Made {
        Made {
            queue: Plans::new(self.customers.clone(), &self.sites),
            guides: of_customers(&self.policies),
            classes: Classes::new(self),
        }
    }
}

/// Whose a packet is.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    vlans: Box<[(u32, u32)]>,
}

/// Where a range of addresses begins, and whose it is up to the next.
#[derive(Debug, Default)]
struct Ranges<A>(Box<[(A, u32)]>);

impl<A: Copy + Ord> Ranges<A> {
    /// Of networks by first and last address, in any order; those inside others count there. `after` is the
    /// address behind one, `None` at the end of all.
    fn new(mut networks: Vec<(A, A, u32)>, zero: A, after: impl Fn(A) -> Option<A>) -> Ranges<A> {
        if networks.is_empty() {
            return Ranges(Box::new([]));
        }
        // Outer ones come before those in them.
        networks.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut begins = vec![(zero, NOBODY)];
        let mut put = |at: A, whose: u32| match begins.last_mut() {
            Some(last) if last.0 == at => last.1 = whose,
            _ => begins.push((at, whose)),
        };
        // Networks that are open, the innermost last.
        let mut open: Vec<(A, u32)> = Vec::new();
        let close = |open: &mut Vec<(A, u32)>, put: &mut dyn FnMut(A, u32)| {
            if let Some((last, _)) = open.pop()
                && let Some(next) = after(last)
            {
                put(next, open.last().map_or(NOBODY, |(_, whose)| *whose));
            }
        };
        for (first, last, whose) in networks {
            while open.last().is_some_and(|(end, _)| *end < first) {
                close(&mut open, &mut put);
            }
            put(first, whose);
            open.push((last, whose));
        }
        while !open.is_empty() {
            close(&mut open, &mut put);
        }
        Ranges(begins.into())
    }

    #[inline]
    fn find(&self, address: A) -> Option<u32> {
        let behind = self.0.partition_point(|(begin, _)| *begin <= address);
        let whose = self.0.get(behind.checked_sub(1)?)?.1;
        (whose != NOBODY).then_some(whose)
    }
}

impl Classes {
    fn new(plans: &DirectionPlans) -> Classes {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (IpNetwork { address, length }, whose) in &plans.networks {
            match address {
                IpAddr::V4(address) => {
                    let first = u32::from(*address);
                    v4.push((first, first | u32::MAX.checked_shr(u32::from(*length)).unwrap_or(0), *whose));
                }
                IpAddr::V6(address) => {
                    let first = u128::from(*address);
                    v6.push((first, first | u128::MAX.checked_shr(u32::from(*length)).unwrap_or(0), *whose));
                }
            }
        }
        let mut vlans = plans.vlans.clone();
        vlans.sort_unstable();
        Classes {
            v4: Ranges::new(v4, 0, |address| address.checked_add(1)),
            v6: Ranges::new(v6, 0, |address| address.checked_add(1)),
            vlans: vlans.into(),
        }
    }

    fn find(&self, ends: Ends, of_sender: bool) -> Option<u32> {
        let pick = usize::from(!of_sender);
        match ends {
            Ends::V4(ends) => self.v4.find(ends[pick]),
            Ends::V6(ends) => self.v6.find(ends[pick]),
        }
    }

    /// Headers with the keys of customers in the place of hashes. `turned` are those of the packets that the
    /// frame answers.
    #[inline]
    pub fn keyed(&self, frame: &[u8], headers: Headers, turned: bool) -> Headers {
        let [sender, receiver] = if !self.vlans.is_empty() {
            let key = tags(vlan::tags(frame).map(|tag| u32::from(tag.id)));
            let found = self.vlans.binary_search_by_key(&key, |(tags, _)| *tags).ok();
            let whose = found.map(|at| self.vlans[at].1);
            [whose; 2]
        } else if matches!(headers.kind, Kind::Ipv4 | Kind::Ipv6) {
            let ends = ends(frame, headers.kind, headers.network);
            [true, false].map(|of_sender| self.find(ends?, of_sender != turned))
        } else {
            [None; 2]
        };
        Headers {
            sender: sender.unwrap_or(headers.sender | STRANGER),
            receiver: receiver.unwrap_or(headers.receiver | STRANGER),
            ..headers
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Duration;

    #[test]
    fn no_tag_one_and_two_are_told_apart() {
        let keys = [&[][..], &[0], &[5], &[0, 5], &[5, 0], &[0, 0]].map(|ids| tags(ids.iter().copied()));
        assert_eq!(std::collections::BTreeSet::from(keys).len(), keys.len(), "{keys:?}");
    }

    fn file(text: &str) -> PlansFile {
        PlansFile::parse("p.toml", text).unwrap()
    }

    fn refusal(config: &RunConfig, file: &PlansFile) -> String {
        let wrong = PlanBook::default().plans(config, file).unwrap_err();
        let line = |one: &Impossible| format!("`{}`: {}; {}", one.key, one.problem, one.remedy);
        wrong.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn config(more: &str) -> RunConfig {
        let text = format!(
            "ports = {{ a = \"x\", b = \"y\" }}\nusers = {{ file = \"p.toml\" }}\n[a_to_b]\nrate = \"1Gbit/s\"\n\
             aqm = {{ name = \"codel\" }}\nqueue = {{ discipline = \"user\" }}\n{more}"
        );
        RunConfig::parse("f.toml", &text).unwrap()
    }

    const UP: &str = "[b_to_a]\nrate = \"1Gbit/s\"\naqm = { name = \"codel\" }\n\
                      queue = { discipline = \"user\", by_sender = true }\n";

    #[test]
    fn the_smallest_network_counts() {
        let networks = [
            ("10.0.0.0/8", 0),
            ("10.1.0.0/16", 1),
            ("10.1.2.0/24", 2),
            ("10.1.2.3", 3),
            ("10.255.255.255", 4),
            ("255.255.255.0/24", 5),
            ("0.0.0.0", 6),
            ("2001:db8::/32", 7),
            ("2001:db8:1::/48", 8),
        ];
        let plans = DirectionPlans {
            networks: networks.iter().map(|(network, whose)| (network.parse().unwrap(), *whose)).collect(),
            ..DirectionPlans::default()
        };
        let classes = Classes::new(&plans);
        // As looking at each network finds it.
        let slow = |address: IpAddr| {
            let holds = |network: &IpNetwork| match (network.address, address) {
                (IpAddr::V4(n), IpAddr::V4(a)) => {
                    (u32::from(n) ^ u32::from(a)).leading_zeros() >= u32::from(network.length)
                }
                (IpAddr::V6(n), IpAddr::V6(a)) => {
                    (u128::from(n) ^ u128::from(a)).leading_zeros() >= u32::from(network.length)
                }
                _ => false,
            };
            let within = plans.networks.iter().filter(|(network, _)| holds(network));
            within.max_by_key(|(network, _)| network.length).map(|(_, whose)| *whose)
        };
        let of = |address: IpAddr| match address {
            IpAddr::V4(a) => classes.find(Ends::V4([0, u32::from(a)]), false),
            IpAddr::V6(a) => classes.find(Ends::V6([0, u128::from(a)]), false),
        };
        let near = |address: IpAddr| -> Vec<IpAddr> {
            match address {
                IpAddr::V4(a) => [-1i64, 0, 1, 255, 256, 65_536]
                    .map(|step| IpAddr::from((u32::from(a).wrapping_add(step as u32)).to_be_bytes()))
                    .into(),
                IpAddr::V6(a) => [-1i128, 0, 1, 1 << 80, 1 << 96]
                    .map(|step| IpAddr::from((u128::from(a).wrapping_add(step as u128)).to_be_bytes()))
                    .into(),
            }
        };
        for address in
            networks.iter().flat_map(|(network, _)| near(network.parse::<IpNetwork>().unwrap().address))
        {
            assert_eq!(of(address), slow(address), "{address}");
        }
        assert_eq!(of("10.1.2.3".parse().unwrap()), Some(3));
        assert_eq!(Classes::default().find(Ends::V4([7, 7]), true), None);
    }

    #[test]
    fn customers_keep_their_numbers_from_file_to_file() {
        let mut book = PlanBook::default();
        let customer =
            |name: &str, n: u32| format!("[[customers]]\nname = \"{name}\"\naddress = [\"10.0.0.{n}\"]\n");
        let text =
            |names: &[(&str, u32)]| names.iter().map(|(name, n)| customer(name, *n)).collect::<String>();
        let config = config("");
        book.plans(&config, &file(&text(&[("a", 1), ("b", 2), ("c", 3)]))).unwrap();
        assert_eq!([0, 1, 2].map(|key| book.name(key)), [Some("a"), Some("b"), Some("c")]);
        book.plans(&config, &file(&text(&[("d", 1), ("c", 3), ("a", 9)]))).unwrap();
        // The number of one who left is given to nobody at once.
        assert_eq!([0, 1, 2, 3].map(|key| book.name(key)), [Some("a"), None, Some("c"), Some("d")]);
        book.plans(&config, &file(&text(&[("e", 1), ("c", 3), ("a", 9)]))).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|key| book.name(key)), [Some("a"), Some("e"), Some("c"), None, None]);
    }

    #[test]
    fn a_policy_of_a_customer_is_that_of_its_direction_but_for_what_it_says() {
        let customers = |own: &str| {
            file(&format!(
                "[[customers]]\nname = \"a\"\naddress = [\"10.0.0.1\"]\ndown = \"1Mbit/s\"\n{own}\n\
                 [[customers]]\nname = \"b\"\naddress = [\"10.0.0.2\"]\n"
            ))
        };
        let steered = |policy: &str| config(&format!("policy = {{ {policy} }}\n{UP}"));
        let low = steered("utilization_low = \"70%\"");
        let plans = PlanBook::default().plans(&low, &customers("target_max = \"9ms\"")).unwrap();
        let [down, _] = plans.map(|plans| plans.unwrap());
        let policies: Vec<_> =
            down.policies().iter().map(|(key, own)| (*key, own.utilization_low.0)).collect();
        assert_eq!((policies, down.policies()[&0].target_max), (vec![(0, 0.7)], Duration::from_millis(9)));
        assert_eq!(down.make().guides.len(), 1);
        // A virtual queue stands for one FIFO.
        let virtual_queue = customers("utilization_target = \"80%\"");
        let [down, _] = PlanBook::default().plans(&low, &virtual_queue).unwrap().map(|plans| plans.unwrap());
        assert_eq!([0, 1].map(|number| down.customers[number].is_one_fifo), [true, false]);
        let [down, up] = PlanBook::default()
            .plans(&low, &customers("target_max = \"9ms\""))
            .unwrap()
            .map(|plans| plans.unwrap());
        assert!(!down.customers[0].is_one_fifo);
        assert!(up.policies().is_empty() && up.make().guides.is_empty(), "nothing steers there");
        let refused = |config: &RunConfig, file: PlansFile| refusal(config, &file);
        let told = refused(&config(UP), customers("utilization_low = \"90%\""));
        assert!(
            told.contains("customers.0.utilization_low") && told.contains("give the direction a"),
            "{told}"
        );
        let told = refused(&low, customers("target_max = \"9us\""));
        assert!(told.contains("customers.0.target_max") && told.contains("raise target_max"), "{told}");
        let told = refused(&low, customers("target = \"9ms\""));
        assert!(told.contains("customers.0.target`") && told.contains("say `target_max`"), "{told}");
        let idle = "[[customers]]\nname = \"a\"\naddress = [\"10.0.0.1\"]\ntarget_max = \"9ms\"\n";
        let told = refused(&low, file(idle));
        assert!(told.contains("customers.0.target_max") && told.contains("give `down`"), "{told}");
    }

    #[test]
    fn what_a_direction_cannot_do_is_refused_with_key_and_remedy() {
        let one = |more: &str| file(&format!("[[customers]]\nname = \"a\"\n{more}"));
        let refused = |config: &RunConfig, file: &PlansFile| refusal(config, file);
        let up = one("address = [\"10.0.0.1\"]\nup = \"1Mbit/s\"\n");
        let told = refused(&config(""), &up);
        assert!(told.contains("customers.0.up") && told.contains("b_to_a.queue.discipline"), "{told}");
        let plans = PlanBook::default().plans(&config(UP), &up).unwrap();
        assert!(plans[0].as_ref().unwrap().customers[0].rate.is_none());
        assert_eq!(plans[1].as_ref().unwrap().customers[0].rate, Some(Rate::from_mbps(1)));
        let told = refused(&config(UP), &one("vlan = [7]\n"));
        assert!(told.contains("customers.0.vlan") && told.contains("queue.vlan = true"), "{told}");
        // 60 s at 1 Mbit/s are 7.5 MB.
        let burst =
            |burst: &str| one(&format!("address = [\"10.0.0.1\"]\nup = \"1Mbit/s\"\nburst = \"{burst}\"\n"));
        assert!(PlanBook::default().plans(&config(UP), &burst("7MB")).is_ok());
        let told = refused(&config(UP), &burst("8MB"));
        assert!(told.contains("customers.0.burst") && told.contains("b_to_a.queue.idle"), "{told}");
        let steered = config("policy = { target_max = \"9ms\" }\n");
        let told = refused(&steered, &one("address = [\"10.0.0.1\"]\ntarget = \"3ms\"\n"));
        assert!(told.contains("customers.0.target") && told.contains("policy"), "{told}");
    }
}
