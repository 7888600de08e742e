//! `weir ctl`: looks at running programs and changes them, through their control sockets.

use crate::control::customers::CUSTOMERS;
use crate::interrupt::interrupted;
use crate::output::{Done, Failure, Output};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_config::Document;
use weir_operate::client::{self, Client};
use weir_operate::page::TOKEN_FILE;
use weir_operate::{
    Applied, Configuration, ConfigurationChange, CustomerStatus, CustomersFound, DirectionStatus, FOLDER,
    PlanFound, Refusal, Status, UserStatus,
};
use weir_report::table;

/// Look at running links and change them: how they stand, their policy, rates and configuration.
///
/// Each `weir run`, `weir steer`, `weir upf` and `weir lab` listens on a socket in /run/weir that belongs to
/// root. A change is checked in full first, put into force as a whole between two packets, and told in the
/// log of the run; where one key is refused, nothing changes, and the key and the remedy are told. What
/// needs a restart is refused as such.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Only the links with this port, process number or socket. Can be repeated; by default all that run, and
    /// for changes the only one that runs. A port that several programs have is not changed.
    #[arg(long, value_name = "PORT|PID|SOCKET", global = true)]
    link: Vec<String>,
    /// Change all links that run.
    #[arg(long, global = true, conflicts_with = "link")]
    all: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// How links stand: utilization, delay, set point, drops, ports.
    Status,
    /// The configuration in force, or the values of some keys of it.
    Get {
        /// Keys or tables, such as `a_to_b.rate` or `a_to_b.policy`, and of a customer with a plan
        /// `customers.NAME` or `customers.NAME.down`; without any the whole configuration, with the meaning
        /// of each key.
        keys: Vec<String>,
    },
    /// Change keys, all together or none.
    Set {
        /// Keys with their values, such as `a_to_b.rate=50Mbit/s`, `a_to_b.aqm.interval=50ms`, and of a
        /// customer with a plan `customers.NAME.down=5Mbit/s`, `customers.NAME.exempt=true`.
        #[arg(required = true, value_name = "KEY=VALUE")]
        values: Vec<String>,
        /// Only check.
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the policy of a direction, or change it.
    Policy {
        /// `a_to_b` or `b_to_a`, or the name of a link of a lab; may be left out where one direction has a
        /// policy.
        #[arg(value_name = "DIRECTION|KEY=VALUE")]
        direction: Option<String>,
        /// What changes, such as `utilization_low=99%` or `target_max=20ms`.
        #[arg(value_name = "KEY=VALUE")]
        values: Vec<String>,
        /// Only check.
        #[arg(long)]
        dry_run: bool,
    },
    /// Read the file of the configuration again; the same as SIGHUP.
    Reload {
        /// Only check.
        #[arg(long)]
        dry_run: bool,
    },
    /// End in order: what waits is sent, and the kernel goes on forwarding between the ports. Queues of the
    /// kernel are put back, programs in it are taken off, and of a lab what was measured is kept.
    Drain,
    /// Show customers: those with this name, or the first in the order of a column.
    Users {
        /// A part of their names.
        name: Option<String>,
        /// The one with this IP address.
        #[arg(long, value_name = "ADDRESS")]
        address: Option<std::net::IpAddr>,
        /// The column to sort by.
        #[arg(long, value_name = "COLUMN", default_value = "delivered_bps", value_parser = clap::builder::PossibleValuesParser::new(weir_operate::columns()))]
        sort: String,
        /// Smallest first.
        #[arg(long)]
        rising: bool,
        /// How many, 1 to 1000.
        #[arg(long, default_value = "20", value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Say where the pages of running links are, with the token that changes there take.
    Page,
    /// Show how links stand, again and again.
    Top {
        /// Seconds between two looks, 0.1 to 3600.
        #[arg(long, default_value = "1", value_parser = interval)]
        interval: f64,
        /// How often; by default until Ctrl-C.
        #[arg(long)]
        count: Option<u64>,
    },
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "this is no number of seconds".to_string())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("it is not from 0.1 to 3600".into()) }
}

