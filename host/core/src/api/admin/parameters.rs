//! Query parameters of the administration: each known, given once, not empty; anything else is 400 `invalid_request`.

use std::collections::HashMap;

use domain::Timestamp;
use percent_encoding::percent_decode_str;

use crate::api::call::Call;
use crate::api::error::{AdminError, ApiError};

/// Most records of a page.
pub(super) const MOST: u32 = 100;

/// The parameters of one request.
pub(super) type Query = HashMap<String, String>;

/// Known parameters, each once and not empty (OPS-065).
pub(super) fn query(call: &Call, known: &[&str]) -> Result<Query, ApiError> {
    let mut found = HashMap::new();
    let query = call.parts.uri.query().unwrap_or_default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(AdminError::Request)?;
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8();
        let value = value.map_err(|_| AdminError::Request)?.into_owned();
        let fits = known.contains(&key) && !value.is_empty() && !value.contains('\0');
        if !fits || found.insert(key.to_owned(), value).is_some() {
            return Err(AdminError::Request.into());
        }
    }
    Ok(found)
}

/// A moment in RFC 3339.
pub(super) fn time(query: &Query, name: &str) -> Result<Option<Timestamp>, AdminError> {
    let Some(text) = query.get(name) else {
        return Ok(None);
    };
    let at: jiff::Timestamp = text.parse().map_err(|_| AdminError::Request)?;
    Ok(Some(Timestamp::from_millis(at.as_millisecond())))
}

/// `limit`, 1 to [`MOST`].
pub(super) fn limit(query: &Query, default: u32) -> Result<u32, AdminError> {
    let Some(text) = query.get("limit") else {
        return Ok(default);
    };
    let limit: u32 = text.parse().map_err(|_| AdminError::Request)?;
    let fits = (1..=MOST).contains(&limit);
    fits.then_some(limit).ok_or(AdminError::Request)
}
