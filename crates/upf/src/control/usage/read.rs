//! Elements of a request to usage reporting rules.

use super::super::cause::{Cause, Refused};
use super::super::ie_reader::{IeReader, incorrect};
use super::{Limits, Urr, wants};
use crate::message::{Value, ie};
use crate::rules::Amounts;
use weir_units::Duration;

/// Kind of a rule that failed.
const URR: u8 = 3;
/// Measurement Method (TS 29.244 section 8.2.40).
const DURATION: u64 = 1;
const VOLUME: u64 = 2;
/// Measurement Information (section 8.2.68): time counts at once; packets are told.
const IMMEDIATE: u64 = 1 << 3;
const PACKETS: u64 = 1 << 4;

fn bad(id: u16, why: impl Into<String>) -> Refused {
    Refused::element(Cause::RuleFailure, id, why)
}

/// A new usage reporting rule.
pub fn create_urr(mut bag: IeReader) -> Result<Urr, Refused> {
    let id = bag.need_number(ie::URR_ID)? as u32;
    let read = move || -> Result<Urr, Refused> {
        let mut urr = Urr { id, ..Urr::default() };
        method(&mut urr, bag.need_number(ie::MEASUREMENT_METHOD)?)?;
        triggers(&mut urr, bag.need_number(ie::REPORTING_TRIGGERS)?)?;
        told(&mut bag, &mut urr)?;
        bag.finish()?;
        whole(urr)
    };
    read().map_err(|refused| refused.of_rule(URR, id))
}

/// What changes of a usage reporting rule. Gives its number, and the quotas that are new.
pub fn update_urr(mut bag: IeReader, find: impl FnOnce(u32) -> Option<Urr>) -> Result<(Urr, u64), Refused> {
    let id = bag.need_number(ie::URR_ID)? as u32;
    let read = move || -> Result<(Urr, u64), Refused> {
        let absent = || Refused::new(Cause::RuleFailure, "there is no such URR");
        let mut urr = find(id).ok_or_else(absent)?;
        if let Some(flags) = bag.number(ie::MEASUREMENT_METHOD)? {
            method(&mut urr, flags)?;
        }
        if let Some(flags) = bag.number(ie::REPORTING_TRIGGERS)? {
            triggers(&mut urr, flags)?;
        }
        let fresh = told(&mut bag, &mut urr)?;
        bag.finish()?;
        Ok((whole(urr)?, fresh))
    };
    read().map_err(|refused| refused.of_rule(URR, id))
}

/// The rule that is asked for its usage.
pub fn query_urr(mut bag: IeReader) -> Result<u32, Refused> {
    let id = bag.need_number(ie::URR_ID)? as u32;
    bag.finish().map_err(|refused| refused.of_rule(URR, id))?;
    Ok(id)
}

fn method(urr: &mut Urr, flags: u64) -> Result<(), Refused> {
    if flags & !(DURATION | VOLUME) != 0 {
        return Err(bad(ie::MEASUREMENT_METHOD, "events are not measured"));
    }
    if flags == 0 {
        return Err(incorrect(ie::MEASUREMENT_METHOD));
    }
    (urr.duration, urr.volume) = (flags & DURATION != 0, flags & VOLUME != 0);
    Ok(())
}

fn triggers(urr: &mut Urr, flags: u64) -> Result<(), Refused> {
    if flags & !wants::KNOWN != 0 {
        let why = format!("the triggers {:#x} are not done", flags & !wants::KNOWN);
        return Err(bad(ie::REPORTING_TRIGGERS, why));
    }
    urr.triggers = flags;
    Ok(())
}

