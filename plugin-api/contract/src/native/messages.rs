//! Arguments of the operations, by parameter name.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::common::Pair;
use crate::harness_declaration::ProbeReport;
use crate::harness_io::Input;
use crate::harness_session::Configuration;
use crate::host_types::{Command, Request};
use crate::log::Level;
use crate::machine_types::{MachineKeep, MachineSpec, MachineStart};
use crate::mcp_types::ResolveRequest;
use crate::sandbox_types::{Allocation, Bootstrap, CreateKind, Selection, Target};
use crate::state::Scope;

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub struct $name { $($(#[$field_doc])* pub $field: $ty,)* }
    )*};
}

messages! {
    /// Of an operation without any.
    Nothing {}
    /// Of a harness adapter's `describe`.
    DescribeHarness {
        /// Settings.
        settings: Vec<Pair>,
    }
    /// Of `interpret-probe`.
    InterpretProbe {
        /// Harness id.
        harness: String,
        /// What was printed.
        reports: Vec<ProbeReport>,
    }
    /// Of `session.open`.
    Open {
        /// The Executor's.
        configuration: Configuration,
    }
    /// Of `session.step`.
    Step {
        /// What happened.
        inputs: Vec<Input>,
    }
    /// Of `describe` and `check` of a provider.
    OnSelection {
        /// The deployment's.
        on: Selection,
    }
    /// Of `create`.
    Create {
        /// Whose.
        on: Target,
        /// New, or the end of a hand-off.
        kind: CreateKind,
        /// The daemon.
        bootstrap: Bootstrap,
    }
    /// Of `inspect`.
    OnTarget {
        /// Whose.
        on: Target,
    }
    /// Of `renew`.
    Renew {
        /// Whose.
        on: Target,
        /// Milliseconds since 1970.
        until_ms: u64,
    }
    /// Of `suspend`.
    Suspend {
        /// Whose.
        on: Target,
        /// Its id.
        operation: String,
        /// Keeps memory.
        warm: bool,
    }
    /// Of `resume`.
    Resume {
        /// Whose.
        on: Target,
        /// Its id.
        operation: String,
    }
    /// Of `kill`.
    Kill {
        /// Whose.
        on: Target,
        /// Occupies the name.
        fence_name: bool,
    }
    /// Of `list-owned`.
    ListOwned {
        /// The deployment's.
        on: Selection,
        /// Its label.
        installation: String,
        /// Where to go on.
        cursor: Option<String>,
    }
    /// Of `observe`.
    Observe {
        /// Whose.
        on: Vec<Target>,
    }
    /// Of `resolve`.
    Resolve {
        /// Everything that the answer depends on.
        request: ResolveRequest,
    }
    /// Of `log.emit`.
    Emit {
        /// How much it matters.
        level: Level,
        /// The line.
        message: String,
        /// More.
        fields: Vec<Pair>,
    }
    /// Of `clock.sleep-ms`.
    Sleep {
        /// Milliseconds.
        ms: u32,
    }
    /// Of `random.bytes`.
    Random {
        /// How many.
        count: u32,
    }
    /// Of `state.get` and `state.delete`.
    StateKey {
        /// Whose record.
        scope: Scope,
        /// Its key.
        key: String,
    }
    /// Of `state.put`.
    StatePut {
        /// Whose record.
        scope: Scope,
        /// Its key.
        key: String,
        /// Its bytes.
        value: ByteBuf,
    }
    /// Of `http.send`.
    Send {
        /// The request.
        request: Request,
    }
    /// Of `program.run`.
    Run {
        /// The command.
        command: Command,
    }
    /// Of `machine.start`.
    StartMachine {
        /// Whose.
        allocation: Allocation,
        /// What is inside.
        spec: MachineSpec,
        /// First time or again.
        kind: MachineStart,
    }
    /// Of `machine.inspect`.
    OnAllocation {
        /// Whose.
        allocation: Allocation,
    }
    /// Of `machine.stop`.
    StopMachine {
        /// Whose.
        allocation: Allocation,
        /// What stays.
        keep: MachineKeep,
    }
    /// Of `machine.owned`.
    OwnedMachines {
        /// Its label.
        installation: String,
        /// Where to go on.
        cursor: Option<String>,
    }
}
