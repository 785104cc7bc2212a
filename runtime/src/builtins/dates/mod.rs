//! Dates, instants and durations. Nothing here looks at the clock.

mod parse;
mod types;
mod zone;

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::render::{inside, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use jiff::Zoned;
use jiff::civil::{self, Date};
use jiff::tz::TimeZone;
use types::{DAY, Day, Moment, SECOND, Span, day, day_number, from_day_number, moment, span};

pub(super) use parse::{format_at, parse_at, parts_of};

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("date", &["year", "month", "day"], 1, date).cost(Cost::Flat),
    Builtin::new("datetime", &["year", "month", "day", "hour", "minute", "second", "zone"], 1, datetime)
        .named(7)
        .cost(Cost::Flat),
    Builtin::new("duration", DURATION, 0, duration).named(2).cost(Cost::Flat),
    Builtin::new("parse_date", &["text", "format"], 1, parse_date),
    Builtin::new("parse_datetime", &["text", "format", "zone"], 1, parse_datetime).named(3),
    Builtin::new("timestamp", &["datetime"], 1, timestamp).cost(Cost::Flat),
    Builtin::new("to_timezone", &["datetime", "zone"], 2, to_timezone).cost(Cost::Flat),
    Builtin::new("add_days", &["date", "n"], 2, add_days).cost(Cost::Flat),
    Builtin::new("add_months", &["date", "n"], 2, add_months).cost(Cost::Flat),
    Builtin::new("truncate", &["date", "unit"], 2, truncate).cost(Cost::Flat),
    Builtin::new("date_range", &["start", "end", "step"], 2, date_range).cost(Cost::Own),
    Builtin::new("in_units", &["duration", "unit"], 2, in_units).cost(Cost::Flat),
    Builtin::new("weekday", &["date"], 1, |_, a| {
        Ok(Value::Int(civil(a, 0)?.weekday().to_monday_one_offset().into()))
    })
    .cost(Cost::Flat),
];

const DURATION: &[&str] = &[
    "value",
    "unit",
    "weeks",
    "days",
    "hours",
    "minutes",
    "seconds",
    "milliseconds",
    "microseconds",
    "nanoseconds",
];

/// Nanoseconds of a unit that has a fixed length.
pub(super) fn unit(name: &str) -> Option<i128> {
    Some(match name {
        "week" | "weeks" | "w" => 7 * DAY,
        "day" | "days" | "d" => DAY,
        "hour" | "hours" | "h" => 3600 * SECOND,
        "minute" | "minutes" | "min" | "m" => 60 * SECOND,
        "second" | "seconds" | "s" => SECOND,
        "millisecond" | "milliseconds" | "ms" => 1_000_000,
        "microsecond" | "microseconds" | "us" => 1000,
        "nanosecond" | "nanoseconds" | "ns" => 1,
        _ => return None,
    })
}

fn unit_of(args: &Args<'_>, i: usize) -> Result<i128, Fault> {
    let name = args.text(i)?;
    unit(name).ok_or_else(|| {
        raised(format!(
            "{}: unknown unit '{name}', one of weeks days hours minutes seconds milliseconds microseconds nanoseconds",
            args.name
        ))
    })
}

/// A message with the builtin's name before it.
fn named<T>(args: &Args<'_>, result: Result<T, String>) -> Result<T, Fault> {
    result.map_err(|e| raised(format!("{}: {e}", args.name)))
}

/// The day of a date or datetime.
fn civil(args: &Args<'_>, i: usize) -> Result<Date, Fault> {
    if let Some(d) = args.at(i).as_foreign::<Day>() {
        return Ok(d.0);
    }
    match args.at(i).as_foreign::<Moment>() {
        Some(m) => Ok(m.0.date()),
        None => Err(args.wrong(i, "a date or datetime")),
    }
}

fn instant<'a>(args: &'a Args<'_>, i: usize) -> Result<&'a Zoned, Fault> {
    args.at(i).as_foreign::<Moment>().map(|m| &m.0).ok_or_else(|| args.wrong(i, "a datetime"))
}

fn day_of(args: &Args<'_>) -> Result<Date, Fault> {
    let (y, m, d) = (args.int(0, "year")?, args.int(1, "month")?, args.int(2, "day")?);
    let made = || Date::new(i16::try_from(y).ok()?, i8::try_from(m).ok()?, i8::try_from(d).ok()?).ok();
    made().ok_or_else(|| raised(format!("{}: {y}-{m}-{d} is not a date (years -9999 to 9999)", args.name)))
}

