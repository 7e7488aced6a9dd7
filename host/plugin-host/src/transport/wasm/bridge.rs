//! A component's way to the host during one call. The store that runs it may hold nothing borrowed, so the component runs
//! on a thread of its own and every import is a job for the thread that has the host.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

use contract::Host;

type Job = Box<dyn FnOnce(&dyn Host) + Send>;

/// Held by the store.
pub(super) struct Bridge(std::sync::mpsc::Sender<Job>);

impl Bridge {
    /// Runs something with the host and waits for its answer.
    pub(super) fn with<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Host) -> T + Send + 'static,
    ) -> wasmtime::Result<T> {
        let gone = || wasmtime::Error::msg("the call is over");
        let (answer, answered): (SyncSender<T>, Receiver<T>) = sync_channel(1);
        let job: Job = Box::new(move |host| {
            // Nobody waits any more only if the component's thread is gone.
            let _ = answer.send(call(host));
        });
        self.0.send(job).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())
    }
}

/// Runs `call` on a thread of its own and serves it with `host` until it is done.
pub(super) fn lend<T: Send>(host: &dyn Host, call: impl FnOnce(Bridge) -> T + Send) -> Option<T> {
    let (sender, jobs) = channel::<Job>();
    std::thread::scope(|scope| {
        let running = std::thread::Builder::new()
            .name("wasm-provider".to_owned())
            .spawn_scoped(scope, move || call(Bridge(sender)))
            .ok()?;
        // Ends when the store, and the bridge in it, is dropped.
        for job in jobs {
            job(host);
        }
        running.join().ok()
    })
}
