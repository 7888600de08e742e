//! Plans of customers: what each is entitled to, alone and with its site, in TOML or as a table (CSV).

mod csv;

use crate::document::Document;
use crate::entitlements::Terms;
use crate::errors::{Errors, Wrong};
use crate::limits::{FASTEST, SLOWEST};
use crate::problems::Problems;
use crate::schema::{
    Check, Flat, Here, OPTIONAL_TABLES, Printer, Scalar, Section, absent, list, reference, required, such,
    within,
};
use crate::sense_config::parsed;
use crate::tree::Node;
use crate::upf_config::LinkAddress;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use weir_units::{Bytes, Rate};

/// Largest file of plans that is read.
const MAX_BYTES: usize = 32 << 20;
/// Networks of one customer.
const NETWORKS_MAX: usize = 64;
/// Customers of one file.
const CUSTOMERS_MAX: usize = 1_000_000;

/// Most unknown sites for which the nearest name is looked for.
const NEAREST_MAX: usize = 20;

/// An IP network; an address alone is one host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IpNetwork {
    /// The first address.
    pub address: IpAddr,
    /// How many bits of it are those of the network.
    pub length: u8,
}

impl std::str::FromStr for IpNetwork {
    type Err = ();

    fn from_str(text: &str) -> Result<IpNetwork, ()> {
        if let Ok(address) = text.parse::<IpAddr>() {
            let address = address.to_canonical();
            return Ok(IpNetwork { address, length: if address.is_ipv4() { 32 } else { 128 } });
        }
        let LinkAddress { address, length } = text.parse()?;
        // An IPv4 address in the form of IPv6 is the IPv4 address, as in packets (RFC 4291 section 2.5.5.2).
        match address.to_canonical() {
            short if short != address && length >= 96 => {
                Ok(IpNetwork { address: short, length: length - 96 })
            }
            _ => Ok(IpNetwork { address, length }),
        }
    }
}

impl IpNetwork {
    /// Whether it names its first address, and not another one in it.
    fn begins_there(&self) -> bool {
        match self.address {
            IpAddr::V4(a) => u32::from(a) & u32::MAX.checked_shr(u32::from(self.length)).unwrap_or(0) == 0,
            IpAddr::V6(a) => u128::from(a) & u128::MAX.checked_shr(u32::from(self.length)).unwrap_or(0) == 0,
        }
    }
}

impl std::fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Scalar for IpNetwork {
    fn kind() -> String {
        "an IP address or network such as \"192.0.2.7\" or \"2001:db8::/56\"".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        parsed(node, "IP address or network")
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

const BEGINS: &str = "the first address of the network, such as \"192.0.2.0/24\"";
const NAME: &str = "a name of 1 to 64 bytes without control characters";

/// Whether a text is a name as messages and labels can hold it.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && !name.chars().any(char::is_control)
}

section! {
    /// What customers are entitled to.
    pub struct PlansFile {
        /// Sites: what customers share on their way, such as a tower or a cabinet.
        sites: Vec<SitePlan> = OPTIONAL_TABLES;
        /// Customers.
        customers: Vec<CustomerPlan> = OPTIONAL_TABLES;
    }
}

section! {
    /// What the customers of a site are held to together.
    pub struct SitePlan {
        /// Its name, which no other site has.
        name: String = required(such(NAME, |name: &String| is_name(name)));
        /// Most of what goes to its customers.
        down: Option<Rate> = absent("no limit", within(SLOWEST, FASTEST));
        /// Most of what comes from them.
        up: Option<Rate> = absent("no limit", within(SLOWEST, FASTEST));
    }
}

section! {
    /// A customer.
    pub struct CustomerPlan {
        /// Its name, which no other customer has; statistics name it.
        name: String = required(such(NAME, |name: &String| is_name(name)));
        /// Its site.
        site: Option<String> = absent("it is held to no site's rates", such(NAME, |name: &String| is_name(name)));
        /// Its addresses and networks. Where networks of several lie in each other, the smallest counts.
        address: Vec<IpNetwork> = list("none", NETWORKS_MAX, such(BEGINS, IpNetwork::begins_there));
        /// Its VLAN, or two with the outer one first, where users are VLANs (`queue.vlan`).
        vlan: Vec<u32> = list("none", 2, within(0, 4094));
        /// Most of what goes to it.
        down: Option<Rate> = absent("no limit of its own", within(SLOWEST, FASTEST));
        /// Most of what comes from it.
        up: Option<Rate> = absent("no limit of its own", within(SLOWEST, FASTEST));
        /// What it is entitled to besides.
        terms: Terms = Flat;
    }
}

impl Check for SitePlan {}

impl Check for CustomerPlan {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.address.is_empty() == self.vlan.is_empty() {
            let problem = if self.vlan.is_empty() { "is missing" } else { "does not go with `vlan`" };
            here.wrong(p, "address", problem, "name addresses and networks, or else a VLAN");
        }
    }
}

