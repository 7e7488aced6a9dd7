//! Messages to calls of the driver traits.

use contract::native::messages as m;
use contract::native::operation::{FEATURES, harness, resolver, sandbox};
use contract::{HarnessAdapter, HarnessSession, Host, McpResolver, SandboxProvider};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Answer, Plugin, read, written};

/// An operation that belongs to no instance.
pub(super) fn call(plugin: &Plugin, host: &dyn Host, operation: u32, input: &[u8]) -> Answer {
    match plugin {
        Plugin::Harness(adapter) => call_harness(adapter.get(), operation, input),
        Plugin::Sandbox(provider) => call_sandbox(provider.get(), host, operation, input),
        Plugin::Resolver(resolver) => call_resolver(resolver.get(), operation, input),
    }
}

/// `session.open`.
pub(super) fn open(plugin: &Plugin, input: &[u8]) -> (Option<Box<dyn HarnessSession>>, Answer) {
    let Plugin::Harness(adapter) = plugin else {
        return (None, Answer::Unknown);
    };
    let Some(m::Open { configuration }) = read(input) else {
        return (None, Answer::BadMessage);
    };
    match adapter.get().open(configuration) {
        Ok(session) => (Some(session), ok(&())),
        Err(failure) => (None, error(&failure)),
    }
}

/// An operation of an instance.
pub(super) fn step(session: &mut dyn HarnessSession, operation: u32, input: &[u8]) -> Answer {
    match operation {
        harness::STEP => with(input, |m::Step { inputs }| result(session.step(inputs))),
        _ => Answer::Unknown,
    }
}

fn call_harness(adapter: &dyn HarnessAdapter, operation: u32, input: &[u8]) -> Answer {
    match operation {
        FEATURES => ok(&adapter.features()),
        harness::DESCRIBE => with(input, |m::DescribeHarness { settings }| {
            result(adapter.describe(&settings))
        }),
        harness::INTERPRET_PROBE => with(input, |m::InterpretProbe { harness, reports }| {
            ok(&adapter.interpret_probe(&harness, &reports))
        }),
        _ => Answer::Unknown,
    }
}

fn call_sandbox(
    provider: &dyn SandboxProvider,
    host: &dyn Host,
    operation: u32,
    input: &[u8],
) -> Answer {
    match operation {
        FEATURES => ok(&provider.features()),
        sandbox::DESCRIBE => with(input, |m::OnSelection { on }| {
            result(provider.describe(host, &on))
        }),
        sandbox::CHECK => with(
            input,
            |m::OnSelection { on }| ok(&provider.check(host, &on)),
        ),
        sandbox::CREATE => with(
            input,
            |m::Create {
                 on,
                 kind,
                 bootstrap,
             }| ok(&provider.create(host, &on, kind, &bootstrap)),
        ),
        sandbox::INSPECT => with(input, |m::OnTarget { on }| ok(&provider.inspect(host, &on))),
        sandbox::RENEW => with(input, |m::Renew { on, until_ms }| {
            ok(&provider.renew(host, &on, until_ms))
        }),
        sandbox::SUSPEND => with(
            input,
            |m::Suspend {
                 on,
                 operation,
                 warm,
             }| ok(&provider.suspend(host, &on, &operation, warm)),
        ),
        sandbox::RESUME => with(input, |m::Resume { on, operation }| {
            ok(&provider.resume(host, &on, &operation))
        }),
        sandbox::KILL => with(input, |m::Kill { on, fence_name }| {
            ok(&provider.kill(host, &on, fence_name))
        }),
        sandbox::LIST_OWNED => with(
            input,
            |m::ListOwned {
                 on,
                 installation,
                 cursor,
             }| {
                result(provider.list_owned(host, &on, &installation, cursor.as_deref()))
            },
        ),
        sandbox::OBSERVE => with(input, |m::Observe { on }| {
            result(provider.observe(host, &on))
        }),
        _ => Answer::Unknown,
    }
}

fn call_resolver(plugin: &dyn McpResolver, operation: u32, input: &[u8]) -> Answer {
    match operation {
        FEATURES => ok(&plugin.features()),
        resolver::RESOLVE => with(input, |m::Resolve { request }| {
            result(plugin.resolve(&request))
        }),
        _ => Answer::Unknown,
    }
}

fn with<T: DeserializeOwned>(input: &[u8], call: impl FnOnce(T) -> Answer) -> Answer {
    read(input).map_or(Answer::BadMessage, call)
}

fn result<T: Serialize, E: Serialize>(result: Result<T, E>) -> Answer {
    match result {
        Ok(value) => ok(&value),
        Err(failure) => error(&failure),
    }
}

fn ok(value: &impl Serialize) -> Answer {
    written(value).map_or(Answer::BadMessage, Answer::Ok)
}

fn error(failure: &impl Serialize) -> Answer {
    written(failure).map_or(Answer::BadMessage, Answer::Error)
}
