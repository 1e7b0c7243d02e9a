//! The calendar's tools. All of them are told the date; none looks at a clock.

use serde_json::{Value, json};

use super::Group;
use super::date::{Date, WEEKDAYS, is_leap};
use super::store::Store;
use super::tool::{Answer, Arguments, Effect, Kind, Parameter, Run, Tool};

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        group: Group::Dates,
        name: "days_between",
        title: None,
        description: "How many days lie between two dates; negative when the second is earlier.",
        effect: Effect::Reads,
        parameters: &[
            Parameter::required("from", Kind::Date, "The first day, not counted."),
            Parameter::required("to", Kind::Date, "The last day, counted."),
            Parameter::optional("working_days", Kind::Flag, "Count Monday to Friday only."),
        ],
        output: None,
        run: Run::Now(between),
    },
    Tool {
        group: Group::Dates,
        name: "add_days",
        title: None,
        description: "The date so many days later, or earlier with a negative number.",
        effect: Effect::Reads,
        parameters: &[
            Parameter::required("date", Kind::Date, "The day to start from."),
            Parameter::required("days", Kind::Integer { min: -100_000, max: 100_000 }, "How many days."),
            Parameter::optional("working_days", Kind::Flag, "Count Monday to Friday only."),
        ],
        output: None,
        run: Run::Now(add),
    },
    Tool {
        group: Group::Dates,
        name: "describe_date",
        title: Some("Describe a date"),
        description: "Weekday, ISO week, day of the year and whether it is a leap year.",
        effect: Effect::Reads,
        parameters: &[Parameter::required("date", Kind::Date, "The day.")],
        output: Some(description_schema),
        run: Run::Now(describe),
    },
    Tool {
        group: Group::Dates,
        name: "convert_time",
        title: None,
        description: "Converts a time of day between two offsets from UTC. Offsets are fixed: whether summer time holds \
                      on a day is for the caller to know.",
        effect: Effect::Reads,
        parameters: &[
            Parameter::required("time", Kind::Text, "A time like 17:30."),
            Parameter::required("from", Kind::Text, "Its offset, like +02:00, or Z."),
            Parameter::required("to", Kind::Text, "The wanted offset."),
        ],
        output: None,
        run: Run::Now(convert),
    },
];

fn description_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "date": { "type": "string", "format": "date" },
            "weekday": { "type": "string", "enum": WEEKDAYS },
            "iso_week": { "type": "string", "description": "Like 2026-W11." },
            "day_of_year": { "type": "integer" },
            "leap_year": { "type": "boolean" },
        },
        "required": ["date", "weekday", "iso_week", "day_of_year", "leap_year"],
    })
}

/// Whether the bakery's office works that day.
fn works(date: Date) -> bool {
    date.weekday() < 5
}

fn between(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let (from, to) = (arguments.date("from")?, arguments.date("to")?);
    let days = from.days_to(to);
    if !arguments.flag("working_days") {
        return Ok(Answer::text(format!("{days} days")));
    }
    let (first, last) = if days < 0 { (to, from) } else { (from, to) };
    // Whole weeks have five; at most six days are left to look at.
    let length = first.days_to(last);
    let mut count = length / 7 * 5;
    for day in length / 7 * 7 + 1..=length {
        count += i64::from(works(first.plus(day)?));
    }
    Ok(Answer::text(format!("{} working days", count * days.signum())))
}

fn add(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let (mut date, days) = (arguments.date("date")?, arguments.integer("days")?);
    if !arguments.flag("working_days") {
        return Ok(Answer::text(date.plus(days)?.to_string()));
    }
    for _ in 0..days.abs() {
        date = date.plus(days.signum())?;
        while !works(date) {
            date = date.plus(days.signum())?;
        }
    }
    Ok(Answer::text(date.to_string()))
}

fn describe(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let date = arguments.date("date")?;
    let (year, week) = date.iso_week();
    Ok(Answer::data(json!({
        "date": date.to_string(),
        "weekday": WEEKDAYS[date.weekday()],
        "iso_week": format!("{year:04}-W{week:02}"),
        "day_of_year": date.day_of_year(),
        "leap_year": is_leap(date.parts().0),
    })))
}

fn convert(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let time = minutes(arguments.text("time")?)?;
    let minutes = time - offset(arguments.text("from")?)? + offset(arguments.text("to")?)?;
    let day = match minutes.div_euclid(1440) {
        0 => "",
        1 => " the next day",
        2 => " two days later",
        -1 => " the day before",
        _ => " two days before",
    };
    let minutes = minutes.rem_euclid(1440);
    Ok(Answer::text(format!("{:02}:{:02}{day}", minutes / 60, minutes % 60)))
}

/// Minutes since midnight.
fn minutes(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no time like 17:30");
    let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return Err(wrong());
    }
    let (hours, minutes): (i64, i64) = (hours.parse().map_err(|_| wrong())?, minutes.parse().map_err(|_| wrong())?);
    if hours < 24 && minutes < 60 { Ok(hours * 60 + minutes) } else { Err(wrong()) }
}

/// Minutes east of Greenwich.
fn offset(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no offset like +02:00 or Z");
    match text.split_at_checked(1) {
        Some(("Z", "")) => Ok(0),
        Some(("+", rest)) => minutes(rest).map_err(|_| wrong()),
        Some(("-", rest)) => minutes(rest).map(|minutes| -minutes).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}