const EXAMPLES: &str = "Examples:
  weir ctl status                                       all links that run
  weir ctl set a_to_b.rate=80Mbit/s                     a rate, at once
  weir ctl policy target_max=20ms utilization_low=98%   less delay for less throughput
  weir ctl --link eth1 set a_to_b.aqm.interval=50ms     of the link with that port
  weir ctl --all reload --dry-run                       would the files be taken?
  weir ctl get a_to_b.policy --json                     for programs
  weir ctl set customers.smith.down=5Mbit/s             a customer, until the file of plans is read again
  weir ctl get customers.smith                          what that customer is entitled to
  weir ctl users smith                                  a customer, also one that sends little
  weir ctl page                                         where the page of a run with --page is, with its token
  curl --unix-socket /run/weir/control-PID.sock http://localhost/metrics";

/// A program that runs.
struct Running {
    socket: PathBuf,
    client: Client,
    status: Status,
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let Arguments { link, all, verb } = arguments;
    match verb {
        Verb::Status => {
            let found = running(&link)?;
            show(&found.iter().map(|one| &one.status).collect::<Vec<_>>(), output);
            Ok(ExitCode::SUCCESS)
        }
        Verb::Get { keys } => get(running(&link)?, &|_| Ok(keys.clone()), output),
        Verb::Set { values, dry_run } => {
            let set = assignments(&values)?;
            change(chosen(&link, all)?, &|_| Ok(set_of(&set)), dry_run, output)
        }
        Verb::Policy { direction, values, dry_run } => policy(&link, all, direction, values, dry_run, output),
        Verb::Reload { dry_run } => change(chosen(&link, all)?, &|_| Ok(Asked::Reload), dry_run, output),
        Verb::Drain => drain(chosen(&link, all)?, output),
        Verb::Users { name, address, sort, rising, limit } => {
            let mut query = format!("sort={sort}&limit={limit}");
            query.push_str(if rising { "&order=asc" } else { "" });
            query.extend(name.map(|name| format!("&name={}", escaped(&name))));
            query.extend(address.map(|address| format!("&address={}", address.to_canonical())));
            users_found(running(&link)?, &query, output)
        }
        Verb::Page => pages(running(&link)?, output),
        Verb::Top { interval, count } => top(&link, interval, count, output),
    }
}

fn unreachable(error: &client::Failure) -> Failure {
    Failure::Failed(error.to_string())
}

/// The programs that run, or those of them that are named, to be looked at: one of several that does not
/// answer is told, and does not hide the others.
fn running(named: &[String]) -> Result<Vec<Running>, Failure> {
    let (found, mut silent) = asked(named)?;
    if found.is_empty()
        && let Some(failure) = silent.pop()
    {
        return Err(failure);
    }
    silent.iter().for_each(|failure| crate::output::warn(format!("warning: {}", failure.text())));
    Ok(found)
}

/// The same, and why others of those that are meant do not answer.
fn asked(named: &[String]) -> Result<(Vec<Running>, Vec<Failure>), Failure> {
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for socket in sockets(named)? {
        let looked = Client::connect(&socket).and_then(|mut client| {
            let status: Status = client.ask("GET", "/v1/status", None::<&()>)?;
            Ok(Running { socket: socket.clone(), client, status })
        });
        let is_named = named.contains(&socket.display().to_string());
        match looked {
            Ok(one) => found.push(one),
            Err(error) if is_named => return Err(unreachable(&error)),
            // One that ends meanwhile is no failure.
            Err(_) if !socket.exists() => {}
            // Who is named by a port or a number may be any of the others.
            Err(error) => silent.push(unreachable(&error)),
        }
    }
    if named.is_empty() {
        if found.is_empty() && silent.is_empty() {
            return Err(Failure::Failed(format!(
                "no link runs here: there is no control socket in {FOLDER}. Remedy: start one with `weir run FILE`, `weir steer` \
                 or `weir upf FILE`"
            )));
        }
        return Ok((found, silent));
    }
    for name in named {
        if !found.iter().any(|one| one.is_called(name)) {
            let named = |one: &Running| format!("{} (process {})", one.status.title, one.status.pid);
            let known: Vec<String> = found.iter().map(named).collect();
            let known = if known.is_empty() { "nothing".into() } else { known.join(", ") };
            let mute: String = silent.iter().map(|failure| format!("; {}", failure.text())).collect();
            return Err(Failure::Input(format!(
                "no link that runs has the port, process number or socket `{name}`. Remedy: name one of what runs: {known}{mute}"
            )));
        }
    }
    found.retain(|one| named.iter().any(|name| one.is_called(name)));
    // The others are not meant.
    Ok((found, Vec::new()))
}