fn date(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match args.len() {
        1 => match args.at(0).as_text() {
            Some(text) => named(args, parse::date(text)).map(day),
            None => {
                civil(args, 0).map(day).map_err(|_| args.wrong(0, "year, month, day, a text or a datetime"))
            }
        },
        3 => day_of(args).map(day),
        _ => Err(raised("date expects year, month, day — or one text or datetime")),
    }
}

fn zone_of(args: &Args<'_>, i: usize) -> Result<TimeZone, Fault> {
    match args.optional(i) {
        None => Ok(TimeZone::UTC),
        Some(v) => match v.as_text() {
            Some(name) => named(args, zone::zone(name)),
            None => Err(args.wrong(i, "a time zone's name")),
        },
    }
}

/// The zone of `datetime(x, zone)` may also stand second.
fn datetime(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let number = matches!(args.at(0), Value::Int(_) | Value::Float(_));
    if number && args.optional(1).is_none_or(|v| v.as_text().is_none()) && args.len() >= 3 {
        let date = day_of(args)?;
        let part = |i: usize, what: &str| if args.optional(i).is_some() { args.int(i, what) } else { Ok(0) };
        let (h, m) = (part(3, "hour")?, part(4, "minute")?);
        let s = if args.optional(5).is_some() { args.float(5)? } else { 0.0 };
        let nanos = named(args, types::nanos_of(s))?;
        let time = || {
            let (s, n) = (i8::try_from(nanos / SECOND).ok()?, i32::try_from(nanos % SECOND).ok()?);
            civil::Time::new(i8::try_from(h).ok()?, i8::try_from(m).ok()?, s, n).ok()
        };
        let Some(time) = time() else {
            return Err(raised(format!("datetime: {h}:{m}:{} is not a time", crate::vm::number::float(s))));
        };
        let zone = zone_of(args, 6)?;
        return named(args, zone::local(date.to_datetime(time), &zone)).map(moment);
    }
    let at = if args.optional(6).is_some() { 6 } else { 1 };
    if args.len() > 2 && at == 1 {
        return Err(raised(
            "datetime expects year, month, day … — or one text, date, datetime or timestamp, and a zone",
        ));
    }
    let zone = zone_of(args, at)?;
    let given = args.optional(at).is_some();
    if number {
        let nanos = named(args, types::nanos_of(args.float(0)?))?;
        return named(args, at_nanos(nanos, zone)).map(moment);
    }
    if let Some(text) = args.at(0).as_text() {
        return named(args, parse::datetime(text, given.then_some(&zone))).map(moment);
    }
    if let Some(m) = args.at(0).as_foreign::<Moment>() {
        return Ok(moment(if given { m.0.with_time_zone(zone) } else { m.0.clone() }));
    }
    let date = civil(args, 0).map_err(|_| args.wrong(0, "numbers, a text, a date or a datetime"))?;
    named(args, zone::local(date.to_datetime(civil::Time::midnight()), &zone)).map(moment)
}

fn at_nanos(nanos: i128, zone: TimeZone) -> Result<Zoned, String> {
    let at =
        jiff::Timestamp::from_nanosecond(nanos).map_err(|_| "the time is outside the years -9999 to 9999")?;
    Ok(at.to_zoned(zone))
}

/// A number of units as nanoseconds: integers exactly.
fn times(v: &Value, unit: i128) -> Option<Result<i128, String>> {
    let long = || "the duration is too long".to_owned();
    match v {
        Value::Int(n) => Some(i128::from(*n).checked_mul(unit).ok_or_else(long)),
        Value::Float(f) => {
            let nanos = f * unit as f64;
            Some(if nanos.is_finite() && nanos.abs() < 1e35 {
                // A whole number of seconds and more is taken apart, so that the product stays exact.
                let whole = (f.trunc() as i128).checked_mul(unit).ok_or_else(long);
                whole.map(|w| w + (f.fract() * unit as f64).round_ties_even() as i128)
            } else {
                Err(long())
            })
        }
        _ => None,
    }
}

fn duration(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut total = 0i128;
    let mut any = false;
    if let Some(first) = args.optional(0) {
        any = true;
        if let Some(text) = first.as_text() {
            if args.optional(1).is_some() {
                return Err(args.wrong(0, "a number before a unit"));
            }
            total = named(args, parse::duration(text))?;
        } else if let Some(d) = first.as_foreign::<Span>() {
            total = d.nanos();
        } else {
            let unit = if args.optional(1).is_some() { unit_of(args, 1)? } else { SECOND };
            let nanos =
                times(first, unit).ok_or_else(|| args.wrong(0, "a number, a text or units by name"))?;
            total = named(args, nanos)?;
        }
    }
    for (i, name) in DURATION.iter().enumerate().skip(2) {
        let Some(v) = args.optional(i) else { continue };
        any = true;
        let nanos = times(v, unit(name).unwrap_or(SECOND))
            .ok_or_else(|| raised(format!("duration: {name} must be a number, got {}", type_name(v))))?;
        total = total
            .checked_add(named(args, nanos)?)
            .ok_or_else(|| raised("duration: the duration is too long"))?;
    }
    if !any {
        return Err(raised(
            "duration expects a number of seconds, a text such as \"PT1H30M\", or units by name",
        ));
    }
    named(args, span(total))
}

