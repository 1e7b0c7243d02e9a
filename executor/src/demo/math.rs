//! Tools that calculate.

use serde_json::{Value, json};

use super::Group;
use super::expression;
use super::store::Store;
use super::tool::{Answer, Arguments, Effect, Kind, Parameter, Run, Tool};

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        group: Group::Math,
        name: "calculate",
        title: Some("Calculator"),
        description: "Works out an arithmetic expression: + - * / % ^, parentheses, pi, e and the functions sqrt, abs, \
                      round, floor, ceil, ln, log, sin, cos, tan (radians), min, max.",
        effect: Effect::Reads,
        parameters: &[Parameter::required("expression", Kind::Text, "For instance `(4.20 + 3.10) * 12`.")],
        output: None,
        run: Run::Now(calculate),
    },
    Tool {
        group: Group::Math,
        name: "convert_units",
        title: None,
        description: "Converts between units of length (mm cm m km in ft mi), mass (g kg oz lb), volume (ml l tsp tbsp \
                      cup), time (s min h d) and temperature (C F K).",
        effect: Effect::Reads,
        parameters: &[
            Parameter::required("value", Kind::Number, "How much."),
            Parameter::required("from", Kind::Text, "The unit it is in."),
            Parameter::required("to", Kind::Text, "The wanted unit, of the same kind."),
        ],
        output: None,
        run: Run::Now(convert_units),
    },
    Tool {
        group: Group::Math,
        name: "describe_numbers",
        title: Some("Describe numbers"),
        description: "Count, sum, smallest, largest, mean, median and standard deviation (of the population) of a list.",
        effect: Effect::Reads,
        parameters: &[Parameter::required("numbers", Kind::Numbers, "At least one number.")],
        output: Some(description_schema),
        run: Run::Now(describe),
    },
    Tool {
        group: Group::Math,
        name: "factorise",
        title: None,
        description: "The prime factors of a whole number.",
        effect: Effect::Reads,
        parameters: &[Parameter::required("number", Kind::Integer { min: 2, max: 1_000_000_000_000 }, "The number.")],
        output: None,
        run: Run::Now(factorise),
    },
    Tool {
        group: Group::Math,
        name: "convert_base",
        title: None,
        description: "Writes a whole number in another base, from 2 to 36.",
        effect: Effect::Reads,
        parameters: &[
            Parameter::required("digits", Kind::Text, "The number in its present base, without a prefix like 0x."),
            Parameter::required("from", Kind::Integer { min: 2, max: 36 }, "The present base."),
            Parameter::required("to", Kind::Integer { min: 2, max: 36 }, "The wanted base."),
        ],
        output: None,
        run: Run::Now(convert_base),
    },
];

fn description_schema() -> Value {
    let number = json!({ "type": "number" });
    json!({
        "type": "object",
        "properties": {
            "count": { "type": "integer" }, "sum": number, "min": number, "max": number,
            "mean": number, "median": number, "deviation": number,
        },
        "required": ["count", "sum", "min", "max", "mean", "median", "deviation"],
    })
}

/// At most twelve significant digits, so that 0.1 + 0.2 is 0.3; very large and very small ones with an exponent.
fn shown(value: f64) -> String {
    // Adding zero makes a negative zero an ordinary one.
    let rounded = format!("{value:.11e}").parse::<f64>().unwrap_or(value) + 0.0;
    if rounded == 0.0 || (1e-6..1e15).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

fn calculate(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    expression::evaluate(arguments.text("expression")?).map(|value| Answer::text(shown(value)))
}

/// What a unit measures, and how many of the kind's base unit one of it is.
const UNITS: &[(&str, &str, f64)] = &[
    ("mm", "length", 0.001),
    ("cm", "length", 0.01),
    ("m", "length", 1.0),
    ("km", "length", 1000.0),
    ("in", "length", 0.0254),
    ("ft", "length", 0.3048),
    ("mi", "length", 1609.344),
    ("g", "mass", 0.001),
    ("kg", "mass", 1.0),
    ("oz", "mass", 0.028_349_523_125),
    ("lb", "mass", 0.453_592_37),
    ("ml", "volume", 0.001),
    ("l", "volume", 1.0),
    ("tsp", "volume", 0.004_928_921_593_75),
    ("tbsp", "volume", 0.014_786_764_781_25),
    ("cup", "volume", 0.236_588_236_5),
    ("s", "time", 1.0),
    ("min", "time", 60.0),
    ("h", "time", 3600.0),
    ("d", "time", 86_400.0),
    ("C", "temperature", 1.0),
    ("F", "temperature", 5.0 / 9.0),
    ("K", "temperature", 1.0),
];

fn unit(name: &str) -> Result<&'static (&'static str, &'static str, f64), String> {
    UNITS.iter().find(|(known, ..)| *known == name).ok_or_else(|| {
        let known: Vec<_> = UNITS.iter().map(|(known, ..)| *known).collect();
        format!("there is no unit {name:?}; there are {}", known.join(", "))
    })
}

