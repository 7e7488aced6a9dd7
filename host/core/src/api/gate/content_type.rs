//! Is a body announced as JSON (W-BODY-1)?

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

/// `application/json` or `application/*+json`, case-insensitively, with well-formed parameters; exactly one header.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let mut parts = split_parameters(value);
    let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let named = match essence.strip_prefix("application/") {
        Some("json") => true,
        Some(subtype) => subtype
            .strip_suffix("+json")
            .is_some_and(|name| !name.is_empty() && name.bytes().all(is_token)),
        None => false,
    };
    named && parts.all(|parameter| is_parameter(parameter.trim()))
}

/// Splits at semicolons outside quotes.
fn split_parameters(value: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    value.split(move |c| {
        let ends = c == ';' && !quoted;
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        ends
    })
}

fn is_parameter(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return false;
    };
    let token = |text: &str| !text.is_empty() && text.bytes().all(is_token);
    let quoted = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
    token(name) && (token(value) || quoted)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn accepts(content_type: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
        is_json(&headers)
    }

    #[test]
    fn content_types() {
        // W-BODY-1
        for good in [
            "application/json",
            "APPLICATION/Json",
            "application/json; charset=utf-8",
            "application/json;a=\"x;y\"",
            "application/vnd.api+json",
        ] {
            assert!(accepts(good), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "application/jsonx",
            "application/+json",
            "json",
            "application/json;",
            "application/json; charset",
            "application/json; =x",
            "application/json, application/json",
        ] {
            assert!(!accepts(bad), "{bad}");
        }
        assert!(!is_json(&HeaderMap::new()));
        let mut twice = HeaderMap::new();
        twice.append(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        twice.append(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        assert!(!is_json(&twice));
    }
}