/// What a new rule and a changed one say alike. Gives the quotas that are new.
fn told(bag: &mut IeReader, urr: &mut Urr) -> Result<u64, Refused> {
    if let Some(flags) = bag.number(ie::MEASUREMENT_INFORMATION)? {
        if flags & !(IMMEDIATE | PACKETS) != 0 {
            let why = "usage before rates, inactive and reduced measurement are not done";
            return Err(bad(ie::MEASUREMENT_INFORMATION, why));
        }
        (urr.immediate, urr.packets) = (flags & IMMEDIATE != 0, flags & PACKETS != 0);
    }
    if let Some(seconds) = bag.number(ie::MEASUREMENT_PERIOD)? {
        urr.period = Some(seconds_of(ie::MEASUREMENT_PERIOD, seconds)?);
    }
    limits(bag, &mut urr.threshold, [ie::VOLUME_THRESHOLD, ie::TIME_THRESHOLD])?;
    // One that is reached by nothing would be reported without end.
    let Amounts { total, up, down } = urr.threshold.volume;
    if [total, up, down].contains(&Some(0)) {
        return Err(incorrect(ie::VOLUME_THRESHOLD));
    }
    if urr.threshold.time == Some(Duration::ZERO) {
        return Err(incorrect(ie::TIME_THRESHOLD));
    }
    let given = limits(bag, &mut urr.quota, [ie::VOLUME_QUOTA, ie::TIME_QUOTA])?;
    let [volume, time] = [wants::VOLUME_QUOTA, wants::TIME_QUOTA];
    Ok(if given[0] { volume } else { 0 } | if given[1] { time } else { 0 })
}

/// Nothing happens every no seconds.
fn seconds_of(id: u16, seconds: u64) -> Result<Duration, Refused> {
    if seconds == 0 { Err(incorrect(id)) } else { Ok(Duration::from_secs(seconds)) }
}

/// Reads limits of volume and time, as far as they are there; whether they were.
fn limits(bag: &mut IeReader, limits: &mut Limits, [volume, time]: [u16; 2]) -> Result<[bool; 2], Refused> {
    let read = bag.take(volume)?.map(|value| amounts(volume, value)).transpose()?;
    let seconds = bag.number(time)?;
    limits.volume = read.unwrap_or(limits.volume);
    limits.time = seconds.map(Duration::from_secs).or(limits.time);
    Ok([read.is_some(), seconds.is_some()])
}

fn amounts(id: u16, value: &Value) -> Result<Amounts, Refused> {
    match value {
        Value::Volume(volume) if !volume.packets.is_empty() => {
            Err(bad(id, "packets are told and have no limit"))
        }
        Value::Volume(volume) if !volume.bytes.is_empty() => Ok(volume.bytes),
        _ => Err(incorrect(id)),
    }
}

/// What a trigger or a limit needs must be there.
fn whole(urr: Urr) -> Result<Urr, Refused> {
    let needs = [
        (wants::PERIODIC, urr.period.is_some(), ie::MEASUREMENT_PERIOD),
        (wants::VOLUME_THRESHOLD, !urr.threshold.volume.is_empty(), ie::VOLUME_THRESHOLD),
        (wants::TIME_THRESHOLD, urr.threshold.time.is_some(), ie::TIME_THRESHOLD),
    ];
    for (trigger, is_there, id) in needs {
        if urr.triggers & trigger != 0 && !is_there {
            let why = format!("a trigger without the element {id} that it needs");
            return Err(Refused::element(Cause::ConditionalMissing, id, why));
        }
    }
    let by_volume = [(&urr.threshold, ie::VOLUME_THRESHOLD), (&urr.quota, ie::VOLUME_QUOTA)];
    for (limits, id) in by_volume {
        if !limits.volume.is_empty() && !urr.volume {
            return Err(bad(id, "bytes are limited and not measured"));
        }
    }
    let by_time = [(&urr.threshold, ie::TIME_THRESHOLD), (&urr.quota, ie::TIME_QUOTA)];
    for (limits, id) in by_time {
        if limits.time.is_some() && !urr.duration {
            return Err(bad(id, "time is limited and not measured"));
        }
    }
    Ok(urr)
}
