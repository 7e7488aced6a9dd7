//! Takes the model key out of what a provider answers: an error that repeats the key would hand it to the agent and, as the
//! harness's own words, to Core's log.

use bytes::{Bytes, BytesMut};
use domain::Secret;

/// Shorter keys are left alone: they are the placeholders of local servers and may be ordinary words of an answer.
const SHORTEST: usize = 12;

/// The key's bytes in one answer become `*`, as many as there were: lengths stay true.
#[derive(Debug)]
pub(super) struct Mask {
    key: Secret,
    /// The end of what was seen, if the key may begin there.
    held: BytesMut,
}

impl Mask {
    pub(super) fn new(key: &Secret) -> Self {
        Self {
            key: key.clone(),
            held: BytesMut::new(),
        }
    }

    /// The next bytes, without a last part that may be the beginning of the key.
    pub(super) fn pass(&mut self, bytes: Bytes) -> Bytes {
        let key = self.key.expose();
        if key.len() < SHORTEST {
            return bytes;
        }
        if self.held.is_empty() && !bytes.contains(&key[0]) {
            return bytes;
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(&bytes);
        let mut at = 0;
        while let Some(found) = all[at..].iter().position(|byte| *byte == key[0]) {
            at += found;
            let rest = &mut all[at..];
            if rest.starts_with(key) {
                rest[..key.len()].fill(b'*');
                at += key.len();
            } else if key.starts_with(rest) {
                self.held = all.split_off(at);
                break;
            } else {
                at += 1;
            }
        }
        all.freeze()
    }

    /// What was held back, at the end of the answer.
    pub(super) fn finish(&mut self) -> Option<Bytes> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then(|| held.freeze())
    }

    /// Does this hold the key?
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        let key = self.key.expose();
        key.len() >= SHORTEST && bytes.windows(key.len()).any(|window| window == key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passed(key: &str, pieces: &[&[u8]]) -> Vec<u8> {
        let mut mask = Mask::new(&Secret::from(key.to_owned()));
        let mut all = Vec::new();
        for piece in pieces {
            all.extend_from_slice(&mask.pass(Bytes::copy_from_slice(piece)));
        }
        all.extend(mask.finish().into_iter().flatten());
        all
    }

    #[test]
    fn a_short_key_may_be_a_word() {
        assert_eq!(passed("ollama", &[b"an ollama"]), b"an ollama");
    }

    #[test]
    fn what_is_not_the_key_is_not_held_back() {
        let mut mask = Mask::new(&Secret::from("sk-0123456789".to_owned()));
        assert_eq!(mask.pass(Bytes::from_static(b"a sk-01x")), "a sk-01x");
        assert_eq!(mask.pass(Bytes::from_static(b"a sk-01")), "a ");
        assert_eq!(mask.pass(Bytes::from_static(b"x")), "sk-01x");
    }

    proptest! {
        #[test]
        fn however_it_is_cut_the_key_is_gone_and_all_else_stays(
            parts in proptest::collection::vec(prop_oneof![Just("ababababababac"), Just("ab"), Just("a"), Just("c"), Just("ababab")], 0..8),
            cuts in proptest::collection::vec(1_usize..9, 1..40),
        ) {
            const KEY: &str = "ababababababac";
            let whole = parts.concat();
            let mut rest = whole.as_bytes();
            let mut pieces = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = more;
            }
            let expected = whole.replace(KEY, &"*".repeat(KEY.len()));
            prop_assert_eq!(String::from_utf8(passed(KEY, &pieces)).unwrap(), expected);
        }
    }
}
