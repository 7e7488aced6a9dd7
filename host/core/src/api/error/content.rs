//! Answers of Files and Skills, and of content that is sent or fetched (E400-45 to E400-51, E404-02, E413-01, E503-05).

use axum::http::StatusCode;
use domain::invalid::is_echoable;

use super::Row;

/// What a client of Files or Skills is told instead of a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ContentError {
    /// E404-02, with the parameter that names what is missing.
    Missing(Option<&'static str>),
    /// E400-45: a version cursor that is no version id.
    VersionCursor(String),
    /// E400-45: a version cursor of another Skill.
    OtherSkill,
    /// E400-45: a version that is no positive number, or none at all.
    Version(&'static str),
    /// E400-49: a body where none is taken.
    Body,
    /// E400-51: a `purpose` filter that is no purpose.
    Purpose,
    /// E400-51: uploads are never given back (SRC-016).
    NotDownloadable,
    /// An upload that breaks a rule (SRC-003, SRC-006, SKL-010 to SKL-017), by its part.
    Upload {
        /// The part, or none for the whole form.
        param: Option<&'static str>,
        /// What is wrong with it.
        message: String,
    },
    /// E413-01.
    TooLarge,
    /// SRC-005: the bytes did not come in time.
    Stalled,
    /// E503-05: the bytes could not be stored or read.
    Storage(&'static str),
}

impl ContentError {
    /// An upload that breaks a rule.
    pub(crate) fn upload(param: Option<&'static str>, message: impl ToString) -> Self {
        Self::Upload {
            param,
            message: message.to_string(),
        }
    }

    pub(super) fn row(&self) -> Row {
        match self {
            Self::Missing(param) => {
                let mut row = Row::new(StatusCode::NOT_FOUND, "", "Resource not found.");
                row.code = None;
                row.param = param.map(str::to_owned);
                row
            }
            Self::VersionCursor(value) => {
                let value = match is_echoable(value) {
                    true => format!(": '{value}'"),
                    false => String::new(),
                };
                let message =
                    format!("Invalid 'after'{value}. Expected an ID that begins with 'skillver'.");
                Row::bad("invalid_value", message).at("after")
            }
            Self::OtherSkill => {
                let message = "Skill version cursor does not match this skill.";
                Row::bad("invalid_value", message).at("after")
            }
            Self::Version(param) => {
                let message = format!("'{param}' must name a version by its positive number.");
                Row::bad("invalid_value", message).at(param)
            }
            Self::Body => Row::bad("unsupported_parameter", "This operation takes no body."),
            Self::Purpose => {
                let mut row = Row::bad("", "purpose is not one of the supported purposes.");
                row.code = None;
                row.at("purpose")
            }
            Self::NotDownloadable => {
                let message = "Not allowed to download files of purpose: user_data";
                let mut row = Row::bad("", message);
                row.code = None;
                row
            }
            Self::Upload { param, message } => {
                let mut row = Row::bad("invalid_request", message.clone());
                row.param = param.map(str::to_owned);
                row
            }
            Self::TooLarge => {
                let message = "File exceeds this operation's content limit.";
                Row::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
            }
            Self::Stalled => {
                let message = "The upload did not finish in time.";
                Row::bad("invalid_request", message)
            }
            Self::Storage(code) => {
                let mut row = Row::unavailable(code, "Stored content is not available.");
                row.should_retry = Some(true);
                row
            }
        }
    }
}