impl Check for PlansFile {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        let mut sites = BTreeMap::new();
        for (at, site) in self.sites.iter().enumerate() {
            if let Some(first) = sites.insert(site.name.as_str(), at) {
                let problem = format!("{:?} is the name of site {first} already", site.name);
                here.wrong(p, &format!("sites.{at}.name"), problem, "give each site a name of its own");
            }
        }
        // A file that is being written anew is empty for a moment; that must not lift all limits.
        if self.customers.is_empty() {
            let remedy = "name one, or leave the file out of the configuration";
            here.wrong(p, "customers", "are missing", remedy);
        }
        if self.customers.len() > CUSTOMERS_MAX {
            let problem = format!("are {} in number", self.customers.len());
            here.wrong(p, "customers", problem, format!("name at most {CUSTOMERS_MAX}"));
        }
        let mut unknown_sites = 0;
        let (mut names, mut networks, mut vlans) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (at, customer) in self.customers.iter().enumerate() {
            let mut wrong = |key: &str, problem: String, remedy: String| {
                here.wrong(p, &format!("customers.{at}.{key}"), problem, remedy);
            };
            let name = customer.name.as_str();
            if let Some(first) = names.insert(name, at) {
                let problem = format!("{name:?} is the name of customer {first} already");
                wrong("name", problem, "give each customer a name of its own".into());
            }
            if let Some(site) = customer.site.as_ref().filter(|site| !sites.contains_key(site.as_str())) {
                // Names are compared with all sites, which is not done for more problems than are told.
                let meant = if unknown_sites < NEAREST_MAX {
                    crate::nearest(site, sites.keys().copied())
                } else {
                    None
                };
                unknown_sites += 1;
                let meant = meant.map_or(String::new(), |meant| format!("did you mean {meant:?}? "));
                wrong(
                    "site",
                    format!("{site:?} is no site"),
                    format!("{meant}add it under `[[sites]]`, in a table as a line without address and vlan"),
                );
            }
            for network in &customer.address {
                if let Some(first) = networks.insert(*network, name) {
                    wrong(
                        "address",
                        format!("{network} is that of {first:?} already"),
                        "name it once".into(),
                    );
                }
            }
            if customer.terms.burst > Bytes::ZERO && customer.down.is_none() && customer.up.is_none() {
                wrong(
                    "burst",
                    "belongs to a rate, and there is none".into(),
                    "give `down` or `up`, or remove it".into(),
                );
            }
            if !customer.vlan.is_empty()
                && let Some(first) = vlans.insert(customer.vlan.as_slice(), name)
            {
                wrong("vlan", format!("is that of {first:?} already"), "name it once".into());
            }
        }
    }
}

impl PlansFile {
    /// Reads a file: a table (CSV) where its name ends so, else TOML. With it the document, which knows the
    /// line of each key for whoever knows more that is wrong.
    pub fn load(path: &Path) -> Result<(PlansFile, Document), Errors> {
        let name = path.display().to_string();
        let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let text = crate::document::read_text(path, MAX_BYTES)?;
        let document = if is_csv {
            csv::document(&name, &text)?
        } else {
            Document::parse_at_most(&name, &text, MAX_BYTES)?
        };
        Ok((PlansFile::read_file(&document, &[])?, document))
    }

    /// Reads a text in TOML; `name` is what messages call it.
    pub fn parse(name: &str, text: &str) -> Result<PlansFile, Errors> {
        PlansFile::read_file(&Document::parse_at_most(name, text, MAX_BYTES)?, &[])
    }

    /// Reads a table: a line for each customer, and one without an address for each site.
    pub fn parse_csv(name: &str, text: &str) -> Result<PlansFile, Errors> {
        PlansFile::read_file(&csv::document(name, text)?, &[])
    }

    /// In canonical form: every key with its value and its meaning.
    pub fn to_toml(&self) -> String {
        self.print_file(Printer::new(Vec::new(), &[]))
    }

    /// The same with other values for keys of a table, such as `customers.0`; "none" takes one out.
    pub fn with(&self, table: &str, values: &[(&str, &str)]) -> Result<PlansFile, Errors> {
        let mut document = Document::parse_at_most("plans", &self.to_toml(), MAX_BYTES)?;
        for (key, value) in values {
            let key = format!("{table}.{key}");
            match value.trim_matches('"') {
                "none" => document.unset(&key),
                _ => document.set(&key, value)?,
            }
        }
        PlansFile::read_file(&document, &[])
    }

    /// All keys with type, default, range and meaning, as Markdown.
    pub fn reference() -> String {
        reference::<PlansFile>("Plans of customers", INTRO)
    }
}

const INTRO: &str = "A file of plans says what each customer of a `weir run` is entitled to, alone and together with the \
others of its site.\nThe configuration names it (`users.file`), and `weir ctl reload` or SIGHUP read it again; \
[operation](operation.md#customers) says how it is used.\nA file that is wrong is refused as a whole.\n\n\
It is TOML, or where its name ends in `.csv` a table with a line for each customer. The first line names the columns, which \
are\nkeys of `[[customers]]` in any order; `address` has its networks with blanks between them, `vlan` its VLANs. An empty \
field\nis as a key that is left out. A line without `address` and `vlan` is a site, with `name`, `down` and `up`:\n\n\
```csv\nname,site,address,down,up,burst\ntower 3,,,400Mbit/s,100Mbit/s,\n\
\"Meyer, J.\",tower 3,192.0.2.7 2001:db8:7::/56,50Mbit/s,10Mbit/s,100kB\n```\n\n\
This page is generated from the declarations of the keys.";
