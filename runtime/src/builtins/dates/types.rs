//! The three types: a civil day, an instant with its zone, an exact span of time.

use super::zone;
use crate::vm::ops::Arith;
use crate::vm::other::Foreign;
use crate::vm::value::Value;
use jiff::civil;
use jiff::{Timestamp, Zoned};
use std::any::Any;
use std::cmp::Ordering;

pub(super) const SECOND: i128 = 1_000_000_000;
pub(super) const DAY: i128 = 86_400 * SECOND;
/// Longest duration: far beyond the calendar, and small enough that no sum overflows.
const LONGEST: i128 = 100_000_000 * 366 * DAY;

/// A civil day.
pub(super) struct Day(pub(super) civil::Date);
/// An instant and the zone that shows it.
pub(super) struct Moment(pub(super) Zoned);
/// Nanoseconds.
pub(super) struct Span(i128);

impl Span {
    pub(super) fn new(nanos: i128) -> Result<Self, String> {
        if nanos.abs() > LONGEST { Err("the duration is too long".to_owned()) } else { Ok(Self(nanos)) }
    }

    pub(super) fn nanos(&self) -> i128 {
        self.0
    }
}

pub(super) fn span(nanos: i128) -> Result<Value, String> {
    Span::new(nanos).map(Value::foreign)
}

pub(super) fn day(date: civil::Date) -> Value {
    Value::foreign(Day(date))
}

pub(super) fn moment(at: Zoned) -> Value {
    Value::foreign(Moment(at))
}

/// A nanosecond count of the day from 1970.
pub(super) fn day_number(date: civil::Date) -> i128 {
    let first = civil::Date::constant(1970, 1, 1);
    i128::from((date - first).get_days())
}

pub(super) fn from_day_number(n: i128) -> Result<civil::Date, String> {
    let out_of_range = || "the date is outside the years -9999 to 9999".to_owned();
    let n = i32::try_from(n).map_err(|_| out_of_range())?;
    let span = jiff::Span::new().try_days(n).map_err(|_| out_of_range())?;
    civil::Date::constant(1970, 1, 1).checked_add(span).map_err(|_| out_of_range())
}

/// An instant moved by elapsed time.
pub(super) fn moved(at: &Zoned, nanos: i128) -> Result<Zoned, String> {
    let to = at.timestamp().as_nanosecond() + nanos;
    let to = Timestamp::from_nanosecond(to)
        .map_err(|_| "the time is outside the years -9999 to 9999".to_owned())?;
    Ok(to.to_zoned(at.time_zone().clone()))
}

/// A float as exact nanoseconds, nearest.
pub(super) fn nanos_of(seconds: f64) -> Result<i128, String> {
    if !seconds.is_finite() || seconds.abs() > 1e19 {
        return Err("the number of seconds is not finite or too large".to_owned());
    }
    // Whole seconds stay exact; only the fraction is rounded.
    Ok(seconds.trunc() as i128 * SECOND + (seconds.fract() * 1e9).round() as i128)
}

fn unsupported(a: &str, op: Arith, b: &str, swapped: bool) -> Option<Result<Value, String>> {
    let (a, b) = if swapped { (b, a) } else { (a, b) };
    Some(Err(format!("Unsupported operation: {a} {} {b}", op.text())))
}

fn whole_days(nanos: i128) -> Result<i128, String> {
    if nanos % DAY == 0 {
        Ok(nanos / DAY)
    } else {
        Err("a date moves by whole days only — use a datetime for hours".to_owned())
    }
}

impl Foreign for Day {
    fn type_name(&self) -> &'static str {
        "date"
    }
    fn render(&self) -> String {
        zone::date_text(self.0)
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|o| o.0 == self.0)
    }
    fn compare(&self, other: &dyn Foreign) -> Option<Ordering> {
        other.any().downcast_ref::<Self>().map(|o| self.0.cmp(&o.0))
    }
    fn arith(&self, op: Arith, other: &Value, swapped: bool) -> Option<Result<Value, String>> {
        if let Some(s) = other.as_foreign::<Span>() {
            let sign = match (op, swapped) {
                (Arith::Add, _) => 1,
                (Arith::Sub, false) => -1,
                _ => return unsupported("date", op, "duration", swapped),
            };
            return Some(
                whole_days(s.0).and_then(|n| from_day_number(day_number(self.0) + sign * n)).map(day),
            );
        }
        let o = other.as_foreign::<Self>()?;
        match op {
            Arith::Sub => Some(span((day_number(self.0) - day_number(o.0)) * DAY)),
            _ => None,
        }
    }
    fn field(&self, name: &str) -> Option<Value> {
        day_field(self.0, name)
    }
    fn data(&self) -> Option<Value> {
        Some(Value::string(self.render()))
    }
    fn any(&self) -> &dyn Any {
        self
    }
}

fn day_field(date: civil::Date, name: &str) -> Option<Value> {
    Some(Value::Int(match name {
        "year" => date.year().into(),
        "month" => date.month().into(),
        "day" => date.day().into(),
        "weekday" => date.weekday().to_monday_one_offset().into(),
        "day_of_year" => date.day_of_year().into(),
        _ => return None,
    }))
}

