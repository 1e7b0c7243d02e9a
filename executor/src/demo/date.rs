//! Days of the Gregorian calendar, from the year 1 to 9999. There is no "today" here: whoever asks says the date.

use std::fmt;
use std::str::FromStr;

/// A day, as the number of days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date(i64);

pub(super) const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

impl Date {
    /// # Errors
    /// When the calendar has no such day.
    pub(super) fn new(year: i64, month: i64, day: i64) -> Result<Self, String> {
        if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
            return Err(format!("there is no day {year:04}-{month:02}-{day:02}"));
        }
        // The era arithmetic of Howard Hinnant's days_from_civil: a year that starts in March puts the leap day last.
        let shifted = if month <= 2 { year - 1 } else { year };
        let era = shifted.div_euclid(400);
        let year_of_era = shifted.rem_euclid(400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Ok(Self(era * 146_097 + day_of_era - 719_468))
    }

    /// Year, month and day.
    pub(super) fn parts(self) -> (i64, i64, i64) {
        let days = self.0 + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }

    /// # Errors
    /// When the day would lie outside the years 1 to 9999.
    pub(super) fn plus(self, days: i64) -> Result<Self, String> {
        let moved = Self(self.0.saturating_add(days));
        if (1..=9999).contains(&moved.parts().0) {
            return Ok(moved);
        }
        Err(format!("{self} and {days} days is outside the years 1 to 9999"))
    }

    /// Days from `self` to `other`, negative when `other` is earlier.
    pub(super) fn days_to(self, other: Self) -> i64 {
        other.0 - self.0
    }

    /// 0 is Monday.
    pub(super) fn weekday(self) -> usize {
        usize::try_from((self.0 + 3).rem_euclid(7)).unwrap_or(0)
    }

    /// Year and number of the ISO 8601 week: weeks start on Monday, week 1 holds the year's first Thursday.
    pub(super) fn iso_week(self) -> (i64, i64) {
        let thursday = Self(self.0 - (self.0 + 3).rem_euclid(7) + 3);
        (thursday.parts().0, (thursday.day_of_year() - 1) / 7 + 1)
    }

    /// 1 is the first of January.
    pub(super) fn day_of_year(self) -> i64 {
        let (year, month, day) = self.parts();
        (1..month).map(|month| days_in(year, month)).sum::<i64>() + day
    }
}

/// Whether the year has a 29th of February.
pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no date like 2026-03-14");
        let bytes = text.as_bytes();
        let shaped = bytes.len() == 10
            && bytes
                .iter()
                .enumerate()
                .all(|(at, byte)| if matches!(at, 4 | 7) { *byte == b'-' } else { byte.is_ascii_digit() });
        if !shaped {
            return Err(wrong());
        }
        let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().map_err(|_| wrong());
        Self::new(part(0..4)?, part(5..7)?, part(8..10)?)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.parts();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_days() {
        for (text, weekday, week) in [
            ("1970-01-01", "Thursday", (1970, 1)),
            ("2026-03-14", "Saturday", (2026, 11)),
            ("2024-02-29", "Thursday", (2024, 9)),
            ("2027-01-01", "Friday", (2026, 53)),
            ("2024-12-30", "Monday", (2025, 1)),
            ("0001-01-01", "Monday", (1, 1)),
        ] {
            let date: Date = text.parse().unwrap();
            assert_eq!((WEEKDAYS[date.weekday()], date.iso_week()), (weekday, week), "{text}");
        }
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        for text in ["2026-02-29", "2026-13-01", "2026-00-10", "2026-04-31", "0000-01-01", "26-1-1", "2026-03-1é"] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_day_is_written_and_read_back_and_the_next_one_follows(days in -719_162i64..2_932_896) {
            let date = Date(days);
            prop_assert_eq!(date.to_string().parse::<Date>().unwrap(), date);
            let next = date.plus(1);
            if let Ok(next) = next {
                prop_assert_eq!(next.weekday(), (date.weekday() + 1) % 7);
                prop_assert!(next.day_of_year() == date.day_of_year() + 1 || next.day_of_year() == 1);
                prop_assert!(next.to_string() > date.to_string());
            }
        }
    }
}
