//! A range of time, as people write it.

/// From a start up to, and without, an end: nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The first nanosecond.
    pub from_ns: i64,
    /// The first nanosecond after it.
    pub to_ns: i64,
}

impl TimeRange {
    /// All of time.
    pub const ALL: Self = Self { from_ns: i64::MIN, to_ns: i64::MAX };

    /// Whether a moment is inside.
    pub fn contains(&self, ns: i64) -> bool {
        (self.from_ns..self.to_ns).contains(&ns)
    }

    /// Reads `FROM..TO`. A moment is a time since `first_ns` (`+90s`, `+5m`, `+1.5h`), a time of
    /// day in UTC (`2026-01-31T08:00:00Z`), or seconds since 1970. The error says what is wrong.
    pub fn parse(text: &str, first_ns: i64) -> Result<Self, String> {
        let (from, to) = text
            .split_once("..")
            .ok_or_else(|| format!("{text:?} is not a range such as +0s..+10m"))?;
        let moment = |text: &str| {
            moment_ns(text.trim(), first_ns).ok_or_else(|| {
                format!("{text:?} is not a moment such as +90s, 2026-01-31T08:00:00Z or 1769846400")
            })
        };
        let range = Self { from_ns: moment(from)?, to_ns: moment(to)? };
        match range.from_ns < range.to_ns {
            true => Ok(range),
            false => Err(format!("the range {text} ends before it starts")),
        }
    }
}

fn moment_ns(text: &str, first_ns: i64) -> Option<i64> {
    let ns = match text.strip_prefix('+') {
        Some(since_first) => {
            let unit_s = match since_first.chars().last()? {
                's' => 1.0,
                'm' => 60.0,
                'h' => 3600.0,
                _ => return None,
            };
            let count = seconds(&since_first[..since_first.len() - 1])?;
            first_ns as f64 + count * unit_s * 1e9
        }
        None => match text.split_once('T') {
            Some((date, time)) => (days(date)? as f64 * 86_400.0 + time_of_day_s(time)?) * 1e9,
            None => seconds(text)? * 1e9,
        },
    };
    ns.is_finite().then_some(ns.round() as i64)
}

/// A number that is not negative, in plain digits.
fn seconds(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { text.parse().ok() } else { None }
}

/// Seconds since midnight of `08:00:00.5Z`.
fn time_of_day_s(text: &str) -> Option<f64> {
    let mut parts = text.strip_suffix('Z')?.split(':');
    let (hours, minutes) = (seconds(parts.next()?)?, seconds(parts.next()?)?);
    let rest = parts.next().map_or(Some(0.0), seconds)?;
    let is_time = hours < 24.0 && minutes < 60.0 && rest < 61.0 && parts.next().is_none();
    is_time.then_some(hours * 3600.0 + minutes * 60.0 + rest)
}

/// Days since 1970 of `2026-01-31` in the Gregorian calendar.
fn days(text: &str) -> Option<i64> {
    let mut parts = text.split('-').map(|part| {
        let is_plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<i64>().ok().filter(|_| is_plain)
    });
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if is_leap { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let index = usize::try_from(month).ok()?.checked_sub(1)?;
    let is_date = (1970..10_000).contains(&year)
        && (1..=*months.get(index)?).contains(&day)
        && parts.next().is_none();
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let before_year = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    is_date.then(|| before_year + months[..index].iter().sum::<i64>() + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_relative_dates_or_seconds() {
        let check = |text: &str, from: i64, to: i64| {
            let range = TimeRange::parse(text, 5_000_000_000).unwrap();
            assert_eq!((range.from_ns, range.to_ns), (from, to), "{text}");
        };
        check("+0s..+1.5m", 5_000_000_000, 95_000_000_000);
        check("1..2.5", 1_000_000_000, 2_500_000_000);
        check("1970-01-02T00:00:01Z..+48h", 86_401_000_000_000, 172_805_000_000_000);
        check(
            "2024-03-01T00:00Z..2100-03-01T00:00:00Z",
            1_709_251_200_000_000_000,
            4_107_542_400_000_000_000,
        );
    }

    #[test]
    fn wrong_ranges_are_refused_with_the_reason() {
        let check = |text: &str, expect: &str| {
            let error = TimeRange::parse(text, 0).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("+5m", "is not a range");
        check("+5m..+5m", "ends before it starts");
        check("+5x..+6m", "\"+5x\" is not a moment");
        check("+é..+6m", "is not a moment");
        check("-5..6", "is not a moment");
        check("2026-02-30T00:00:00Z..+6m", "is not a moment");
        check("2026-02-01T25:00:00Z..+6m", "is not a moment");
        check("nan..inf", "is not a moment");
    }
}