fn parse_date(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let text = args.text(0)?;
    let result = match args.optional(1) {
        None => parse::date(text),
        Some(_) => parse::date_by(text, args.text(1)?),
    };
    named(args, result).map(day)
}

fn parse_datetime(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let text = args.text(0)?;
    let given = args.optional(2).is_some();
    let zone = zone_of(args, 2)?;
    let result = match args.optional(1) {
        None => parse::datetime(text, given.then_some(&zone)),
        Some(_) => parse::datetime_by(text, args.text(1)?, &zone),
    };
    named(args, result).map(moment)
}

fn timestamp(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let nanos = match args.at(0).as_foreign::<Day>() {
        Some(d) => day_number(d.0) * DAY,
        None => {
            instant(args, 0).map_err(|_| args.wrong(0, "a date or datetime"))?.timestamp().as_nanosecond()
        }
    };
    Ok(Value::Float(types::seconds(nanos)))
}

fn to_timezone(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    args.text(1)?;
    let zone = zone_of(args, 1)?;
    Ok(moment(instant(args, 0)?.with_time_zone(zone)))
}

/// The same local time on another day.
fn on_day(args: &Args<'_>, to: Date) -> Result<Value, Fault> {
    match args.at(0).as_foreign::<Moment>() {
        None => Ok(day(to)),
        Some(m) => named(args, zone::local(to.to_datetime(m.0.time()), m.0.time_zone())).map(moment),
    }
}

fn add_days(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let from = civil(args, 0)?;
    let n = args.int(1, "n")?;
    let to = named(args, from_day_number(day_number(from) + i128::from(n)))?;
    on_day(args, to)
}

fn months_later(from: Date, n: i64) -> Option<Date> {
    let months = i64::from(from.year()) * 12 + i64::from(from.month()) - 1;
    let months = months.checked_add(n)?;
    let year = i16::try_from(months.div_euclid(12)).ok()?;
    let first = Date::new(year, months.rem_euclid(12) as i8 + 1, 1).ok()?;
    Date::new(year, first.month(), from.day().min(first.days_in_month())).ok()
}

fn add_months(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let from = civil(args, 0)?;
    let n = args.int(1, "n")?;
    match months_later(from, n) {
        Some(to) => on_day(args, to),
        None => Err(raised("add_months: the date is outside the years -9999 to 9999")),
    }
}

fn truncate(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let from = civil(args, 0)?;
    let unit = args.text(1)?;
    let first = |m: i8| Date::new(from.year(), m, 1).ok();
    let to = match unit {
        "year" => first(1),
        "quarter" => first((from.month() - 1) / 3 * 3 + 1),
        "month" => first(from.month()),
        "week" => from_day_number(day_number(from) - i128::from(from.weekday().to_monday_zero_offset())).ok(),
        "day" => Some(from),
        "hour" | "minute" | "second" => {
            let at = instant(args, 0)
                .map_err(|_| raised(format!("truncate: a date has no {unit} — use a datetime")))?;
            // Within the hour a zone's offset stays; so the instant moves back by what the clock shows beyond it.
            let time = at.time();
            let beyond = match unit {
                "hour" => i128::from(time.minute()) * 60 + i128::from(time.second()),
                "minute" => time.second().into(),
                _ => 0,
            };
            let nanos = beyond * SECOND + i128::from(time.subsec_nanosecond());
            return named(args, types::moved(at, -nanos)).map(moment);
        }
        _ => {
            return Err(raised(format!(
                "truncate: unknown unit '{unit}', one of year quarter month week day hour minute second"
            )));
        }
    };
    let Some(to) = to else { return Err(raised("truncate: the date is outside the years -9999 to 9999")) };
    match args.at(0).as_foreign::<Moment>() {
        None => Ok(day(to)),
        Some(m) => {
            named(args, zone::local(to.to_datetime(civil::Time::midnight()), m.0.time_zone())).map(moment)
        }
    }
}

/// Elements of one `date_range`.
const MAX_RANGE: usize = 10_000_000;

/// How a range goes on.
enum Step {
    Days(i64),
    Months(i64),
    Elapsed(i128),
}