fn sockets(named: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let paths: Vec<PathBuf> = named.iter().filter(|name| name.contains('/')).map(PathBuf::from).collect();
    if !paths.is_empty() && paths.len() == named.len() {
        return Ok(paths);
    }
    let listed = weir_operate::running(Path::new(FOLDER));
    let listed = listed.or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(Vec::new()),
        _ => Err(Failure::Failed(format!("cannot look into {FOLDER}: {error}. Remedy: ask as root"))),
    });
    // One that is named by its socket is listed, too.
    let others = listed?.into_iter().filter(|socket| !paths.contains(socket)).collect::<Vec<_>>();
    Ok(paths.into_iter().chain(others).collect())
}

impl Running {
    fn is_called(&self, name: &str) -> bool {
        // The queues of `weir steer` are called by their interface, kind and handle.
        let of_interface = |queue: &str| queue.split(' ').next() == Some(name);
        let steers = self.status.verb == "steer";
        steers && self.status.directions.iter().any(|queue| of_interface(&queue.name))
            || self.status.ports.iter().any(|port| port.name == name)
            || self.status.pid.to_string() == name
            || self.status.title == name
            || self.socket == Path::new(name)
    }
}

/// The programs to change: what is named, or the only one, or all if that is said.
fn chosen(named: &[String], all: bool) -> Result<Vec<Running>, Failure> {
    // Changes are for all of them, or for none.
    let (found, silent) = asked(named)?;
    if let Some(failure) = silent.into_iter().next() {
        return Err(failure);
    }
    if found.len() > 1 && named.is_empty() && !all {
        return Err(Failure::Input(format!(
            "several links run: {}. Remedy: name those to change with `--link`, or all with `--all`",
            listed(&found)
        )));
    }
    for name in named {
        let links: Vec<&Running> = found.iter().filter(|one| one.is_called(name)).collect();
        if links.iter().any(|one| one.status.pid != links[0].status.pid) {
            return Err(Failure::Input(format!(
                "`{name}` is in several programs, such as in several network namespaces: {}. Remedy: name those to change \
                 by process number or socket",
                listed(links)
            )));
        }
    }
    Ok(found)
}

/// Links as they are told apart.
fn listed<'a>(links: impl IntoIterator<Item = &'a Running>) -> String {
    let title = |one: &Running| format!("{} (pid {})", one.status.title, one.status.pid);
    links.into_iter().map(title).collect::<Vec<_>>().join(", ")
}

/// Keys with their values, each of them once.
fn assignments(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut all = BTreeMap::new();
    for text in texts {
        let (key, value) = assignment(text)?;
        if let Some(before) = all.insert(key.clone(), value) {
            return Err(Failure::Input(format!(
                "`{key}` is there twice, at first as `{before}`. Remedy: name it once"
            )));
        }
    }
    Ok(all)
}

fn assignment(text: &str) -> Result<(String, String), Failure> {
    // Names of customers may have a `=`.
    let split =
        if text.trim_start().starts_with(CUSTOMERS) { text.rsplit_once('=') } else { text.split_once('=') };
    let split = split.map(|(key, value)| (key.trim().to_string(), value.trim().to_string()));
    split.ok_or_else(|| {
        Failure::Input(format!("`{text}` has no `=`. Remedy: write it like `a_to_b.rate=50Mbit/s`"))
    })
}

/// What a program is asked to do.
enum Asked {
    Set(BTreeMap<String, String>),
    Reload,
}

fn set_of(values: &BTreeMap<String, String>) -> Asked {
    Asked::Set(values.clone())
}

fn ask(one: &mut Running, asked: &Asked, dry_run: bool) -> Result<Applied, client::Failure> {
    let (method, path, set) = match asked {
        Asked::Set(values) => ("PATCH", "/v1/config", values.clone()),
        Asked::Reload => ("POST", "/v1/reload", BTreeMap::new()),
    };
    one.client.ask(method, path, Some(&ConfigurationChange { set, dry_run }))
}

