//! One body on its way in chunks, seen from both sides (RP-4, RP-9.2).

use crate::wire::Chunk;
use crate::wire::limits::CHUNK;

/// The sending side: at most a window of unacknowledged chunks, in order.
#[derive(Debug)]
pub struct Sending {
    stream: u32,
    body: Vec<u8>,
    sent: u64,
    received: u64,
}

impl Sending {
    /// Nothing sent yet.
    pub fn new(stream: u32, body: Vec<u8>) -> Self {
        Self {
            stream,
            body,
            sent: 0,
            received: 0,
        }
    }

    /// The next chunk, if the window of `chunks` allows one.
    pub fn next(&mut self, chunks: u32) -> Option<Chunk> {
        let window = u64::from(chunks) * CHUNK as u64;
        let size = self.body.len() as u64;
        let end = size.min(self.sent + CHUNK as u64);
        if self.sent == size || end > self.received.saturating_add(window) {
            return None;
        }
        let payload = self.body.get(self.sent as usize..end as usize)?.to_vec();
        let chunk = Chunk {
            stream: self.stream,
            offset: self.sent,
            last: end == size,
            payload,
        };
        self.sent = end;
        Some(chunk)
    }

    /// The peer has staged everything up to `offset`. Returns false for an offset that cannot be.
    pub fn acknowledge(&mut self, offset: u64) -> bool {
        let possible = (self.received..=self.sent).contains(&offset);
        if possible {
            self.received = offset;
        }
        possible
    }

    /// Everything has arrived.
    pub fn complete(&self) -> bool {
        self.received == self.body.len() as u64
    }

    /// Its stream.
    pub fn stream(&self) -> u32 {
        self.stream
    }
}

/// A chunk that does not continue the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("chunk does not continue the body")]
pub struct OutOfOrder;

/// The receiving side: exactly the announced bytes, in order.
#[derive(Debug)]
pub struct Receiving {
    size: u64,
    body: Vec<u8>,
}

impl Receiving {
    /// Expects `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            body: Vec::new(),
        }
    }

    /// Takes the next chunk; answers the new end. The last flag must stand on the chunk that completes the body.
    pub fn take(&mut self, chunk: &Chunk) -> Result<u64, OutOfOrder> {
        let end = chunk.offset + chunk.payload.len() as u64;
        if chunk.offset != self.body.len() as u64
            || end > self.size
            || chunk.last != (end == self.size)
        {
            return Err(OutOfOrder);
        }
        self.body.extend_from_slice(&chunk.payload);
        Ok(end)
    }

    /// The whole body, once it is there.
    pub fn finish(self) -> Option<Vec<u8>> {
        (self.body.len() as u64 == self.size).then_some(self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sends a body over a wire that acknowledges after every `lag` chunks.
    fn carry(body: &[u8], window: u32, lag: usize) -> Vec<u8> {
        let mut sending = Sending::new(1, body.to_vec());
        let mut receiving = Receiving::new(body.len() as u64);
        let mut acks = Vec::new();
        while !sending.complete() {
            while let Some(chunk) = sending.next(window) {
                acks.push(receiving.take(&chunk).unwrap());
                assert!(
                    acks.len() <= window as usize,
                    "never more than the window is on its way"
                );
            }
            for offset in acks.drain(..lag.min(acks.len()).max(1)) {
                assert!(sending.acknowledge(offset));
            }
        }
        receiving.finish().unwrap()
    }

    #[test]
    fn edges_of_a_chunk_and_both_window_sizes() {
        // RP-19.2: 64-KiB edge chunks, window 1 and 16
        for bytes in [
            0,
            1,
            CHUNK - 1,
            CHUNK,
            CHUNK + 1,
            17 * CHUNK,
            17 * CHUNK + 1,
        ] {
            let body: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
            for window in [1, 16] {
                assert!(
                    carry(&body, window, 1) == body,
                    "{bytes} bytes, window {window}"
                );
            }
        }
    }

    #[test]
    fn a_hole_a_repeat_and_a_wrong_end_are_refused() {
        // RP-9.2
        let chunk = |offset, bytes, last| Chunk {
            stream: 1,
            offset,
            last,
            payload: vec![0; bytes],
        };
        let mut receiving = Receiving::new(10);
        assert_eq!(receiving.take(&chunk(0, 4, false)), Ok(4));
        for wrong in [
            chunk(0, 4, false),
            chunk(5, 5, true),
            chunk(4, 7, true),
            chunk(4, 6, false),
            chunk(4, 3, true),
        ] {
            assert_eq!(receiving.take(&wrong), Err(OutOfOrder));
        }
        assert_eq!(receiving.take(&chunk(4, 6, true)), Ok(10));
        assert_eq!(receiving.finish().map(|body| body.len()), Some(10));
    }

    #[test]
    fn an_impossible_acknowledgement_is_seen() {
        let mut sending = Sending::new(1, vec![0; 3]);
        assert!(!sending.acknowledge(1));
        sending.next(16);
        assert!(sending.acknowledge(3));
        assert!(!sending.acknowledge(2));
    }

    proptest! {
        #[test]
        fn any_body_arrives(bytes in 0usize..300_000, window in 1u32..17, lag in 1usize..17) {
            let body: Vec<u8> = (0..bytes).map(|n| (n * 31) as u8).collect();
            prop_assert!(carry(&body, window, lag) == body);
        }
    }
}
