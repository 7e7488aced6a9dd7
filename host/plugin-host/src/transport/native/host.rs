//! The host's half of a native plugin's calls back: a message in, a message out.

use contract::Host;
use contract::native::messages as m;
use contract::native::operation::host as op;
use contract::native::{BAD_MESSAGE, ERROR, OK, UNKNOWN_OPERATION};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_bytes::ByteBuf;

use crate::transport::PluginLog;

type Answer = (i32, Vec<u8>);

/// Serves one call. Without a host (a harness adapter, a resolver) there is only the log.
pub(super) fn serve(
    host: Option<&dyn Host>,
    log: &PluginLog,
    operation: u32,
    input: &[u8],
) -> Answer {
    match (operation, host) {
        (op::LOG_EMIT, _) => with(input, |line: m::Emit| {
            match host {
                Some(host) => host.log().emit(line.level, &line.message, &line.fields),
                None => log.emit(line.level, &line.message, &line.fields),
            }
            ok(&())
        }),
        (_, Some(host)) => capability(host, operation, input),
        (_, None) => (UNKNOWN_OPERATION, Vec::new()),
    }
}

fn capability(host: &dyn Host, operation: u32, input: &[u8]) -> Answer {
    match operation {
        op::CLOCK_NOW => ok(&host.clock().now_ms()),
        op::CLOCK_SLEEP => with(input, |m::Sleep { ms }| {
            host.clock().sleep_ms(ms);
            ok(&())
        }),
        op::RANDOM_BYTES => with(input, |m::Random { count }| {
            ok(&ByteBuf::from(host.random().bytes(count)))
        }),
        op::STATE_GET => with(input, |m::StateKey { scope, key }| {
            result(
                host.state()
                    .get(scope, &key)
                    .map(|found| found.map(ByteBuf::from)),
            )
        }),
        op::STATE_PUT => with(input, |m::StatePut { scope, key, value }| {
            result(host.state().put(scope, &key, &value))
        }),
        op::STATE_DELETE => with(input, |m::StateKey { scope, key }| {
            result(host.state().delete(scope, &key))
        }),
        op::HTTP_SEND => with(input, |m::Send { request }| {
            result(host.http().send(&request))
        }),
        op::PROGRAM_RUN => with(input, |m::Run { command }| {
            result(host.program().run(&command))
        }),
        op::MACHINE_PROBE => ok(&host.machine().probe()),
        op::MACHINE_START => with(input, |order: m::StartMachine| {
            let machine = host.machine();
            result(machine.start(&order.allocation, &order.spec, order.kind))
        }),
        op::MACHINE_INSPECT => with(input, |m::OnAllocation { allocation }| {
            result(host.machine().inspect(&allocation))
        }),
        op::MACHINE_STOP => with(input, |m::StopMachine { allocation, keep }| {
            result(host.machine().stop(&allocation, keep))
        }),
        op::MACHINE_OWNED => with(input, |page: m::OwnedMachines| {
            let machine = host.machine();
            result(machine.owned(&page.installation, page.cursor.as_deref()))
        }),
        _ => (UNKNOWN_OPERATION, Vec::new()),
    }
}

fn with<T: DeserializeOwned>(input: &[u8], call: impl FnOnce(T) -> Answer) -> Answer {
    match rmp_serde::from_slice(input) {
        Ok(arguments) => call(arguments),
        Err(_) => (BAD_MESSAGE, Vec::new()),
    }
}

fn result<T: Serialize, E: Serialize>(result: Result<T, E>) -> Answer {
    match result {
        Ok(value) => ok(&value),
        Err(error) => written(ERROR, &error),
    }
}

fn ok(value: &impl Serialize) -> Answer {
    written(OK, value)
}

fn written(status: i32, value: &impl Serialize) -> Answer {
    match rmp_serde::to_vec_named(value) {
        Ok(message) => (status, message),
        Err(_) => (BAD_MESSAGE, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        // The host of a harness adapter: only the log answers, whatever comes.
        #[test]
        fn any_message_is_answered(operation in 0..800_u32, input in proptest::collection::vec(proptest::num::u8::ANY, 0..256)) {
            let (status, _) = serve(None, &PluginLog::new("p"), operation, &input);
            let known = operation == op::LOG_EMIT;
            proptest::prop_assert_eq!(status == UNKNOWN_OPERATION, !known);
        }
    }

    #[test]
    fn a_line_is_written_and_a_damaged_one_is_refused() {
        let log = PluginLog::new("p");
        let line = m::Emit {
            level: contract::log::Level::Info,
            message: "m".to_owned(),
            fields: Vec::new(),
        };
        let message = rmp_serde::to_vec_named(&line).unwrap();
        assert_eq!(serve(None, &log, op::LOG_EMIT, &message).0, OK);
        let cut = &message[..message.len() - 1];
        assert_eq!(serve(None, &log, op::LOG_EMIT, cut).0, BAD_MESSAGE);
    }
}
