//! Rules about single outputs that need no memory.

use contract::common::Failure;
use contract::harness_events::{NativeFailure, Notice, TurnStatus};
use contract::harness_io::{Afterwards, Settlement};
use contract::harness_launch::{Framing, HomeContent, HomeEntry, LaunchPlan, Piece};

use crate::{Result, ensure, is_code};
use contract::catalogue::{FAILURE_CODES, PREPARE_CODES};

/// Longest line that a framing may allow.
const LONGEST_LINE: u32 = 16 * 1024 * 1024;

pub fn launch(plan: &LaunchPlan) -> Result {
    ensure(plan.process < 4, "contract", || {
        format!("process {}", plan.process)
    })?;
    ensure(
        !plan.program.is_empty() && !plan.program.contains('/'),
        "contract",
        || format!("{:?} is no program name", plan.program),
    )?;
    for variable in &plan.env {
        let name = variable.name.as_str();
        ensure(
            !name.is_empty() && !name.contains(['=', '\0']),
            "contract",
            || format!("{name:?} is no variable"),
        )?;
    }
    if let Framing::Lines(longest) = plan.framing {
        ensure((1..=LONGEST_LINE).contains(&longest), "F05", || {
            format!("lines of {longest}")
        })?;
    }
    plan.home.iter().try_for_each(home_entry)
}

pub fn home_entry(entry: &HomeEntry) -> Result {
    let clean = entry
        .path
        .split('/')
        .all(|part| !matches!(part, "" | "." | ".."));
    ensure(clean && !entry.path.contains('\0'), "contract", || {
        format!("{:?} is no clean relative path", entry.path)
    })?;
    ensure(entry.mode <= 0o777, "contract", || {
        format!("mode {:o}", entry.mode)
    })?;
    if let HomeContent::File(pieces) = &entry.content {
        let filled = pieces.iter().any(|piece| matches!(piece, Piece::Fill(_)));
        ensure(!filled || entry.mode & 0o077 == 0, "ENV-601", || {
            format!(
                "{:?} has a filled-in value and mode {:o}",
                entry.path, entry.mode
            )
        })?;
    }
    Ok(())
}

pub fn prepare_failure(failure: &Failure) -> Result {
    ensure(
        PREPARE_CODES.contains(&failure.code.as_str()),
        "RP-10.12",
        || format!("code {:?}", failure.code),
    )?;
    detail(&failure.detail)
}

pub fn settlement(settlement: &Settlement) -> Result {
    if let Afterwards::Retire(code) = &settlement.afterwards {
        ensure(is_code(code), "TRN-006", || format!("code {code:?}"))?;
    }
    ensure(
        settlement.failure.is_none() || settlement.status == TurnStatus::Failed,
        "RP-11.4",
        || format!("{:?} with a failure", settlement.status),
    )?;
    settlement.failure.as_ref().map_or(Ok(()), native_failure)
}

fn native_failure(failure: &NativeFailure) -> Result {
    let code = failure.code.as_deref();
    ensure(
        code.is_none_or(|code| FAILURE_CODES.contains(&code)),
        "RP-11.5",
        || format!("code {code:?}"),
    )?;
    if let Some(status) = failure.http_status {
        let told = code == Some("connection_failed") && (100..=599).contains(&status);
        ensure(told, "RP-11.5", || format!("{code:?} with status {status}"))?;
    }
    detail(&failure.detail)
}

pub fn notice(notice: &Notice) -> Result {
    ensure(is_code(&notice.code), "TRN-013", || {
        format!("code {:?}", notice.code)
    })?;
    detail(&notice.detail)
}

fn detail(text: &str) -> Result {
    ensure(text.len() <= 1024, "SP-3.7", || {
        format!("a detail of {} bytes", text.len())
    })
}
