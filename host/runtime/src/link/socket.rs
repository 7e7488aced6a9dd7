//! One open socket with bounded writes (RP-4.8).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _, stream::SplitStream};
use protocol::wire::{CloseReason, Message, limits};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::timeout,
};
use tokio_tungstenite::tungstenite::{
    Message as Frame,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::dial::Socket;

/// For the close handshake.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// What a socket brings.
pub(super) enum Incoming {
    /// A message.
    Message(Message),
    /// It is over; the reason, if Core gave one of ours.
    Closed(Option<CloseReason>),
}

/// Reads directly, writes through a queue of its own task.
pub(super) struct Open {
    reader: SplitStream<Socket>,
    writes: mpsc::Sender<Frame>,
    waiting: Arc<Waiting>,
    writer: JoinHandle<()>,
}

/// Frames that are not written yet.
#[derive(Default)]
pub(super) struct Waiting {
    frames: AtomicUsize,
    written: Notify,
}

impl Waiting {
    /// Waits until so few frames are waiting that work may add to them: what a Core that reads slowly cannot take stays with
    /// the Executors, whose own limits stop them from reading their harness (RP-11.11). Answers and heartbeats are not
    /// held up, so half of the queue is theirs. Cancel safe.
    pub(super) async fn room(&self) {
        loop {
            // Registered before looking, so that a frame written in between is not missed.
            let written = self.written.notified();
            if self.frames.load(Ordering::Relaxed) < limits::WRITE_QUEUE / 2 {
                return;
            }
            written.await;
        }
    }
}

impl Open {
    pub(super) fn new(socket: Socket) -> Self {
        let (mut sink, reader) = socket.split();
        let (writes, mut queue) = mpsc::channel::<Frame>(limits::WRITE_QUEUE);
        let waiting = Arc::<Waiting>::default();
        let written = Arc::clone(&waiting);
        let within = Duration::from_millis(limits::WRITE_MS.unsigned_abs());
        let writer = tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                let last = matches!(frame, Frame::Close(_));
                // A socket that takes nothing for 10 s is given up; the reader sees its end.
                if !matches!(timeout(within, sink.send(frame)).await, Ok(Ok(()))) || last {
                    break;
                }
                written.frames.fetch_sub(1, Ordering::Relaxed);
                written.written.notify_one();
            }
            let _ = timeout(CLOSE_WITHIN, sink.close()).await;
        });
        Self {
            reader,
            writes,
            waiting,
            writer,
        }
    }

    /// What is not written yet.
    pub(super) fn waiting(&self) -> Arc<Waiting> {
        Arc::clone(&self.waiting)
    }

    /// Queues a message. False when the queue is full or the writer is gone: the socket must be closed, nothing is dropped
    /// in silence.
    pub(super) fn send(&self, message: Message) -> bool {
        let frame = match message {
            Message::Text(text) => Frame::text(text),
            Message::Binary(bytes) => Frame::binary(bytes),
        };
        self.waiting.frames.fetch_add(1, Ordering::Relaxed);
        self.writes.try_send(frame).is_ok()
    }

    /// The next thing that comes in. Cancel safe.
    pub(super) async fn next(&mut self) -> Incoming {
        loop {
            return match self.reader.next().await {
                Some(Ok(Frame::Text(text))) => {
                    Incoming::Message(Message::Text(text.as_str().to_owned()))
                }
                Some(Ok(Frame::Binary(bytes))) => {
                    Incoming::Message(Message::Binary(bytes.to_vec()))
                }
                // Control frames are no sign of life (RP-3.10); the library answers them.
                Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => continue,
                Some(Ok(Frame::Close(frame))) => Incoming::Closed(
                    frame.and_then(|frame| CloseReason::from_code(frame.code.into())),
                ),
                Some(Err(error)) => {
                    tracing::debug!(%error, "the socket to Core broke");
                    Incoming::Closed(None)
                }
                None => Incoming::Closed(None),
            };
        }
    }

    /// Closes and waits until the transport is really gone (RP-3.16).
    pub(super) async fn close(self, reason: Option<CloseReason>) {
        let frame = reason.map(|reason| CloseFrame {
            code: CloseCode::from(reason.code()),
            reason: reason.as_str().into(),
        });
        let _ = self.writes.try_send(Frame::Close(frame));
        drop(self.writes);
        let mut writer = self.writer;
        if timeout(CLOSE_WITHIN * 2, &mut writer).await.is_err() {
            writer.abort();
        }
    }
}
