//! Binary messages: one chunk of one open stream (RP-4.1, RP-4.3).

use super::limits::CHUNK;

/// Bytes of the header: kind u8, flags u8, zero u16, stream u32, offset u64, all big-endian.
pub const HEADER: usize = 16;
const KIND: u8 = 1;
const LAST: u8 = 1;

/// One chunk.
#[derive(Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The stream, chosen by Core for one transfer on one connection.
    pub stream: u32,
    /// Place of the first byte in the transferred body.
    pub offset: u64,
    /// The body ends with this chunk.
    pub last: bool,
    /// 1 to 65 536 bytes.
    pub payload: Vec<u8>,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The payload is a user's file.
        f.debug_struct("Chunk")
            .field("stream", &self.stream)
            .field("offset", &self.offset)
            .field("last", &self.last)
            .field("bytes", &self.payload.len())
            .finish()
    }
}

/// The message is no chunk; the connection closes with `protocol_violation` (RP-4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a chunk")]
pub struct BadChunk;

impl Chunk {
    /// The message. The caller keeps payloads within 1 to 65 536 bytes; [`Chunk::decode`] refuses others.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(HEADER + self.payload.len());
        message.extend([KIND, if self.last { LAST } else { 0 }, 0, 0]);
        message.extend(self.stream.to_be_bytes());
        message.extend(self.offset.to_be_bytes());
        message.extend(&self.payload);
        message
    }

    /// Reads a message; every bit that has no meaning must be zero.
    pub fn decode(message: &[u8]) -> Result<Self, BadChunk> {
        let (header, payload) = message.split_first_chunk::<HEADER>().ok_or(BadChunk)?;
        let [kind, flags, 0, 0, s0, s1, s2, s3, offset @ ..] = *header else {
            return Err(BadChunk);
        };
        if kind != KIND || flags & !LAST != 0 || payload.is_empty() || payload.len() > CHUNK {
            return Err(BadChunk);
        }
        let offset = u64::from_be_bytes(offset);
        offset.checked_add(payload.len() as u64).ok_or(BadChunk)?;
        Ok(Self {
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            offset,
            last: flags == LAST,
            payload: payload.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(bytes: usize) -> Chunk {
        Chunk {
            stream: 0x0102_0304,
            offset: 65_536,
            last: true,
            payload: vec![7; bytes],
        }
    }

    #[test]
    fn the_header_is_sixteen_big_endian_bytes() {
        // RP-4.3
        let message = chunk(1).encode();
        assert_eq!(message, [1, 1, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 1, 0, 0, 7]);
    }

    #[test]
    fn payloads_from_one_byte_to_64_kib() {
        // RP-4.3, RP-19.2
        for bytes in [1, CHUNK - 1, CHUNK] {
            assert_eq!(Chunk::decode(&chunk(bytes).encode()), Ok(chunk(bytes)));
        }
        for bytes in [0, CHUNK + 1] {
            assert_eq!(Chunk::decode(&chunk(bytes).encode()), Err(BadChunk));
        }
    }

    #[test]
    fn meaningless_bits_are_refused() {
        let good = chunk(3).encode();
        for (place, value) in [(0, 0), (0, 2), (1, 2), (1, 0x81), (2, 1), (3, 1)] {
            let mut bad = good.clone();
            bad[place] = value;
            assert_eq!(Chunk::decode(&bad), Err(BadChunk), "byte {place} = {value}");
        }
        let beyond = Chunk {
            offset: u64::MAX,
            ..chunk(1)
        };
        assert_eq!(Chunk::decode(&beyond.encode()), Err(BadChunk));
    }
}
