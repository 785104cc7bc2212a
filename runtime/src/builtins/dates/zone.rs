//! Time zones: the bundled database, fixed offsets, and local times that exist.
//!
//! Invariant: no file is opened; the database is part of the binary.

use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use std::cell::RefCell;
use std::fmt::Write as _;

/// A zone by its IANA name, `UTC`, `Z` or an offset such as `+05:30`.
pub(super) fn zone(name: &str) -> Result<TimeZone, String> {
    thread_local! {
        // The names are the database's, so this stays small; values share a zone's rules.
        static KNOWN: RefCell<Vec<(String, TimeZone)>> = const { RefCell::new(Vec::new()) };
    }
    if matches!(name, "UTC" | "Z" | "utc" | "z" | "Etc/UTC") {
        return Ok(TimeZone::UTC);
    }
    if let Some(seconds) = offset(name) {
        return Offset::from_seconds(seconds).map(TimeZone::fixed).map_err(|_| unknown(name));
    }
    if let Some(known) = KNOWN.with_borrow(|k| k.iter().find(|(n, _)| n == name).map(|(_, z)| z.clone())) {
        return Ok(known);
    }
    let found = TimeZone::get(name).map_err(|_| unknown(name))?;
    KNOWN.with_borrow_mut(|k| {
        if k.len() >= 1000 {
            k.clear();
        }
        k.push((name.to_owned(), found.clone()));
    });
    Ok(found)
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(60).collect();
    format!("unknown time zone '{shown}' — an IANA name (Europe/Madrid), UTC, or an offset (+05:30)")
}

/// `+05:30`, `-0800`, `+01`, in seconds.
fn offset(text: &str) -> Option<i32> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let digits: String = rest.chars().filter(|c| *c != ':').collect();
    let colons = rest.len() - digits.len();
    if !digits.bytes().all(|b| b.is_ascii_digit()) || colons > digits.len() / 2 {
        return None;
    }
    let two = |i: usize| digits.get(i..i + 2).and_then(|t| t.parse::<i32>().ok());
    let (hours, minutes, seconds) = match digits.len() {
        2 => (two(0)?, 0, 0),
        4 => (two(0)?, two(2)?, 0),
        6 => (two(0)?, two(2)?, two(4)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60 && seconds < 60).then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// The instant of a local time: the first one where the clock was set back, none where it was set forward.
pub(super) fn local(at: DateTime, zone: &TimeZone) -> Result<Zoned, String> {
    let ambiguous = zone.to_ambiguous_timestamp(at);
    let offset = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Fold { before, .. } => before,
        AmbiguousOffset::Gap { .. } => {
            return Err(format!(
                "local time {at} does not exist in {} (the clock is set forward)",
                name(zone)
            ));
        }
    };
    let instant =
        offset.to_timestamp(at).map_err(|_| "the time is outside the years -9999 to 9999".to_owned())?;
    Ok(instant.to_zoned(zone.clone()))
}

/// A zone as programs name it.
pub(super) fn name(zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some(name) => name.to_owned(),
        None => match zone.to_fixed_offset() {
            Ok(offset) if offset.seconds() != 0 => offset_text(offset.seconds()),
            _ => "UTC".to_owned(),
        },
    }
}

fn offset_text(seconds: i32) -> String {
    let (sign, n) = if seconds < 0 { ('-', -seconds) } else { ('+', seconds) };
    let mut out = format!("{sign}{:02}:{:02}", n / 3600, n / 60 % 60);
    if n % 60 != 0 {
        let _ = write!(out, ":{:02}", n % 60);
    }
    out
}

/// Year, month and day in ISO form.
pub(super) fn date_text(date: jiff::civil::Date) -> String {
    let y = date.year();
    let year = if y < 0 { format!("-{:06}", -i32::from(y)) } else { format!("{y:04}") };
    format!("{year}-{:02}-{:02}", date.month(), date.day())
}

/// RFC 3339, with the zone's name in brackets if it has one (RFC 9557).
pub(super) fn text(at: &Zoned) -> String {
    let time = at.time();
    let mut out =
        format!("{}T{:02}:{:02}:{:02}", date_text(at.date()), time.hour(), time.minute(), time.second());
    fraction(time.subsec_nanosecond().unsigned_abs(), &mut out);
    match at.time_zone().iana_name() {
        Some("UTC" | "Etc/UTC") => out.push('Z'),
        Some(name) => {
            let _ = write!(out, "{}[{name}]", offset_text(at.offset().seconds()));
        }
        None if at.offset().seconds() == 0 => out.push('Z'),
        None => out.push_str(&offset_text(at.offset().seconds())),
    }
    out
}

/// Digits after the point, as many as are needed.
pub(super) fn fraction(nanos: u32, out: &mut String) {
    if nanos != 0 {
        let digits = format!("{nanos:09}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}
