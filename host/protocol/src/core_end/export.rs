//! Files that a Runtime sends under Core's credit (RP-15.18).

use std::collections::HashMap;

use domain::FrameId;
use domain::run::Binding;

use super::{CoreEnd, Notice};
use crate::moment::Moment;
use crate::wire::{Chunk, CloseReason, CoreFrame, Credit, ExportEntry, ExportEntryEnd};

#[derive(Debug)]
struct Export {
    binding: Binding,
    stream: u32,
    /// Bytes that may still come.
    credit: u64,
    /// Bytes seen on the stream.
    offset: u64,
    /// Bytes of the open file that are still to come.
    open: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Exports(HashMap<FrameId, Export>);

impl Exports {
    pub fn open(&mut self, id: FrameId, binding: Binding, stream: u32) {
        self.0.insert(
            id,
            Export {
                binding,
                stream,
                credit: 0,
                offset: 0,
                open: None,
            },
        );
    }

    pub fn close(&mut self, id: FrameId) {
        self.0.remove(&id);
    }

    fn of(&mut self, stream: u32) -> Option<(FrameId, &mut Export)> {
        self.0
            .iter_mut()
            .find(|(_, export)| export.stream == stream)
            .map(|(id, export)| (*id, export))
    }
}

impl CoreEnd {
    pub(super) fn credit(&mut self, now: Moment, binding: Binding, stream: u32, bytes: u64) {
        let Some((id, export)) = self.exports.of(stream) else {
            return;
        };
        if export.binding == binding {
            export.credit = export.credit.saturating_add(bytes);
            self.requests.goes_on(now, id);
            self.send(&CoreFrame::Credit(binding, Credit { stream, bytes }));
        }
    }

    pub(super) fn export_entry(&mut self, now: Moment, binding: Binding, entry: ExportEntry) {
        let Some((id, export)) = self.exports.of(entry.stream) else {
            return;
        };
        if export.binding != binding {
            return;
        }
        if export.open.is_some() {
            return self.close(CloseReason::ProtocolViolation, None);
        }
        export.open = Some(entry.size);
        self.requests.goes_on(now, id);
        self.notice(Notice::ExportEntry { id, entry });
    }

    pub(super) fn export_chunk(&mut self, now: Moment, chunk: Chunk) {
        // Late chunks of a finished export are inert: streams are never used again on a connection.
        let Some((id, export)) = self.exports.of(chunk.stream) else {
            return;
        };
        let bytes = chunk.payload.len() as u64;
        let fits = chunk.offset == export.offset
            && bytes <= export.credit
            && export.open.is_some_and(|left| bytes <= left);
        if !fits {
            return self.close(CloseReason::ProtocolViolation, None);
        }
        export.offset += bytes;
        export.credit -= bytes;
        export.open = export.open.map(|left| left - bytes);
        self.requests.goes_on(now, id);
        self.notice(Notice::ExportBytes {
            id,
            bytes: chunk.payload,
        });
    }

    pub(super) fn export_entry_end(&mut self, now: Moment, binding: Binding, end: ExportEntryEnd) {
        let Some((id, export)) = self.exports.of(end.stream) else {
            return;
        };
        if export.binding != binding {
            return;
        }
        let complete = export.open == Some(0) || (end.skipped && export.open.is_some());
        if !complete {
            return self.close(CloseReason::ProtocolViolation, None);
        }
        export.open = None;
        self.requests.goes_on(now, id);
        self.notice(Notice::ExportEntryEnd {
            id,
            sha256: end.sha256,
            skipped: end.skipped,
        });
    }
}