impl Foreign for Moment {
    fn type_name(&self) -> &'static str {
        "datetime"
    }
    fn render(&self) -> String {
        zone::text(&self.0)
    }
    fn bytes(&self) -> usize {
        64
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|o| o.0.timestamp() == self.0.timestamp())
    }
    fn compare(&self, other: &dyn Foreign) -> Option<Ordering> {
        other.any().downcast_ref::<Self>().map(|o| self.0.timestamp().cmp(&o.0.timestamp()))
    }
    fn arith(&self, op: Arith, other: &Value, swapped: bool) -> Option<Result<Value, String>> {
        if let Some(s) = other.as_foreign::<Span>() {
            let sign = match (op, swapped) {
                (Arith::Add, _) => 1,
                (Arith::Sub, false) => -1,
                _ => return unsupported("datetime", op, "duration", swapped),
            };
            return Some(moved(&self.0, sign * s.0).map(moment));
        }
        let o = other.as_foreign::<Self>()?;
        match op {
            Arith::Sub => Some(span(self.0.timestamp().as_nanosecond() - o.0.timestamp().as_nanosecond())),
            _ => None,
        }
    }
    fn field(&self, name: &str) -> Option<Value> {
        let time = self.0.time();
        Some(match name {
            "hour" => Value::Int(time.hour().into()),
            "minute" => Value::Int(time.minute().into()),
            "second" => Value::Int(time.second().into()),
            "nanosecond" => Value::Int(time.subsec_nanosecond().into()),
            "offset" => Value::Int(self.0.offset().seconds().into()),
            "zone" => Value::string(zone::name(self.0.time_zone())),
            "date" => day(self.0.date()),
            "timestamp" => Value::Float(seconds(self.0.timestamp().as_nanosecond())),
            _ => return day_field(self.0.date(), name),
        })
    }
    fn data(&self) -> Option<Value> {
        Some(Value::string(self.render()))
    }
    fn any(&self) -> &dyn Any {
        self
    }
}

/// Nanoseconds as the nearest number of seconds.
pub(super) fn seconds(nanos: i128) -> f64 {
    ratio(nanos, SECOND)
}

/// The nearest double of a quotient of nanosecond counts: whole and rest apart, so that neither loses digits.
pub(super) fn ratio(a: i128, b: i128) -> f64 {
    const EXACT: i128 = 1 << 53;
    if a.abs() <= EXACT && b.abs() <= EXACT {
        return a as f64 / b as f64;
    }
    (a / b) as f64 + (a % b) as f64 / b as f64
}

impl Foreign for Span {
    fn type_name(&self) -> &'static str {
        "duration"
    }
    fn render(&self) -> String {
        let nanos = self.0.unsigned_abs();
        if nanos == 0 {
            return "PT0S".to_owned();
        }
        let total = nanos / SECOND.unsigned_abs();
        let (hours, minutes, secs) = (total / 3600, total / 60 % 60, total % 60);
        let mut out = String::from(if self.0 < 0 { "-PT" } else { "PT" });
        if hours > 0 {
            out.push_str(&format!("{hours}H"));
        }
        if minutes > 0 {
            out.push_str(&format!("{minutes}M"));
        }
        let rest = (nanos % SECOND.unsigned_abs()) as u32;
        if secs > 0 || rest > 0 {
            out.push_str(&secs.to_string());
            zone::fraction(rest, &mut out);
            out.push('S');
        }
        out
    }
    fn truthy(&self) -> bool {
        self.0 != 0
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|o| o.0 == self.0)
    }
    fn compare(&self, other: &dyn Foreign) -> Option<Ordering> {
        other.any().downcast_ref::<Self>().map(|o| self.0.cmp(&o.0))
    }
    fn arith(&self, op: Arith, other: &Value, swapped: bool) -> Option<Result<Value, String>> {
        if let Some(o) = other.as_foreign::<Self>() {
            let zero = o.0 == 0;
            return Some(match op {
                Arith::Add => span(self.0 + o.0),
                Arith::Sub => span(self.0 - o.0),
                Arith::Div | Arith::FloorDiv if zero => Err("Division by zero".to_owned()),
                Arith::Rem if zero => Err("Modulo by zero".to_owned()),
                Arith::Div => Ok(Value::Float(ratio(self.0, o.0))),
                Arith::FloorDiv => Ok(Value::big(num_integer::Integer::div_floor(&self.0, &o.0).into())),
                Arith::Rem => span(num_integer::Integer::mod_floor(&self.0, &o.0)),
                Arith::Mul | Arith::Pow => return unsupported("duration", op, "duration", false),
            });
        }
        let too_long = || "the duration is too long".to_owned();
        match (op, other, swapped) {
            (Arith::Mul, Value::Int(n), _) => {
                Some(self.0.checked_mul(i128::from(*n)).ok_or_else(too_long).and_then(span))
            }
            (Arith::Div, Value::Int(0), false) => Some(Err("Division by zero".to_owned())),
            (Arith::Div, Value::Int(n), false) => Some(span(rounded(self.0, i128::from(*n)))),
            (Arith::Div, Value::Float(f), false) if *f == 0.0 => Some(Err("Division by zero".to_owned())),
            (Arith::Mul, Value::Float(f), _) => Some(scaled(self.0 as f64 * f)),
            (Arith::Div, Value::Float(f), false) => Some(scaled(self.0 as f64 / f)),
            _ => None,
        }
    }
    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::Float(match name {
            "total_seconds" => seconds(self.0),
            _ => ratio(self.0, super::unit(name)?),
        }))
    }
    fn data(&self) -> Option<Value> {
        Some(Value::string(self.render()))
    }
    fn any(&self) -> &dyn Any {
        self
    }
}

/// Half to even.
fn rounded(a: i128, b: i128) -> i128 {
    let (q, r) = (a.div_euclid(b), a.rem_euclid(b));
    let twice = r * 2;
    let half = b.abs();
    let up = twice > half || (twice == half && q % 2 != 0);
    if up { q + b.signum() } else { q }
}

fn scaled(nanos: f64) -> Result<Value, String> {
    if !nanos.is_finite() || nanos.abs() > LONGEST as f64 {
        return Err("the duration is too long".to_owned());
    }
    span(nanos.round_ties_even() as i128)
}
