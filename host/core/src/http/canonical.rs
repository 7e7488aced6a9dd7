//! One spelling for every path, before routing and authentication (`wire.md` 2), so that no spelling goes around a check.

/// The path holds an escape that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undecodable;

/// Decodes the escapes of unreserved characters and resolves empty, `.` and `..` segments. Other escapes stay as they are
/// and never split a segment; a trailing slash is preserved.
pub(crate) fn canonical(path: &str) -> Result<String, Undecodable> {
    let decoded = decode_unreserved(path)?;
    let mut segments: Vec<&str> = Vec::new();
    let mut trailing = false;
    for segment in decoded.split('/').skip(1) {
        trailing = false;
        match segment {
            "" | "." => trailing = true,
            ".." => {
                segments.pop();
                trailing = true;
            }
            segment => segments.push(segment),
        }
    }
    let mut path = String::with_capacity(decoded.len());
    for segment in segments {
        path.push('/');
        path.push_str(segment);
    }
    if trailing || path.is_empty() {
        path.push('/');
    }
    Ok(path)
}

fn decode_unreserved(path: &str) -> Result<String, Undecodable> {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let escape = rest.get(at + 1..at + 3).ok_or(Undecodable)?;
        if !escape.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Undecodable);
        }
        let byte = u8::from_str_radix(escape, 16).map_err(|_| Undecodable)?;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(escape);
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dot_and_empty_segments_are_resolved() {
        // W-PATH-1, W-PATH-2, W-PATH-3
        for (raw, path) in [
            ("/v1/agents", "/v1/agents"),
            ("//v1///agents", "/v1/agents"),
            ("/v1/./agents/x/../y", "/v1/agents/y"),
            ("/v1/agents/x/../", "/v1/agents/"),
            ("/v1/agents/x/..", "/v1/agents/"),
            ("/v1/agents/", "/v1/agents/"),
            ("/v1/agents/%2e%2E/vaults", "/v1/vaults"),
            ("/%76%31/agents", "/v1/agents"),
            ("/v1/agents/a%2Fb", "/v1/agents/a%2Fb"),
            ("/v1/agents/%252F%5c", "/v1/agents/%252F%5c"),
            ("/../../x", "/x"),
            ("/..", "/"),
            ("/", "/"),
            ("", "/"),
        ] {
            assert_eq!(canonical(raw).as_deref(), Ok(path), "{raw}");
        }
    }

    #[test]
    fn a_broken_escape_has_no_canonical_form() {
        // W-PATH-10
        for raw in ["/v1/%", "/v1/%4", "/v1/%zz", "/v1/%+1", "/v1/%é"] {
            assert_eq!(canonical(raw), Err(Undecodable), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn canonical_paths_are_fixed_points_without_dots(raw in "(/([a-c.]|%2[ef]|%4[1x]|%25){0,4}){0,6}") {
            if let Ok(path) = canonical(&raw) {
                prop_assert_eq!(canonical(&path), Ok(path.clone()));
                prop_assert!(path.starts_with('/'));
                let inner = path.trim_end_matches('/').split('/').skip(1);
                for segment in inner {
                    prop_assert!(!matches!(segment, "" | "." | ".."));
                }
            }
        }
    }
}