fn step(args: &Args<'_>) -> Result<Step, Fault> {
    let step = match args.optional(2) {
        None => Step::Days(1),
        Some(Value::Int(n)) => Step::Days(*n),
        Some(v) => match (v.as_text(), v.as_foreign::<Span>()) {
            (_, Some(s)) => Step::Elapsed(s.nanos()),
            (Some("day" | "days"), _) => Step::Days(1),
            (Some("week" | "weeks"), _) => Step::Days(7),
            (Some("month" | "months"), _) => Step::Months(1),
            (Some("quarter" | "quarters"), _) => Step::Months(3),
            (Some("year" | "years"), _) => Step::Months(12),
            _ => {
                return Err(raised(format!(
                    "date_range: step must be a number of days, a duration, or day week month quarter year, got {}",
                    inside(v)
                )));
            }
        },
    };
    if matches!(step, Step::Days(0) | Step::Months(0) | Step::Elapsed(0)) {
        return Err(raised("date_range: step must not be 0"));
    }
    Ok(step)
}

fn date_range(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let step = step(args)?;
    let mut out = Vec::new();
    let mut push = |v: Value| -> Result<(), Fault> {
        if out.len() >= MAX_RANGE {
            return Err(raised("date_range: the range is too long"));
        }
        ctx.charge(2)?;
        out.push(v);
        if out.len().is_multiple_of(1024) { ctx.reserve(1 << 17) } else { Ok(()) }
    };
    if let (Some(a), Some(b)) = (args.at(0).as_foreign::<Moment>(), args.at(1).as_foreign::<Moment>()) {
        let end = b.0.timestamp();
        let mut n = 0i64;
        loop {
            let next = match step {
                Step::Elapsed(d) => i128::from(n).checked_mul(d).and_then(|d| types::moved(&a.0, d).ok()),
                Step::Days(d) => shifted(&a.0, n.checked_mul(d).and_then(|d| days_later(a.0.date(), d))),
                Step::Months(m) => shifted(&a.0, n.checked_mul(m).and_then(|m| months_later(a.0.date(), m))),
            };
            let backward = matches!(step, Step::Days(d) | Step::Months(d) if d < 0)
                || matches!(step, Step::Elapsed(d) if d < 0);
            match next {
                Some(z) if (!backward && z.timestamp() <= end) || (backward && z.timestamp() >= end) => {
                    push(moment(z))?;
                }
                _ => break,
            }
            n += 1;
        }
        return Ok(Value::list(out));
    }
    let (Some(a), Some(b)) = (args.at(0).as_foreign::<Day>(), args.at(1).as_foreign::<Day>()) else {
        let odd = if args.at(0).as_foreign::<Day>().is_some() { 1 } else { 0 };
        return Err(args.wrong(odd, "two dates or two datetimes"));
    };
    let step = match step {
        Step::Elapsed(d) if d % DAY == 0 => Step::Days(i64::try_from(d / DAY).unwrap_or(i64::MAX)),
        Step::Elapsed(_) => {
            return Err(raised("date_range: dates go by whole days — use datetimes for hours"));
        }
        other => other,
    };
    let mut n = 0i64;
    loop {
        let (next, backward) = match step {
            Step::Months(m) => (n.checked_mul(m).and_then(|m| months_later(a.0, m)), m < 0),
            Step::Days(d) => (n.checked_mul(d).and_then(|d| days_later(a.0, d)), d < 0),
            Step::Elapsed(_) => (None, false),
        };
        match next {
            Some(d) if (!backward && d <= b.0) || (backward && d >= b.0) => push(day(d))?,
            _ => break,
        }
        n += 1;
    }
    Ok(Value::list(out))
}

fn days_later(from: Date, n: i64) -> Option<Date> {
    from_day_number(day_number(from) + i128::from(n)).ok()
}

/// The same clock time on another day; where that doesn't exist, as much later as the clock was set forward.
fn shifted(at: &Zoned, to: Option<Date>) -> Option<Zoned> {
    to?.to_datetime(at.time()).to_zoned(at.time_zone().clone()).ok()
}

fn in_units(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let unit = unit_of(args, 1)?;
    match args.at(0).as_foreign::<Span>() {
        Some(d) => Ok(Value::Float(types::ratio(d.nanos(), unit))),
        None => Err(args.wrong(0, "a duration")),
    }
}

/// A date as other formats write it.
pub(super) fn date_from(text: &str) -> Option<Value> {
    parse::date(text).ok().map(day)
}

/// A datetime as other formats write it.
pub(super) fn datetime_from(text: &str) -> Option<Value> {
    parse::datetime(text, None).ok().map(moment)
}
