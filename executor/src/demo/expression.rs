//! Arithmetic on text: `2 * (3 + 4) ^ 2`, with the usual functions. One pass, no recursion without a bound.

/// Parentheses and signs that may stand inside one another.
const MAX_DEPTH: usize = 64;

/// # Errors
/// What is wrong and at which character; also when the result is no finite number.
pub(super) fn evaluate(text: &str) -> Result<f64, String> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.sum()?;
    reader.skip_space();
    if reader.at < text.len() {
        return Err(reader.unexpected());
    }
    if value.is_finite() { Ok(value) } else { Err("the result is no finite number".to_owned()) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes the mark if it comes next.
    fn take(&mut self, mark: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len_utf8();
        }
        found
    }

    fn unexpected(&self) -> String {
        let place = self.text[..self.at].chars().count() + 1;
        match self.rest().chars().next() {
            Some(found) => format!("unexpected {found:?} at character {place}"),
            None => "the expression ends too early".to_owned(),
        }
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.take('+') {
                value += self.product()?;
            } else if self.take('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        loop {
            if self.take('*') {
                value *= self.signed()?;
            } else if self.take('/') {
                value = divided(value, self.signed()?, |a, b| a / b)?;
            } else if self.take('%') {
                value = divided(value, self.signed()?, f64::rem_euclid)?;
            } else {
                return Ok(value);
            }
        }
    }

    /// A sign binds less than a power: `-2 ^ 2` is -4.
    fn signed(&mut self) -> Result<f64, String> {
        self.deeper(|reader| {
            if reader.take('-') {
                Ok(-reader.signed()?)
            } else if reader.take('+') {
                reader.signed()
            } else {
                let base = reader.atom()?;
                if reader.take('^') { Ok(base.powf(reader.signed()?)) } else { Ok(base) }
            }
        })
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Result<f64, String>) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.take('(') {
            let value = self.sum()?;
            return if self.take(')') { Ok(value) } else { Err(self.unexpected()) };
        }
        self.skip_space();
        let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if self.rest().starts_with(|first: char| first.is_ascii_alphabetic()) {
            let length = self.rest().find(|letter| !word(letter)).unwrap_or(self.rest().len());
            let name = self.rest()[..length].to_owned();
            self.at += length;
            return self.named(&name);
        }
        self.number()
    }

    fn number(&mut self) -> Result<f64, String> {
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut length = digits(0);
        if bytes.get(length) == Some(&b'.') {
            length += 1 + digits(length + 1);
        }
        if let Some(b'e' | b'E') = bytes.get(length) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits((length + 1 + sign).min(bytes.len()));
            length += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        let value = self.rest()[..length].parse().map_err(|_| self.unexpected())?;
        self.at += length;
        Ok(value)
    }

    fn named(&mut self, name: &str) -> Result<f64, String> {
        match name {
            "pi" => return Ok(std::f64::consts::PI),
            "e" => return Ok(std::f64::consts::E),
            _ => {}
        }
        if !self.take('(') {
            return Err(format!("{name:?} is neither a number nor pi, e or a function"));
        }
        let mut values = vec![self.sum()?];
        while self.take(',') {
            values.push(self.sum()?);
        }
        if !self.take(')') {
            return Err(self.unexpected());
        }
        let value = match (name, values.as_slice()) {
            ("sqrt", [x]) => x.sqrt(),
            ("abs", [x]) => x.abs(),
            ("round", [x]) => x.round(),
            ("floor", [x]) => x.floor(),
            ("ceil", [x]) => x.ceil(),
            ("ln", [x]) => x.ln(),
            ("log", [x]) => x.log10(),
            ("sin", [x]) => x.sin(),
            ("cos", [x]) => x.cos(),
            ("tan", [x]) => x.tan(),
            ("min", values) => values.iter().copied().fold(f64::INFINITY, f64::min),
            ("max", values) => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            _ => return Err(format!("there is no function {name:?} of {} values; {FUNCTIONS}", values.len())),
        };
        if value.is_nan() { Err(format!("{name} has no value there")) } else { Ok(value) }
    }
}

const FUNCTIONS: &str =
    "there are sqrt, abs, round, floor, ceil, ln, log, sin, cos, tan of one and min, max of several";

fn divided(value: f64, by: f64, operation: fn(f64, f64) -> f64) -> Result<f64, String> {
    if by == 0.0 { Err("division by zero".to_owned()) } else { Ok(operation(value, by)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_usual_rules() {
        for (text, value) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("2 ^ 3 ^ 2", 512.0),
            ("-2 ^ 2", -4.0),
            ("2 ^ -1", 0.5),
            ("10 - 4 - 3", 3.0),
            ("7 % 4", 3.0),
            ("-1 % 4", 3.0),
            ("1.5e2 + .5", 150.5),
            ("max(1, sqrt(16), 3)", 4.0),
            ("round(pi)", 3.0),
            ("--3", 3.0),
        ] {
            assert_eq!(evaluate(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn errors_say_where() {
        for (text, error) in [
            ("", "the expression ends too early"),
            ("1 +", "the expression ends too early"),
            ("2 × 3", "unexpected '×' at character 3"),
            ("(1", "the expression ends too early"),
            ("1 / 0", "division by zero"),
            ("9 ^ 999", "the result is no finite number"),
            ("sqrt(-1)", "sqrt has no value there"),
            ("two", "\"two\" is neither a number nor pi, e or a function"),
        ] {
            assert_eq!(evaluate(text), Err(error.to_owned()), "{text}");
        }
        assert!(evaluate(&"(".repeat(100_000)).is_err_and(|error| error.contains("nested deeper")));
        assert!(evaluate(&"-".repeat(100_000)).is_err_and(|error| error.contains("nested deeper")));
        assert!(evaluate(&format!("2{}", "^2".repeat(100_000))).is_err_and(|error| error.contains("nested deeper")));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-z().,+*/%^ eé-]{0,40}") {
            let _ = evaluate(&text);
        }

        #[test]
        fn numbers_are_read_back(number in 0.0..1e300f64) {
            prop_assert_eq!(evaluate(&format!("{number:?}")), Ok(number));
        }
    }
}
