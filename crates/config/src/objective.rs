//! Objectives: named expressions over the columns of results.

use crate::errors::{Wrong, quoted};
use crate::schema::{Scalar, wrong_type};
use crate::tree::{Node, quote};

/// Deepest nesting of brackets and signs.
const MAX_DEPTH: u32 = 32;
/// Most bytes of an expression: what is made of it is gone through by recursion.
const TEXT_MAX: usize = 4096;

/// A named expression over the columns of a run, such as `power = goodput_bps / delay_p95_ms`.
#[derive(Clone, PartialEq, PartialOrd, Debug)]
pub struct Objective {
    /// The name of its column.
    pub name: String,
    text: String,
    expression: Expression,
}

#[derive(Clone, PartialEq, PartialOrd, Debug)]
enum Expression {
    Number(f64),
    Column(String),
    Negative(Box<Expression>),
    Of(Operation, Box<Expression>, Box<Expression>),
    Log(Box<Expression>),
}

#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Least,
    Greatest,
}

impl Expression {
    /// Nothing where a column has no value.
    fn value(&self, of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        Some(match self {
            Expression::Number(number) => *number,
            Expression::Column(name) => of(name)?,
            Expression::Negative(inner) => -inner.value(of)?,
            Expression::Log(inner) => inner.value(of)?.ln(),
            Expression::Of(operation, left, right) => {
                let (left, right) = (left.value(of)?, right.value(of)?);
                match operation {
                    Operation::Add => left + right,
                    Operation::Subtract => left - right,
                    Operation::Multiply => left * right,
                    Operation::Divide => left / right,
                    Operation::Least => left.min(right),
                    Operation::Greatest => left.max(right),
                }
            }
        })
    }

    fn columns<'a>(&'a self, into: &mut Vec<&'a str>) {
        match self {
            Expression::Number(_) => {}
            Expression::Column(name) => into.push(name),
            Expression::Negative(inner) | Expression::Log(inner) => inner.columns(into),
            Expression::Of(_, left, right) => {
                left.columns(into);
                right.columns(into);
            }
        }
    }
}

impl Objective {
    /// Its value from those of the columns; nothing where one of them has none, or the result is no number.
    pub fn value(&self, of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        self.expression.value(of).filter(|value| value.is_finite())
    }

    /// The columns it is made of.
    pub fn columns(&self) -> Vec<&str> {
        let mut columns = Vec::new();
        self.expression.columns(&mut columns);
        columns
    }

    fn parse(text: &str) -> Result<Objective, String> {
        let no_name = || "has no name before `=`".to_string();
        let (name, expression) = text.split_once('=').ok_or_else(no_name)?;
        let name = name.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.len() > 60 || !name.chars().all(is_name) {
            return Err(format!(
                "has the name {}, which is not made of letters, digits and `_`",
                quoted(name)
            ));
        }
        if expression.len() > TEXT_MAX {
            return Err(format!("has more than {TEXT_MAX} bytes"));
        }
        let mut reader = Reader { rest: expression, depth: 0 };
        let expression = reader.sum()?;
        match reader.rest.trim_start() {
            "" => Ok(Objective { name: name.to_string(), text: text.trim().to_string(), expression }),
            rest => Err(format!("has {} where an operator or the end is due", quoted(rest))),
        }
    }
}

/// Reads an expression from left to right.
struct Reader<'a> {
    rest: &'a str,
    depth: u32,
}

