//! Reads and writes amounts and durations as Kubernetes does.

use homeostat_core::{Bytes, Millicores, SimDuration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Text that is not an amount of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a {1}")]
pub struct NotAnAmount(String, &'static str);

/// Reads CPU such as `250m` or `1.5` cores, rounded up to a millicore.
pub fn cores(quantity: &Quantity) -> Result<Millicores, NotAnAmount> {
    let refused = || NotAnAmount(quantity.0.clone(), "number of cores, such as 250m or 1.5");
    let millis = number(&quantity.0).ok_or_else(refused)? * 1e3;
    whole(millis).map(Millicores::new).ok_or_else(refused)
}

/// Reads memory such as `512Mi` or `1G`, rounded up to a byte.
pub fn memory_bytes(quantity: &Quantity) -> Result<Bytes, NotAnAmount> {
    let refused = || NotAnAmount(quantity.0.clone(), "number of bytes, such as 512Mi");
    let bytes = number(&quantity.0).ok_or_else(refused)?;
    whole(bytes).map(Bytes::new).ok_or_else(refused)
}

/// Reads a duration such as `90s` or `1h30m`.
pub fn duration(text: &str) -> Result<SimDuration, NotAnAmount> {
    let refused = || NotAnAmount(text.to_owned(), "duration, such as 90s or 1h30m");
    let mut seconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refused)?;
        let value: f64 = rest[..digits].parse().map_err(|_| refused())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        seconds += value
            * match &rest[..letters] {
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(refused()),
            };
        rest = &rest[letters..];
    }
    if text.is_empty() {
        return Err(refused());
    }
    SimDuration::from_seconds(seconds).map_err(|_| refused())
}

/// Writes CPU as Kubernetes does.
pub fn cpu_quantity(cpu: Millicores) -> Quantity {
    let millicores = cpu.millicores();
    Quantity(if millicores.is_multiple_of(1000) {
        (millicores / 1000).to_string()
    } else {
        format!("{millicores}m")
    })
}

/// Writes memory as Kubernetes does, rounded up to whole mebibytes for readability.
pub fn memory_quantity(memory: Bytes) -> Quantity {
    const MIB: u64 = 1 << 20;
    let mebibytes = Bytes::from_mib(memory.bytes().div_ceil(MIB));
    // Zero would be written without a unit.
    Quantity(if mebibytes == Bytes::ZERO { "0Mi".to_owned() } else { mebibytes.to_string() })
}

/// The value of a quantity with its suffix applied.
fn number(text: &str) -> Option<f64> {
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(text.len());
    // `12e3` is a decimal exponent, `12E` are exa.
    let (value, suffix) = match text[digits..].strip_prefix(['e', 'E']) {
        Some(exponent) if !exponent.is_empty() => (text.parse().ok()?, ""),
        _ => (text[..digits].parse::<f64>().ok()?, &text[digits..]),
    };
    let scale = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        "Pi" => 1024f64.powi(5),
        "Ei" => 1024f64.powi(6),
        _ => return None,
    };
    Some(value * scale)
}

/// Rounds up, with a tolerance for binary fractions: 0.1 cores must not become 101 millicores.
fn whole(value: f64) -> Option<u64> {
    let is_usable = value.is_finite() && (0.0..=u64::MAX as f64).contains(&value);
    let nearest = value.round();
    let is_whole = (value - nearest).abs() < 1e-6;
    is_usable.then_some(if is_whole { nearest as u64 } else { value.ceil() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_read_in_every_form_that_the_api_server_writes() {
        let check = |text: &str, expect: u64| {
            assert_eq!(cores(&Quantity(text.into())), Ok(Millicores::new(expect)), "{text}");
        };
        check("250m", 250);
        check("0.1", 100);
        check("2", 2000);
        check("1.5", 1500);
        check("156340123n", 157);
        check("0", 0);
        check("1e3", 1_000_000);
    }

    #[test]
    fn memory_is_read_in_binary_and_decimal_units() {
        let check = |text: &str, expect: u64| {
            assert_eq!(memory_bytes(&Quantity(text.into())), Ok(Bytes::new(expect)), "{text}");
        };
        check("512Mi", 512 << 20);
        check("1Gi", 1 << 30);
        check("1G", 1_000_000_000);
        check("128974848", 128_974_848);
        check("123000m", 123);
        check("12E", 12_000_000_000_000_000_000);
    }

    #[test]
    fn invalid_amounts_are_named() {
        for text in ["", "abc", "-5", "5X", "1e", "NaN", "inf", "1e400", "5 Mi"] {
            let refused = memory_bytes(&Quantity(text.into()));
            let message = refused.expect_err(text).to_string();
            assert!(message.contains(&format!("{text:?}")), "{message}");
            assert!(cores(&Quantity(text.into())).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_may_have_several_parts() {
        let check = |text: &str, seconds: f64| {
            assert_eq!(duration(text).map(SimDuration::seconds), Ok(seconds), "{text}");
        };
        check("90s", 90.0);
        check("1h30m", 5400.0);
        check("250ms", 0.25);
        check("0s", 0.0);
        for text in ["", "5", "5x", "-5s", "s", "1e9d9d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_are_written_with_the_largest_exact_unit() {
        assert_eq!(cpu_quantity(Millicores::new(250)).0, "250m");
        assert_eq!(cpu_quantity(Millicores::new(2000)).0, "2");
        assert_eq!(memory_quantity(Bytes::new((384 << 20) - 5)).0, "384Mi");
        assert_eq!(memory_quantity(Bytes::new((2 << 30) - 5)).0, "2Gi");
        assert_eq!(memory_quantity(Bytes::new(1300 << 20)).0, "1300Mi");
        assert_eq!(memory_quantity(Bytes::ZERO).0, "0Mi");
    }
}
