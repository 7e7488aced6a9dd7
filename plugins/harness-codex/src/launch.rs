//! The process: `codex app-server --strict-config`, the native binary, private home, nothing inherited.

use sdk::common::Encoding;
use sdk::harness_launch::{Directory, Fill, FillPiece, Framing, LaunchPlan, Piece, Variable};

use crate::check::{Place, Setup};
use crate::config::{self, TOKEN_VARIABLE};

/// The only process of a session.
pub const PROCESS: u32 = 0;

/// A command item carries up to 1 MiB of output, escaped; the contract's own bound leaves room for all of them.
const LONGEST_LINE: u32 = 16 * 1024 * 1024;

pub fn plan(setup: &Setup) -> LaunchPlan {
    let mut env = vec![
        variable("CODEX_HOME", Piece::Text(setup.home.clone())),
        variable(
            TOKEN_VARIABLE,
            Piece::Fill(FillPiece {
                value: Fill::RelayToken,
                encoding: Encoding::Raw,
            }),
        ),
    ];
    let directory = match setup.place {
        Place::Absent => {
            env.push(variable(
                "CODEX_EXEC_SERVER_URL",
                Piece::Text("none".into()),
            ));
            Directory::Home
        }
        Place::Here(_) => Directory::Workspace,
    };
    LaunchPlan {
        process: PROCESS,
        program: "codex".into(),
        args: vec!["app-server".into(), "--strict-config".into()],
        env,
        home: config::home(setup),
        directory,
        framing: Framing::Lines(LONGEST_LINE),
        tools: None,
        more: Vec::new(),
    }
}

fn variable(name: &str, value: Piece) -> Variable {
    Variable {
        name: name.into(),
        value: vec![value],
    }
}
