//! What one result may say by itself.

use contract::sandbox_types::{Outcome, SandboxInfo, SandboxState};

use crate::{Result, ensure, is_code};

/// Rules about any result; `removes` is true for `kill`.
pub fn well_formed(outcome: &Outcome, removes: bool) -> Result {
    match outcome {
        Outcome::Done(info) => {
            let gone = matches!(info.state, SandboxState::Gone | SandboxState::Tombstone);
            ensure(removes || !gone, "SP-4.5", || {
                "something is gone and nobody removed it".into()
            })
        }
        Outcome::Exists(info) => ensure(info.state != SandboxState::Gone, "SP-3.6", || {
            "it exists and is gone".into()
        }),
        Outcome::Rejected(rejection) => ensure(is_code(&rejection.code), "SP-12.1", || {
            format!("code {:?}", rejection.code)
        }),
        Outcome::Unknown(doubt) => ensure(is_code(&doubt.code), "SP-12.1", || {
            format!("code {:?}", doubt.code)
        }),
        Outcome::NotFound | Outcome::NotOurs => Ok(()),
    }
}

/// The information of a confirmed result.
pub fn done<'a>(outcome: &'a Outcome, rule: &'static str) -> Result<&'a SandboxInfo> {
    match outcome {
        Outcome::Done(info) => Ok(info),
        other => crate::broken(rule, format!("expected done, got {other:?}")),
    }
}

/// A settled no that left nothing behind.
pub fn rejected(outcome: &Outcome, rule: &'static str) -> Result {
    let clean = matches!(outcome, Outcome::Rejected(rejection) if rejection.remains.is_none());
    ensure(clean, rule, || {
        format!("expected rejected without remains, got {outcome:?}")
    })
}

/// The refusal of an operation that was not declared.
pub fn unsupported(outcome: &Outcome) -> Result {
    let code = match outcome {
        Outcome::Rejected(rejection) => rejection.code.as_str(),
        _ => "",
    };
    ensure(code == "unsupported_operation", "SP-3.1", || {
        format!("an ability that is not declared answered {outcome:?}")
    })
}

/// Doubt.
pub fn unknown(outcome: &Outcome, rule: &'static str) -> Result {
    ensure(matches!(outcome, Outcome::Unknown(_)), rule, || {
        format!("expected unknown, got {outcome:?}")
    })
}
