//! The elements of a message or a group, taken out one by one. What nobody took is refused at the end, so
//! that nothing is accepted in silence. Elements that are not known here, of vendors or of later releases,
//! are passed over (TS 29.244 section 7.6.1).

use super::cause::{Cause, Refused};
use crate::message::{Element, Fault, Value, ie};

/// Elements of which some were taken.
pub struct IeReader<'a> {
    elements: &'a [Element],
    taken: Vec<bool>,
}

impl<'a> IeReader<'a> {
    /// All of them.
    pub fn new(elements: &'a [Element]) -> IeReader<'a> {
        IeReader { elements, taken: vec![false; elements.len()] }
    }

    /// Takes the first of a type.
    pub fn take(&mut self, id: u16) -> Result<Option<&'a Value>, Refused> {
        Ok(self.take_from(0, id)?.map(|(_, value)| value))
    }

    /// Takes the first of a type from a place on; its place with it.
    fn take_from(&mut self, from: usize, id: u16) -> Result<Option<(usize, &'a Value)>, Refused> {
        let at = (from..self.elements.len()).find(|at| !self.taken[*at] && self.elements[*at].id == id);
        let Some(at) = at else { return Ok(None) };
        self.taken[at] = true;
        match &self.elements[at].value {
            Value::Incorrect(fault) => {
                Err(Refused::element(cause_of(*fault), id, format!("{} {}", ie::shown(id), what_of(*fault))))
            }
            value => Ok(Some((at, value))),
        }
    }

    /// Takes the one of a type that must be there.
    pub fn need(&mut self, id: u16) -> Result<&'a Value, Refused> {
        let missing =
            || Refused::element(Cause::MandatoryMissing, id, format!("{} is missing", ie::shown(id)));
        self.take(id)?.ok_or_else(missing)
    }

    /// Takes all of a type, in one pass: a message may hold thousands of empty elements.
    pub fn all(&mut self, id: u16) -> Result<Vec<&'a Value>, Refused> {
        let (mut values, mut from) = (Vec::new(), 0);
        while let Some((at, value)) = self.take_from(from, id)? {
            values.push(value);
            from = at + 1;
        }
        Ok(values)
    }

    /// Takes a number.
    pub fn number(&mut self, id: u16) -> Result<Option<u64>, Refused> {
        self.take(id)?.map(|value| number(id, value)).transpose()
    }

    /// Takes a number that must be there.
    pub fn need_number(&mut self, id: u16) -> Result<u64, Refused> {
        let value = self.need(id)?;
        number(id, value)
    }

    /// Takes all numbers of a type.
    pub fn numbers(&mut self, id: u16) -> Result<Vec<u64>, Refused> {
        self.all(id)?.into_iter().map(|value| number(id, value)).collect()
    }

    /// Takes a group.
    pub fn group(&mut self, id: u16) -> Result<Option<IeReader<'a>>, Refused> {
        self.take(id)?.map(|value| group(id, value)).transpose()
    }

    /// Takes a group that must be there.
    pub fn need_group(&mut self, id: u16) -> Result<IeReader<'a>, Refused> {
        let value = self.need(id)?;
        group(id, value)
    }

    /// Takes all groups of a type.
    pub fn groups(&mut self, id: u16) -> Result<Vec<IeReader<'a>>, Refused> {
        self.all(id)?.into_iter().map(|value| group(id, value)).collect()
    }

    /// Takes what informs and asks for nothing, as often as it is there, if it can be read.
    pub fn inform(&mut self, ids: &[u16]) -> Result<(), Refused> {
        ids.iter().try_for_each(|id| self.all(*id).map(drop))
    }

    /// Refuses what is known and nobody took.
    pub fn finish(self) -> Result<(), Refused> {
        let is_left = |(element, taken): &(&Element, &bool)| !**taken && ie::is_known(element.id);
        let left = self.elements.iter().zip(&self.taken).find(is_left).map(|(element, _)| element);
        left.map_or(Ok(()), |element| {
            let why = format!("{} is not supported here, or not so often", ie::shown(element.id));
            Err(Refused::element(Cause::NotSupported, element.id, why))
        })
    }
}

fn cause_of(fault: Fault) -> Cause {
    match fault {
        Fault::Length => Cause::InvalidLength,
        Fault::Content => Cause::MandatoryIncorrect,
        Fault::Unsupported => Cause::NotSupported,
    }
}

fn what_of(fault: Fault) -> &'static str {
    match fault {
        Fault::Length => "is too short or too long",
        Fault::Content => "says what is not allowed",
        Fault::Unsupported => "asks for what is not done here",
    }
}

/// An element that does not say what such an element says.
pub fn incorrect(id: u16) -> Refused {
    Refused::element(Cause::MandatoryIncorrect, id, format!("{} is incorrect", ie::shown(id)))
}

fn number(id: u16, value: &Value) -> Result<u64, Refused> {
    match value {
        Value::Number(number) => Ok(*number),
        _ => Err(incorrect(id)),
    }
}

fn group<'a>(id: u16, value: &'a Value) -> Result<IeReader<'a>, Refused> {
    match value {
        Value::Group(elements) => Ok(IeReader::new(elements)),
        _ => Err(incorrect(id)),
    }
}
