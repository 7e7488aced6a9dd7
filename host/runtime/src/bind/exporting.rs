//! Exports of one Session: each in a thread of its own, under Core's credit (RP-15.18).

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use domain::{
    FrameId,
    run::{Binding, RefusalCode},
};
use protocol::runtime_end::Command;
use protocol::wire::{Answer, Chunk, Code, ExportEntry, ExportEntryEnd, Proof, WorkspaceExport};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc},
};

use crate::files::{ExportFailure, Gone, Sink, export};

/// The exports in progress.
#[derive(Debug)]
pub(super) struct Exports {
    binding: Binding,
    out: mpsc::UnboundedSender<Command>,
    open: HashMap<u32, Arc<Semaphore>>,
    ends: mpsc::UnboundedReceiver<(u32, FrameId, Answer)>,
    ender: mpsc::UnboundedSender<(u32, FrameId, Answer)>,
}

impl Exports {
    pub(super) fn new(binding: Binding, out: mpsc::UnboundedSender<Command>) -> Self {
        let (ender, ends) = mpsc::unbounded_channel();
        Self {
            binding,
            out,
            open: HashMap::new(),
            ends,
            ender,
        }
    }

    /// Begins one; its receipt comes from [`Exports::finished`].
    pub(super) fn start(&mut self, ask: FrameId, request: WorkspaceExport, workspace: PathBuf) {
        // Core has one at a time, so it has given an older one up: that must not wait for credit for ever.
        self.abort_all();
        let credit = Arc::new(Semaphore::new(0));
        self.open.insert(request.stream, Arc::clone(&credit));
        let (binding, out, ender) = (self.binding, self.out.clone(), self.ender.clone());
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            let stream = request.stream;
            let mut sink = Link {
                binding,
                stream,
                offset: 0,
                out,
                credit,
                runtime,
            };
            let answer = match export(&workspace, &request.have, &mut sink) {
                Ok((files, bytes)) => Answer::Ok(Proof::Exported { files, bytes }),
                Err(ExportFailure::Refused(code)) => Answer::Failed {
                    code: Code::Refusal(code),
                    exit_code: None,
                },
                Err(ExportFailure::Gone) => {
                    Answer::Rejected(Code::Refusal(RefusalCode::BindingStale))
                }
            };
            // The Session is gone only when nobody waits.
            let _ = ender.send((stream, ask, answer));
        });
    }

    /// Core has taken bytes, so as many more may go.
    pub(super) fn credit(&self, stream: u32, bytes: u64) {
        if let Some(credit) = self.open.get(&stream) {
            let bytes = usize::try_from(bytes).unwrap_or(Semaphore::MAX_PERMITS);
            credit.add_permits(bytes.min(Semaphore::MAX_PERMITS - credit.available_permits()));
        }
    }

    /// None is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// The connection or the binding ended.
    pub(super) fn abort_all(&mut self) {
        self.open.values().for_each(|credit| credit.close());
    }

    /// The receipt of the next export that ends. Cancel safe; never ready while none is open.
    pub(super) async fn finished(&mut self) -> Option<(FrameId, Answer)> {
        let (stream, ask, answer) = self.ends.recv().await?;
        self.open.remove(&stream);
        Some((ask, answer))
    }
}

struct Link {
    binding: Binding,
    stream: u32,
    offset: u64,
    out: mpsc::UnboundedSender<Command>,
    credit: Arc<Semaphore>,
    runtime: Handle,
}

impl Link {
    fn send(&self, command: Command) -> Result<(), Gone> {
        if self.credit.is_closed() {
            return Err(Gone);
        }
        self.out.send(command).map_err(|_| Gone)
    }
}

impl Sink for Link {
    fn entry(&mut self, path: &str, size: u64) -> Result<(), Gone> {
        self.send(Command::ExportEntry {
            binding: self.binding,
            entry: ExportEntry {
                stream: self.stream,
                path: path.to_owned(),
                size,
            },
        })
    }

    fn bytes(&mut self, bytes: &[u8], last: bool) -> Result<(), Gone> {
        let amount = u32::try_from(bytes.len()).map_err(|_| Gone)?;
        let permits = self
            .runtime
            .block_on(self.credit.acquire_many(amount))
            .map_err(|_| Gone)?;
        permits.forget();
        let chunk = Chunk {
            stream: self.stream,
            offset: self.offset,
            last,
            payload: bytes.to_vec(),
        };
        self.offset += bytes.len() as u64;
        self.send(Command::ExportChunk(chunk))
    }

    fn end(&mut self, sha256: String, skipped: bool) -> Result<(), Gone> {
        self.send(Command::ExportEntryEnd {
            binding: self.binding,
            end: ExportEntryEnd {
                stream: self.stream,
                sha256,
                skipped,
            },
        })
    }
}