/// Changes each; where there are several, only after all have said that they would.
fn change(
    mut found: Vec<Running>,
    asked: &dyn Fn(&Running) -> Result<Asked, Failure>,
    dry_run: bool,
    output: &Output,
) -> Done {
    let asked = found.iter().map(asked).collect::<Result<Vec<Asked>, Failure>>()?;
    let is_rehearsed = dry_run || found.len() > 1;
    let mut results = Vec::new();
    let mut round = |dry_run: bool, results: &mut Vec<Told>| {
        results.clear();
        for (one, asked) in found.iter_mut().zip(&asked) {
            let result = ask(one, asked, dry_run);
            results.push(Told { title: one.status.title.clone(), pid: one.status.pid, result });
        }
        results.iter().all(|told| told.result.is_ok())
    };
    let mut is_done = !is_rehearsed || round(true, &mut results);
    let is_only_checked = dry_run || !is_done;
    if is_done && !dry_run {
        is_done = round(false, &mut results);
    }
    tell(&results, is_only_checked, output);
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What became of a change on one program.
struct Told {
    title: String,
    pid: u32,
    result: Result<Applied, client::Failure>,
}

impl Told {
    fn json(&self) -> Value {
        match &self.result {
            Ok(applied) => json!({ "link": self.title, "pid": self.pid, "applied": applied }),
            Err(failure) => {
                let refusal = match failure {
                    client::Failure::Refused(_, refusal) => refusal.clone(),
                    client::Failure::Unreachable(why) => Refusal::plain(why),
                };
                json!({ "link": self.title, "pid": self.pid, "refused": refusal })
            }
        }
    }

    fn text(&self, is_only_checked: bool) -> String {
        let title = &self.title;
        let applied = match &self.result {
            Ok(applied) => applied,
            Err(failure @ client::Failure::Refused(..=499, _)) => {
                return format!("{title}: refused, nothing was changed:\n{failure}");
            }
            // The reason says what came of it, as far as it is known.
            Err(failure) => return format!("{title}: not done, or not known to be:\n{failure}"),
        };
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
        let mut lines: Vec<String> = applied
            .changed
            .iter()
            .map(|one| format!("  {}: {} -> {}", one.key, value(&one.from), value(&one.to)))
            .collect();
        lines.extend(applied.notes.iter().map(|note| format!("  note: {note}")));
        let what = match applied.at_s {
            _ if applied.changed.is_empty() => "everything is so already".to_string(),
            _ if is_only_checked => "would change, and is not changed".into(),
            Some(at_s) => format!("changed at {at_s:.3} s of the run"),
            None => "changed".into(),
        };
        lines.insert(0, format!("{title}: {what}"));
        lines.join("\n")
    }
}

fn tell(results: &[Told], is_only_checked: bool, output: &Output) {
    let is_refused = results.iter().any(|told| told.result.is_err());
    let all: Vec<Value> = results.iter().map(Told::json).collect();
    let object = json!({ "links": all, "checked_only": is_only_checked, "refused": is_refused });
    tell_each(results, &object, &|told| told.text(is_only_checked), output);
}

/// The object, or a text for each, which is no result where one was refused.
fn tell_each(results: &[Told], object: &Value, text: &dyn Fn(&Told) -> String, output: &Output) {
    if !output.json && results.iter().any(|told| told.result.is_err()) {
        results.iter().for_each(|told| crate::output::warn(text(told)));
        return;
    }
    output.result(object, || results.iter().map(text).collect::<Vec<_>>().join("\n"));
}

/// Tells keys in force, each program's own; all where none is named.
fn get(
    mut found: Vec<Running>,
    keys_of: &dyn Fn(&Running) -> Result<Vec<String>, Failure>,
    output: &Output,
) -> Done {
    let (mut all, mut texts, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let is_only = found.len() == 1;
    for one in &mut found {
        let configuration: Configuration =
            one.client.ask("GET", "/v1/config", None::<&()>).map_err(|error| unreachable(&error))?;
        let mut told = json!({
            "link": one.status.title, "pid": one.status.pid, "file": configuration.file,
        });
        let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
        let keys = match keys_of(one) {
            Ok(keys) => Some(keys),
            Err(Failure::Input(why)) if !is_only => {
                missing.push(why);
                None
            }
            Err(failure) => return Err(failure),
        };
        let asks_for_all = keys.as_ref().is_some_and(Vec::is_empty);
        // Of several each may have what another has not.
        let each: Vec<&[String]> = match &keys {
            Some(keys) if is_only || asks_for_all => vec![keys],
            Some(keys) => keys.chunks(1).collect(),
            None => Vec::new(),
        };
        for keys in each {
            match values(one, &configuration, keys) {
                Ok(values) => found.extend(values),
                Err(Failure::Input(why)) if !is_only => missing.push(why),
                Err(failure) => return Err(failure),
            }
        }
        let lines = found.iter().map(|(key, value)| format!("{key} = {value}"));
        let whys = missing.iter().map(|why| format!("# {}", why.replace('\n', "\n# ")));
        let text = if asks_for_all {
            configuration.toml.clone()
        } else {
            lines.chain(whys).collect::<Vec<_>>().join("\n")
        };
        if found.is_empty() && !missing.is_empty() {
            let whys = missing.join("; ");
            without.push(format!("{} (process {}): {whys}", one.status.title, one.status.pid));
        }
        told["values"] = json!(found);
        if !missing.is_empty() {
            told["error"] = json!(missing.join("; "));
        }
        texts.push(if is_only { text } else { format!("# {}\n{text}", one.status.title) });
        all.push(told);
    }
    if without.len() == found.len() {
        return Err(Failure::Input(without.join("\n")));
    }
    output.result(&json!({ "links": all }), || texts.join("\n"));
    Ok(ExitCode::SUCCESS)
}

/// The values of keys in force in a program, or of all.
fn values(
    one: &mut Running,
    configuration: &Configuration,
    keys: &[String],
) -> Result<BTreeMap<String, String>, Failure> {
    let of_plans =
        |key: &&String| key.starts_with(CUSTOMERS) || key.as_str() == &CUSTOMERS[..CUSTOMERS.len() - 1];
    let (plans, keys): (Vec<&String>, Vec<&String>) = keys.iter().partition(of_plans);
    let mut values =
        if plans.is_empty() || !keys.is_empty() { picked(configuration, &keys)? } else { BTreeMap::new() };
    for key in plans {
        let path = format!("/v1/plans?key={}", escaped(key));
        let found: PlanFound = one.client.ask("GET", &path, None::<&()>).map_err(|error| match error {
            client::Failure::Refused(..) => Failure::Input(error.to_string()),
            client::Failure::Unreachable(_) => unreachable(&error),
        })?;
        values.extend(found.values);
    }
    Ok(values)
}

/// The values of keys, and of all keys in tables that are named.
fn picked(configuration: &Configuration, keys: &[&String]) -> Result<BTreeMap<String, String>, Failure> {
    let values = &configuration.values;
    if keys.is_empty() {
        return Ok(values.clone());
    }
    let document = Document::parse("", &configuration.toml).ok();
    let mut picked = BTreeMap::new();
    for key in keys {
        // Elements of lists are known by their names, too.
        let place = document.as_ref().map_or_else(|| key.to_string(), |document| document.numbered(key));
        let own = |(name, value): (&String, &String)| {
            let rest = name.strip_prefix(place.as_str())?;
            (rest.is_empty() || rest.starts_with('.')).then(|| (format!("{key}{rest}"), value.clone()))
        };
        let found: Vec<(String, String)> = values.iter().filter_map(own).collect();
        if found.is_empty() {
            let is_policy = key.ends_with(".policy");
            if is_policy {
                let remedy = "Remedy: give it one in its file and start it again with --takeover";
                return Err(Failure::Input(format!("there is no `{key}` in force. {remedy}")));
            }
            // Tables are named as well as keys.
            let tables = values.keys().flat_map(|key| key.match_indices('.').map(|(at, _)| &key[..at]));
            let near = weir_config::nearest(key, values.keys().map(String::as_str).chain(tables));
            let near = near.map_or(String::new(), |near| format!(" like `{near}`"));
            return Err(Failure::Input(format!(
                "key `{key}` has no value in the configuration in force. Remedy: name a key{near}, or look at all with \
                 `weir ctl get`"
            )));
        }
        picked.extend(found);
    }
    Ok(picked)
}

fn policy(
    link: &[String],
    all: bool,
    direction: Option<String>,
    values: Vec<String>,
    dry_run: bool,
    output: &Output,
) -> Done {
    // The direction may be left out before values.
    let (direction, values) = match direction {
        Some(text) if text.contains('=') => (None, [vec![text], values].concat()),
        other => (other, values),
    };
    let table = move |one: &Running| -> Result<String, Failure> {
        // Several queues may share a policy.
        let policies = one.status.directions.iter().filter_map(|d| d.policy.as_ref());
        let keys: BTreeSet<&str> = policies.map(|policy| policy.key.as_str()).collect();
        let keys: Vec<&str> = keys.into_iter().collect();
        match (&direction, keys.as_slice()) {
            // That of all queues of `weir steer`.
            (Some(policy), _) if policy == "policy" => Ok(policy.clone()),
            // Links of a lab are known by their names.
            (Some(direction), _) => {
                let named = one.status.directions.iter().find(|d| d.name == *direction);
                let policy = named.and_then(|d| d.policy.as_ref());
                Ok(policy.map_or_else(|| format!("{direction}.policy"), |policy| policy.key.clone()))
            }
            (None, [only]) => Ok((*only).into()),
            (None, []) if one.status.verb == "upf" && one.status.directions.is_empty() => {
                Err(Failure::Input(format!(
                    "{}: no queue is there yet. Remedy: name the table of its file that has the policy, as in `weir ctl policy flow`",
                    one.status.title
                )))
            }
            (None, []) => Err(Failure::Input(format!(
                "{}: no direction has a policy. Remedy: give one a `policy` table in its file, and start it again",
                one.status.title
            ))),
            (None, several) => Err(Failure::Input(format!(
                "{}: several directions have a policy. Remedy: name one of {}",
                one.status.title,
                several.iter().map(|key| key.trim_end_matches(".policy")).collect::<Vec<_>>().join(", ")
            ))),
        }
    };
    if values.is_empty() {
        return get(running(link)?, &|one| Ok(vec![table(one)?]), output);
    }
    let values = assignments(&values)?;
    let asked = |one: &Running| {
        let table = table(one)?;
        let keys = values.iter().map(|(key, value)| (format!("{table}.{key}"), value.clone()));
        Ok(Asked::Set(keys.collect()))
    };
    change(chosen(link, all)?, &asked, dry_run, output)
}

fn pages(found: Vec<Running>, output: &Output) -> Done {
    let with: Vec<&Status> =
        found.iter().map(|one| &one.status).filter(|status| status.page.is_some()).collect();
    if with.is_empty() {
        return Err(Failure::Failed(
            "no link that runs has a page. Remedy: start one with `--page`, or set `run.page` in its file; over the control \
             socket the page is served all the same: `curl --unix-socket SOCKET http://localhost/`"
                .into(),
        ));
    }
    let file = Path::new(FOLDER).join(TOKEN_FILE);
    let token = std::fs::read_to_string(&file).map_err(|error| {
        Failure::Failed(format!("cannot read the token in {}: {error}. Remedy: run as root", file.display()))
    })?;
    let url = |status: &Status| {
        format!("http://{}/#token={}", status.page.as_deref().unwrap_or_default(), token.trim_end())
    };
    let all: Vec<Value> = with
        .iter()
        .map(|status| json!({ "title": status.title, "pid": status.pid, "url": url(status) }))
        .collect();
    output
        .result(&json!({ "links": all }), || with.iter().map(|one| url(one)).collect::<Vec<_>>().join("\n"));
    Ok(ExitCode::SUCCESS)
}

fn drain(found: Vec<Running>, output: &Output) -> Done {
    let mut results = Vec::new();
    for mut one in found {
        let result = one.client.ask("POST", "/v1/drain", None::<&()>);
        results.push(Told { title: one.status.title, pid: one.status.pid, result });
    }
    let is_done = results.iter().all(|told| told.result.is_ok());
    let all: Vec<Value> = results.iter().map(Told::json).collect();
    let text = |told: &Told| match &told.result {
        Ok(applied) => format!("{}: it ends; {}", told.title, applied.notes.join(", ")),
        Err(failure) => format!("{}: {failure}", told.title),
    };
    tell_each(&results, &json!({ "links": all }), &text, output);
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(all: &[&Status], output: &Output) {
    output.result(&json!({ "links": all }), || text(all));
}

/// Statuses as a table with a line for each direction, and what is wrong behind it.
fn text(all: &[&Status]) -> String {
    let number =
        |value: Option<f64>, digits: usize| value.map_or("-".into(), |value| format!("{value:.digits$}"));
    let row = |status: &Status, d: &DirectionStatus| {
        let policy = d.policy.as_ref();
        vec![
            format!("{} {}", status.title, d.name),
            d.aqm.clone(),
            number(d.rate_bps.map(|bps| bps / 1e6), 1),
            number(Some(d.delivered_bps / 1e6), 1),
            number(d.utilization.map(|share| share * 100.0), 1),
            number(policy.map(|policy| policy.utilization_low * 100.0), 1),
            number(d.delay_mean_ms, 2),
            number(d.setpoint_ms, 2),
            number(policy.map(|policy| policy.target_max_ms), 2),
            (d.packets.dropped_on_arrival + d.packets.dropped_at_head).to_string(),
            (d.packets.overflowed + d.packets.shed).to_string(),
            d.packets.marked.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> =
        all.iter().flat_map(|status| status.directions.iter().map(move |d| row(status, d))).collect();
    let header = [
        "link",
        "queue",
        "Mbit/s",
        "delivered",
        "used %",
        "policy %",
        "delay ms",
        "set point",
        "bound ms",
        "drops",
        "overflows",
        "marks",
    ];
    let mut text = table::aligned(&header, &rows);
    for status in all {
        if let Some(plane) = &status.user_plane {
            let (sessions, told) = (plane.sessions, plane.sessions_told);
            text.push_str(&format!("\n{}: {sessions} sessions, {} tunnels", status.title, plane.tunnels));
            if told < sessions {
                text.push_str(&format!("; queues of {told}"));
            }
        }
        status.directions.iter().for_each(|direction| text.push_str(&users(direction)));
        let problems = status.readiness().problems;
        text.push_str(&problems.iter().map(|why| format!("\n{}: {why}", status.title)).collect::<String>());
        let alarms = status.alarms.iter().filter(|one| one.is_raised && !problems.contains(&one.why));
        for one in alarms {
            let since_s = one.since_s.unwrap_or_default();
            text.push_str(&format!("\n{}: alarm for {since_s:.0} s: {}", status.title, one.text()));
        }
    }
    text
}

/// Columns of customers.
const USER_COLUMNS: [&str; 11] = [
    "customer",
    "Mbit/s",
    "delivered",
    "delay ms",
    "95 % ms",
    "longest ms",
    "set point",
    "discarded",
    "marks",
    "RTT ms",
    "outcome %",
];

fn user_row(user: &UserStatus) -> Vec<String> {
    vec![
        user.name.clone(),
        user.rate_bps.map_or("-".into(), |bps| format!("{:.1}", bps / 1e6)),
        format!("{:.1}", user.delivered_bps / 1e6),
        user.delay_mean_ms.map_or("-".into(), |ms| format!("{ms:.2}")),
        user.delay_p95_ms.map_or("-".into(), |ms| format!("{ms:.2}")),
        format!("{:.2}", user.delay_max_ms),
        user.setpoint_ms.map_or("-".into(), |ms| format!("{ms:.2}")),
        user.dropped_packets.to_string(),
        user.marked_packets.to_string(),
        user.rtt_ms.map_or("-".into(), |ms| format!("{ms:.1}")),
        user.outcome.map_or("-".into(), |score| format!("{:.0}", 100.0 * score)),
    ]
}

/// Customers of a direction, those with the highest rates.
fn users(direction: &DirectionStatus) -> String {
    let Some(users) = &direction.users else { return String::new() };
    let rows: Vec<Vec<String>> = users.users.iter().take(USERS_MAX).map(user_row).collect();
    let table =
        if rows.is_empty() { String::new() } else { format!("\n{}", table::aligned(&USER_COLUMNS, &rows)) };
    format!(
        "\n{}: {} customers with a plan, {:.1} Mbit/s; {} users have a queue, {:.1} Mbit/s to others{table}",
        direction.name,
        users.planned,
        users.delivered_bps / 1e6,
        users.with_queue,
        users.others_bps / 1e6
    )
}

/// A text as a part of a query (RFC 3986 section 2.1).
fn escaped(text: &str) -> String {
    text.bytes().map(|octet| format!("%{octet:02x}")).collect()
}

/// Customers that were asked for, of each program that has some.
fn users_found(mut found: Vec<Running>, query: &str, output: &Output) -> Done {
    let (mut all, mut texts) = (Vec::new(), Vec::new());
    for one in &mut found {
        let path = format!("/v1/users?{query}");
        let told: CustomersFound =
            one.client.ask("GET", &path, None::<&()>).map_err(|error| unreachable(&error))?;
        let row = |customer: &CustomerStatus| {
            let mut row = user_row(&customer.user);
            row.insert(1, customer.direction.clone());
            if !customer.has_queue {
                row[2..].fill("-".into());
            }
            row
        };
        let rows: Vec<Vec<String>> = told.customers.iter().map(row).collect();
        let mut header = USER_COLUMNS.to_vec();
        header.insert(1, "direction");
        texts.push(match told.matched {
            0 if one.status.directions.iter().all(|direction| direction.users.is_none()) => {
                format!(
                    "{}: it has no customers. Remedy: name a file of plans, `users.file`",
                    one.status.title
                )
            }
            0 => format!(
                "{}: no such customer; those with a plan are in the file that `users.file` names",
                one.status.title
            ),
            matched => format!(
                "{}: {matched} found, {} shown\n{}",
                one.status.title,
                rows.len(),
                table::aligned(&header, &rows)
            ),
        });
        all.push(json!({
            "link": one.status.title, "pid": one.status.pid, "matched": told.matched, "customers": told.customers,
        }));
    }
    output.result(&json!({ "links": all }), || texts.join("\n"));
    Ok(ExitCode::SUCCESS)
}

/// Customers that are shown of each direction; `--json` has more.
const USERS_MAX: usize = 10;

fn top(link: &[String], interval: f64, count: Option<u64>, output: &Output) -> Done {
    let stop = interrupted();
    let is_screen = output.colour();
    let mut looks = 0;
    loop {
        let found = running(link)?;
        let all: Vec<&Status> = found.iter().map(|one| &one.status).collect();
        if output.json {
            // One object in each line, as long as it goes.
            output.print(json!({ "links": all }));
        } else {
            // Home, the text, and nothing below it.
            let (home, rest) = if is_screen { ("\x1b[H\x1b[2J", "") } else { ("", "\n") };
            output.print(format!("{home}{}{rest}", text(&all).trim_end()));
        }
        looks += 1;
        if count.is_some_and(|count| looks >= count) {
            return Ok(ExitCode::SUCCESS);
        }
        let until = std::time::Instant::now() + Duration::from_secs_f64(interval);
        while std::time::Instant::now() < until {
            if stop.load(Ordering::Relaxed) {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_by_the_path_by_which_it_is_set() {
        let toml = "[[links]]\nname = \"radio\"\nrate = \"5Mbit/s\"\n[links.policy]\ntarget_max = \"8ms\"\n";
        let values = weir_config::values(toml);
        let configuration = Configuration { file: "f.toml".into(), toml: toml.into(), values };
        let told = |key: &str| {
            let told = picked(&configuration, &[&key.to_string()]).map_err(drop).unwrap();
            told.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(told("links.0.rate"), ["links.0.rate=\"5Mbit/s\""]);
        assert_eq!(told("links.radio.rate"), ["links.radio.rate=\"5Mbit/s\""]);
        assert_eq!(told("links.radio.policy"), ["links.radio.policy.target_max=\"8ms\""]);
        assert_eq!(told("links.radio").len(), 3);
        assert!(picked(&configuration, &[&"links.wire.rate".to_string()]).is_err());
    }

    #[test]
    fn keys_have_a_value_each_and_names_of_customers_may_have_any_character() {
        let told = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
            assignments(&texts).map_err(|failure| failure.text().to_string())
        };
        let one = |key: &str, value: &str| Ok(BTreeMap::from([(key.to_string(), value.to_string())]));
        assert_eq!(told(&["a_to_b.rate = 5Mbit/s"]), one("a_to_b.rate", "5Mbit/s"));
        assert_eq!(told(&["a_to_b.aqm={ name = \"pie\" }"]), one("a_to_b.aqm", "{ name = \"pie\" }"));
        assert_eq!(told(&["customers.a=b.down=5Mbit/s"]), one("customers.a=b.down", "5Mbit/s"));
        for (wrong, why) in [(&["a_to_b.rate"][..], "no `=`"), (&["x.rate=1", "x.rate=2"], "twice")] {
            assert!(told(wrong).unwrap_err().contains(why), "{wrong:?}");
        }
    }
}
