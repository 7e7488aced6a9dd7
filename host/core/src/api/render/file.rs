//! Files (SRC-009).

use domain::file::{self, File};
use serde::Serialize;

/// A File.
#[derive(Serialize)]
pub(crate) struct FileJson<'a> {
    id: String,
    object: &'static str,
    bytes: u64,
    created_at: i64,
    filename: &'a str,
    purpose: &'static str,
    status: &'static str,
    expires_at: Option<i64>,
    status_details: Option<&'static str>,
}

/// Shows a File.
pub(crate) fn file(file: &File) -> FileJson<'_> {
    FileJson {
        id: file.id.to_string(),
        object: "file",
        bytes: file.content.size,
        created_at: file.created_at.seconds(),
        filename: &file.filename,
        purpose: file::PURPOSE,
        status: "processed",
        expires_at: None,
        status_details: None,
    }
}
