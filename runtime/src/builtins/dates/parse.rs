//! Text → dates, instants and durations, and the strftime forms.

use super::types::{DAY, Day, Moment, SECOND, day_number, nanos_of, seconds};
use super::{unit, zone};
use crate::vm::value::Value;
use jiff::civil::{self, Date};
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Longest text that is looked at: no form is longer.
const LONGEST: usize = 200;

fn bad(what: &str, text: &str, form: &str) -> String {
    let shown: String = text.chars().take(60).collect();
    format!("'{shown}' is not {what} ({form})")
}

fn digits(text: &str, from: usize, n: usize) -> Option<i64> {
    let part = text.get(from..from + n)?;
    part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?
}

/// `2026-01-31`, also with a sign and six digits of the year.
pub(super) fn date(text: &str) -> Result<Date, String> {
    let error = || bad("a date", text, "YYYY-MM-DD");
    if text.len() > LONGEST || !text.is_ascii() {
        return Err(error());
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let year = if rest.len() == text.len() { 4 } else { 6 };
    let made = || {
        let bytes = rest.as_bytes();
        if rest.len() != year + 6 || bytes[year] != b'-' || bytes[year + 3] != b'-' {
            return None;
        }
        let y = i16::try_from(sign * digits(rest, 0, year)?).ok()?;
        Date::new(y, digits(rest, year + 1, 2)? as i8, digits(rest, year + 4, 2)? as i8).ok()
    };
    made().ok_or_else(error)
}

/// `T10:30[:15[.25]]`, and what follows it.
fn time(text: &str) -> Option<(civil::Time, &str)> {
    let (h, m) = (digits(text, 0, 2)?, digits(text, 3, 2)?);
    if text.as_bytes().get(2) != Some(&b':') {
        return None;
    }
    let mut rest = text.get(5..)?;
    let (mut s, mut nanos) = (0, 0);
    if rest.starts_with(':') {
        s = digits(rest, 1, 2)?;
        rest = rest.get(3..)?;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let end = fraction.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(fraction.len());
            if end == 0 || end > 9 {
                return None;
            }
            nanos = fraction[..end].parse::<i32>().ok()? * 10i32.pow(9 - end as u32);
            rest = &fraction[end..];
        }
    }
    Some((civil::Time::new(h as i8, m as i8, s as i8, nanos).ok()?, rest))
}

/// RFC 3339 and RFC 9557; without an offset the time is local to `zone`, or else to UTC.
pub(super) fn datetime(text: &str, given: Option<&TimeZone>) -> Result<Zoned, String> {
    let error = || bad("a datetime", text, "YYYY-MM-DDTHH:MM:SS and Z, an offset or a zone");
    if text.len() > LONGEST || !text.is_ascii() {
        return Err(error());
    }
    let Some(at) = text.bytes().position(|b| matches!(b, b'T' | b't' | b' ')) else {
        let day = date(text).map_err(|_| error())?;
        return zone::local(day.to_datetime(civil::Time::midnight()), given.unwrap_or(&TimeZone::UTC));
    };
    let day = date(&text[..at]).map_err(|_| error())?;
    let (time, rest) = time(&text[at + 1..]).ok_or_else(error)?;
    let local = day.to_datetime(time);
    let (offset, bracket) = match rest.split_once('[') {
        Some((offset, name)) => (offset, Some(name.strip_suffix(']').ok_or_else(error)?)),
        None => (rest, None),
    };
    let named = bracket.map(zone::zone).transpose()?;
    if offset.is_empty() {
        let at = zone::local(local, named.as_ref().or(given).unwrap_or(&TimeZone::UTC))?;
        return Ok(match given {
            Some(zone) => at.with_time_zone(zone.clone()),
            None => at,
        });
    }
    let fixed = zone::zone(offset).map_err(|_| error())?;
    if !(offset == "Z" || offset == "z" || offset.starts_with(['+', '-'])) {
        return Err(error());
    }
    let at = zone::local(local, &fixed)?;
    let Some(zone) = named else {
        return Ok(match given {
            Some(zone) => at.with_time_zone(zone.clone()),
            None => at,
        });
    };
    let shown = at.with_time_zone(zone.clone());
    if !offset.eq_ignore_ascii_case("z") && shown.datetime() != local {
        return Err(format!("'{text}' contradicts itself: {} has another offset then", zone::name(&zone)));
    }
    Ok(match given {
        Some(zone) => shown.with_time_zone(zone.clone()),
        None => shown,
    })
}

