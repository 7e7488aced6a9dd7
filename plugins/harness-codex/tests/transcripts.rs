//! Recorded conversations with the real program, replayed whole: every output must be what it was.

#![allow(clippy::panic)]

use std::path::Path;

use harness_codex::Codex;
use kit::harness::Transcript;

fn replay(name: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/transcripts/{name}.jsonl"));
    let transcript = Transcript::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    transcript
        .replay(&Codex)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

macro_rules! transcripts {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            replay(stringify!($name));
        }
    )*};
}

transcripts! {
    text none command background_command steer cancel_command cancel_at_once killed resume recover recover_empty resume_missing
    model_unauthorized model_stream_cut model_refusals
}