impl Reader<'_> {
    fn takes(&mut self, sign: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        rest.inspect(|rest| self.rest = rest).is_some()
    }

    fn expects(&mut self, sign: char) -> Result<(), String> {
        if self.takes(sign) {
            Ok(())
        } else {
            Err(format!("lacks `{sign}` before {}", quoted(self.rest.trim())))
        }
    }

    fn of(left: Expression, operation: Operation, right: Expression) -> Expression {
        Expression::Of(operation, Box::new(left), Box::new(right))
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        loop {
            let operation = match () {
                () if self.takes('+') => Operation::Add,
                () if self.takes('-') => Operation::Subtract,
                () => return Ok(left),
            };
            left = Reader::of(left, operation, self.product()?);
        }
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.factor()?;
        loop {
            let operation = match () {
                () if self.takes('*') => Operation::Multiply,
                () if self.takes('/') => Operation::Divide,
                () => return Ok(left),
            };
            left = Reader::of(left, operation, self.factor()?);
        }
    }

    fn factor(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("is nested deeper than {MAX_DEPTH}"));
        }
        let factor = match () {
            () if self.takes('-') => Expression::Negative(Box::new(self.factor()?)),
            () if self.takes('(') => {
                let inner = self.sum()?;
                self.expects(')')?;
                inner
            }
            () => self.word()?,
        };
        self.depth -= 1;
        Ok(factor)
    }

    /// A number, a column or a function. Names of links may hold `-`: such a column stands between
    /// apostrophes.
    fn word(&mut self) -> Result<Expression, String> {
        if self.takes('\'') {
            let (name, rest) = self.rest.split_once('\'').ok_or("lacks the second of two apostrophes")?;
            self.rest = rest;
            return Ok(Expression::Column(name.to_string()));
        }
        let text = self.rest.trim_start();
        let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let mut end = 0;
        for (at, c) in text.char_indices() {
            // The sign of an exponent belongs to its number.
            let exponent = is_number && at > 0 && "+-".contains(c) && text[..at].ends_with(['e', 'E']);
            if !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || exponent) {
                break;
            }
            end = at + c.len_utf8();
        }
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        match word {
            "" if text.is_empty() => Err("ends where a number or a column is due".to_string()),
            "" => Err(format!("has {} where a number or a column is due", quoted(text))),
            _ if is_number => {
                let number = word.parse().map_err(|_| format!("has {}, which is no number", quoted(word)))?;
                Ok(Expression::Number(number))
            }
            "min" | "max" | "log" if self.takes('(') => {
                let first = self.sum()?;
                let function = match word {
                    "log" => Expression::Log(Box::new(first)),
                    _ => {
                        self.expects(',')?;
                        let least = word == "min";
                        let operation = if least { Operation::Least } else { Operation::Greatest };
                        Reader::of(first, operation, self.sum()?)
                    }
                };
                self.expects(')')?;
                Ok(function)
            }
            column => Ok(Expression::Column(column.to_string())),
        }
    }
}

impl Scalar for Objective {
    fn kind() -> String {
        "a named expression such as \"power = goodput_bps / delay_p95_ms\"".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        let Node::Text(text) = node else { return Err(wrong_type::<Self>(node)) };
        Objective::parse(text).map_err(|problem| {
            let remedy = format!(
                "write {}, of columns of a sweep, numbers, + - * / ( ), min(a, b), max(a, b) and log(a)",
                Self::kind()
            );
            Wrong::new(problem, remedy)
        })
    }
    fn show(&self) -> String {
        self.text.clone()
    }
    fn literal(&self) -> String {
        quote(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        let columns = |name: &str| match name {
            "utilization" => Some(0.9),
            "delay_p95_ms" => Some(20.0),
            "flows.1.x" => Some(3.0),
            "to-back.x" => Some(7.0),
            _ => None,
        };
        Objective::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).value(&columns)
    }

    #[test]
    fn expressions_have_the_usual_rules() {
        assert_eq!(value("a = 1 + 2 * 3 - 4 / 2"), Some(5.0));
        assert_eq!(value("a = -(1 - 3) * 2e-1 + 1E+1"), Some(10.4));
        assert_eq!(value("a = 8 / 4 / 2"), Some(1.0), "from left to right");
        assert_eq!(value("a=utilization-0.01*delay_p95_ms"), Some(0.9 - 0.2));
        assert_eq!(value("a = max(flows.1.x, 'to-back.x') - min(2, 1)"), Some(6.0));
        assert_eq!(value("a = log(utilization / delay_p95_ms)"), Some((0.9f64 / 20.0).ln()));
        assert_eq!(value("a = missing + 1"), None, "a column without a value");
        assert_eq!(value("a = 1 / 0"), None);
        assert_eq!(Objective::parse("a = b + min(c, 'd-e')").unwrap().columns(), ["b", "c", "d-e"]);
    }

    #[test]
    fn what_is_no_expression_is_told() {
        let told = |text: &str| Objective::parse(text).unwrap_err();
        assert_eq!(told("utilization"), "has no name before `=`");
        assert_eq!(told("a b = 1"), "has the name \"a b\", which is not made of letters, digits and `_`");
        assert_eq!(told("a = 1 +"), "ends where a number or a column is due");
        assert_eq!(told("a = (1"), "lacks `)` before \"\"");
        assert_eq!(told("a = 1 2"), "has \"2\" where an operator or the end is due");
        assert_eq!(told("a = 1.2.3"), "has \"1.2.3\", which is no number");
        assert_eq!(told("a = 'b"), "lacks the second of two apostrophes");
        assert_eq!(told("a = é"), "has \"é\" where a number or a column is due");
        assert_eq!(told(&format!("a = {}", "(".repeat(100))), "is nested deeper than 32");
        assert_eq!(told(&format!("a = {}1", "-".repeat(100))), "is nested deeper than 32");
        assert_eq!(told(&format!("a = 1{}", "+1".repeat(200_000))), "has more than 4096 bytes");
    }
}