/// ISO 8601 (`PT1H30M`, `P2DT3H`, `-PT5S`) and the short form `1h30m`.
pub(super) fn duration(text: &str) -> Result<i128, String> {
    let error = || bad("a duration", text, "ISO 8601 such as PT1H30M, or 1h30m");
    if text.len() > LONGEST || !text.is_ascii() || text.is_empty() {
        return Err(error());
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let iso = rest.starts_with(['P', 'p']);
    let mut rest = if iso { &rest[1..] } else { rest };
    let mut clock = !iso;
    let (mut total, mut any) = (0i128, false);
    while !rest.is_empty() {
        if iso && !clock && rest.starts_with(['T', 't']) {
            clock = true;
            rest = &rest[1..];
            if rest.is_empty() {
                return Err(error());
            }
            continue;
        }
        let end =
            rest.bytes().position(|b| !b.is_ascii_digit() && b != b'.' && b != b',').ok_or_else(error)?;
        let number = &rest[..end];
        let name_end =
            rest[end..].bytes().position(|b| !b.is_ascii_alphabetic()).map_or(rest.len(), |n| end + n);
        let name = if iso { &rest[end..end + 1] } else { &rest[end..name_end] };
        let size = match (iso, clock, name) {
            (true, false, "W" | "w") => 7 * DAY,
            (true, false, "D" | "d") => DAY,
            (true, true, "H" | "h") => 3600 * SECOND,
            (true, true, "M" | "m") => 60 * SECOND,
            (true, true, "S" | "s") => SECOND,
            (true, false, "Y" | "y" | "M" | "m") => {
                return Err(format!(
                    "'{text}' has years or months, which have no fixed length — use add_months"
                ));
            }
            (false, _, name) => unit(name).ok_or_else(error)?,
            _ => return Err(error()),
        };
        total = total.checked_add(amount(number, size).ok_or_else(error)?).ok_or_else(error)?;
        any = true;
        rest = &rest[end + name.len()..];
    }
    if any { Ok(sign * total) } else { Err(error()) }
}

/// `1.5` of a unit, exactly as far as a nanosecond goes.
fn amount(text: &str, size: i128) -> Option<i128> {
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    if whole.is_empty() || whole.len() > 18 || fraction.len() > 18 || text.ends_with(['.', ',']) {
        return None;
    }
    let mut total = whole.parse::<i128>().ok()?.checked_mul(size)?;
    if !fraction.is_empty() {
        total += fraction.parse::<i128>().ok()?.checked_mul(size)? / 10i128.pow(fraction.len() as u32);
    }
    Some(total)
}

fn broken(text: &str, format: &str) -> Result<BrokenDownTime, String> {
    if text.len() > 10_000 || format.len() > 10_000 {
        return Err("the text is too long".to_owned());
    }
    strtime::parse(format, text).map_err(|e| format!("'{text}' does not match '{format}': {e}"))
}

pub(super) fn date_by(text: &str, format: &str) -> Result<Date, String> {
    broken(text, format)?.to_date().map_err(|e| format!("'{text}' by '{format}' is not a date: {e}"))
}

pub(super) fn datetime_by(text: &str, format: &str, zone: &TimeZone) -> Result<Zoned, String> {
    let parts = broken(text, format)?;
    let whole = |e: jiff::Error| format!("'{text}' by '{format}' is not a datetime: {e}");
    if let Some(name) = parts.iana_time_zone() {
        let zone = zone::zone(name)?;
        return zone::local(parts.to_datetime().map_err(whole)?, &zone);
    }
    if let Ok(at) = parts.to_timestamp() {
        let shown = match parts.offset() {
            Some(offset) if *zone == TimeZone::UTC && offset.seconds() != 0 => TimeZone::fixed(offset),
            _ => zone.clone(),
        };
        return Ok(at.to_zoned(shown));
    }
    let local = match parts.to_datetime() {
        Ok(local) => local,
        // A format without a time of day is midnight.
        Err(_) => parts.to_date().map_err(whole)?.to_datetime(civil::Time::midnight()),
    };
    zone::local(local, zone)
}

/// `parse_time`: unix seconds.
pub(in super::super) fn parse_at(text: &str, format: Option<&str>) -> Result<f64, String> {
    let at = match format {
        None => datetime(text, None)?,
        Some(format) => datetime_by(text, format, &TimeZone::UTC)?,
    };
    Ok(seconds(at.timestamp().as_nanosecond()))
}

/// Unix seconds (in UTC), a date or a datetime; `None` if it is something else.
fn instant_of(value: &Value) -> Option<Result<Zoned, String>> {
    let zoned = |nanos: i128| {
        Timestamp::from_nanosecond(nanos)
            .map(|t| t.to_zoned(TimeZone::UTC))
            .map_err(|_| "the time is outside the years -9999 to 9999".to_owned())
    };
    Some(if let Some(d) = value.as_foreign::<Day>() {
        zoned(day_number(d.0) * DAY)
    } else if let Some(m) = value.as_foreign::<Moment>() {
        Ok(m.0.clone())
    } else {
        match value {
            Value::Int(n) => zoned(i128::from(*n) * SECOND),
            // A double near now has some 240 ns between neighbours: beyond microseconds its digits are noise.
            Value::Float(f) => nanos_of(*f).and_then(|n| zoned((n + 500).div_euclid(1000) * 1000)),
            _ => return None,
        }
    })
}

/// `format_time`.
pub(in super::super) fn format_at(value: &Value, format: Option<&str>) -> Option<Result<String, String>> {
    Some(instant_of(value)?.and_then(|at| match format {
        None => Ok(zone::text(&at)),
        Some(format) if format.len() > 10_000 => Err("the format is too long".to_owned()),
        Some(format) => strtime::format(format, &at).map_err(|e| format!("'{format}': {e}")),
    }))
}

/// `date_parts`.
pub(in super::super) fn parts_of(value: &Value) -> Option<Result<Value, String>> {
    Some(instant_of(value)?.map(|at| {
        let int = |n: i64| Value::Int(n);
        let (date, time) = (at.date(), at.time());
        let fraction = f64::from(time.subsec_nanosecond()) / 1e9;
        let second = i64::from(time.second());
        Value::record([
            ("year", int(date.year().into())),
            ("month", int(date.month().into())),
            ("day", int(date.day().into())),
            ("hour", int(time.hour().into())),
            ("minute", int(time.minute().into())),
            ("second", if fraction == 0.0 { int(second) } else { Value::Float(second as f64 + fraction) }),
            ("weekday", int(date.weekday().to_monday_one_offset().into())),
            ("day_of_year", int(date.day_of_year().into())),
        ])
    }))
}