/// Where a temperature scale has its zero, in kelvins.
fn zero(unit: &str) -> f64 {
    match unit {
        "C" => 273.15,
        "F" => 273.15 - 32.0 * 5.0 / 9.0,
        _ => 0.0,
    }
}

fn convert_units(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let value = arguments.number("value")?;
    let (from, kind, factor) = unit(arguments.text("from")?)?;
    let (to, other, divisor) = unit(arguments.text("to")?)?;
    if kind != other {
        return Err(format!("{from} is a unit of {kind}, {to} one of {other}"));
    }
    let converted = (value * factor + zero(from) - zero(to)) / divisor;
    Ok(Answer::text(format!("{} {to}", shown(converted))))
}

#[expect(clippy::cast_precision_loss, reason = "no list has 2^53 numbers")]
fn describe(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let mut numbers = arguments.numbers("numbers");
    numbers.sort_by(f64::total_cmp);
    let count = numbers.len();
    let (Some(min), Some(max)) = (numbers.first(), numbers.last()) else {
        return Err("`numbers` needs at least one number".to_owned());
    };
    let sum: f64 = numbers.iter().sum();
    let mean = sum / count as f64;
    let deviation = (numbers.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count as f64).sqrt();
    let median = f64::midpoint(numbers[(count - 1) / 2], numbers[count / 2]);
    if ![sum, deviation].iter().all(|one| one.is_finite()) {
        return Err("these numbers are too large".to_owned());
    }
    Ok(Answer::data(json!({
        "count": count, "sum": sum, "min": min, "max": max, "mean": mean, "median": median, "deviation": deviation,
    })))
}

fn factorise(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let number = arguments.integer("number")?;
    let (mut rest, mut factor, mut factors) = (number, 2, Vec::new());
    while factor * factor <= rest {
        while rest % factor == 0 {
            rest /= factor;
            factors.push(factor);
        }
        factor += if factor == 2 { 1 } else { 2 };
    }
    if rest > 1 {
        factors.push(rest);
    }
    if factors.len() == 1 {
        return Ok(Answer::text(format!("{number} is a prime number.")));
    }
    let factors: Vec<_> = factors.iter().map(i64::to_string).collect();
    Ok(Answer::text(format!("{number} = {}", factors.join(" × "))))
}

fn convert_base(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let base = |name: &str| u32::try_from(arguments.integer(name)?).map_err(|_| format!("`{name}` is too large"));
    let (digits, from, to) = (arguments.text("digits")?, base("from")?, base("to")?);
    let wrong = |_| format!("{digits:?} is no whole number in base {from}, or one of more than 128 bits");
    let number = i128::from_str_radix(digits, from).map_err(wrong)?;
    let mut rest = number.unsigned_abs();
    let mut text = Vec::new();
    loop {
        let digit = u32::try_from(rest % u128::from(to)).ok().and_then(|digit| char::from_digit(digit, to));
        text.extend(digit);
        rest /= u128::from(to);
        if rest == 0 {
            break;
        }
    }
    text.extend((number < 0).then_some('-'));
    Ok(Answer::text(text.iter().rev().collect::<String>()))
}
