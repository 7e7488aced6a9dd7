//! What a harness declares of function tools, applied at admission (CAP-008, CLD-009).

use std::iter;

use regex_lite::Regex;

use super::tools::{Function, Tool};
use crate::invalid::{Invalid, Path};
use crate::json::{Json, Kind};
use crate::run::{FunctionLimits, HarnessDeclaration};

/// Checks every function against the harness's limits.
///
/// # Errors
/// E400-23 with the path of the member below `path`.
pub(super) fn check(
    tools: &[Tool],
    path: &Path,
    declaration: &HarnessDeclaration,
) -> Result<(), Invalid> {
    let limits = &declaration.functions;
    let refused = |path: Path, what: &str| {
        let message = format!("The harness '{}' does not support {what}.", declaration.id);
        Err(Invalid::unsupported(path.echo(), message))
    };
    let functions = || {
        tools
            .iter()
            .enumerate()
            .filter_map(|(index, tool)| match tool {
                Tool::Function(function) => Some((path.index(index), function)),
                _ => None,
            })
    };
    if functions().count() > limits.max_count as usize {
        return refused(path.clone(), "so many function tools");
    }
    // A pattern that is none lets nothing through.
    let pattern = limits.name_pattern.as_ref();
    let pattern = pattern.map(|text| Regex::new(&format!("^(?:{text})$")).ok());
    for (path, function) in functions() {
        let matches = match &pattern {
            None => true,
            Some(pattern) => pattern
                .as_ref()
                .is_some_and(|it| it.is_match(&function.name)),
        };
        if !matches || !fits(function, limits) {
            return refused(path.member("name"), "this function name");
        }
        let schema = function.parameters.json();
        let root = schema.get("type").and_then(Json::string);
        if limits.object_root && root.as_deref() != Some("object") {
            return refused(
                path.member("parameters"),
                "function parameters without an object at their root",
            );
        }
        if limits.exact_numbers && !numbers(schema).all(is_exact) {
            return refused(
                path.member("parameters"),
                "numbers that a binary64 number cannot hold",
            );
        }
    }
    Ok(())
}

fn fits(function: &Function, limits: &FunctionLimits) -> bool {
    function.name.len() <= limits.max_name_bytes as usize
        && !limits.reserved_names.contains(&function.name)
}

/// The texts of all numbers of a value.
fn numbers(json: Json<'_>) -> Box<dyn Iterator<Item = &str> + '_> {
    match json.kind() {
        Kind::Integer | Kind::Number => Box::new(iter::once(json.text())),
        Kind::Array => Box::new(
            json.elements()
                .unwrap_or_default()
                .into_iter()
                .flat_map(numbers),
        ),
        Kind::Object => {
            let members = json.members().unwrap_or_default();
            Box::new(members.into_iter().flat_map(|(_, value)| numbers(value)))
        }
        _ => Box::new(iter::empty()),
    }
}

/// Whether a number is the same after it was a binary64 number and was written again.
fn is_exact(text: &str) -> bool {
    let number: Option<f64> = text.trim().parse().ok().filter(|it: &f64| it.is_finite());
    number.is_some_and(|number| decimal(text.trim()) == decimal(&format!("{number:e}")))
}

/// Digits without zeros around them, and the exponent of the last one.
fn decimal(text: &str) -> (bool, String, i64) {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_start_matches('0').trim_end_matches('0');
    if kept.is_empty() {
        return (negative, String::new(), 0);
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    // An exponent that is no number is one that no number has.
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX / 2);
    let shift = i64::try_from(zeros).unwrap_or_default()
        - i64::try_from(fraction.len()).unwrap_or_default();
    (negative, kept.to_owned(), exponent.saturating_add(shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLD-009
    #[test]
    fn a_number_is_exact_if_it_comes_back() {
        for exact in [
            "0",
            "-0",
            "1",
            "0.1",
            "1e3",
            "1000",
            "1.50",
            "9007199254740992",
            "1E-7",
            "5e-324",
        ] {
            assert!(is_exact(exact), "{exact}");
        }
        for other in [
            "9007199254740993",
            "0.10000000000000000001",
            "1e999",
            "-1e999",
            "1e-400",
        ] {
            assert!(!is_exact(other), "{other}");
        }
        let schema = Json::new(r#"{"a":[1,{"b":2.5}],"c":"3","d":{"minimum":4}}"#);
        assert_eq!(numbers(schema).collect::<Vec<_>>(), ["1", "2.5", "4"]);
    }
}
