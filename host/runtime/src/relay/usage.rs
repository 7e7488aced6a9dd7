//! Counts the tokens that a provider reports in its answers, without holding an answer back.

use std::sync::atomic::{AtomicU64, Ordering};

/// Totals of one grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Answers that reported usage.
    pub answers: u64,
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

/// The running totals.
#[derive(Debug, Default)]
pub(super) struct Tally {
    answers: AtomicU64,
    input: AtomicU64,
    output: AtomicU64,
}

impl Tally {
    pub(super) fn read(&self) -> Tokens {
        let at = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Tokens {
            answers: at(&self.answers),
            input: at(&self.input),
            output: at(&self.output),
        }
    }

    fn add(&self, input: u64, output: u64) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.input.fetch_add(input, Ordering::Relaxed);
        self.output.fetch_add(output, Ordering::Relaxed);
    }
}

/// Longest line that is looked at; a longer one is passed through uncounted.
const LINE_LIMIT: usize = 1024 * 1024;

/// Looks at the bytes of one answer as they pass: Server-Sent Events line by line, or one JSON body.
///
/// A provider repeats cumulative usage in the course of an answer, so the last figures win and count once, at the end.
#[derive(Debug)]
pub(super) struct Tap {
    events: bool,
    line: Vec<u8>,
    skipping: bool,
    input: Option<u64>,
    output: Option<u64>,
}

impl Tap {
    /// For an answer of this content type.
    pub(super) fn new(content_type: Option<&[u8]>) -> Self {
        let events = content_type.is_some_and(|t| t.starts_with(b"text/event-stream"));
        Self {
            events,
            line: Vec::new(),
            skipping: false,
            input: None,
            output: None,
        }
    }

    /// Looks at the next bytes.
    pub(super) fn see(&mut self, mut bytes: &[u8]) {
        if !self.events {
            return self.keep(bytes);
        }
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            self.keep(&bytes[..end]);
            if !self.skipping {
                self.read_line();
            }
            self.line.clear();
            self.skipping = false;
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// The answer is over, or was given up.
    pub(super) fn finish(mut self, tally: &Tally) {
        if !self.events && !self.skipping {
            let body = std::mem::take(&mut self.line);
            self.read_json(&body);
        }
        if self.input.is_some() || self.output.is_some() {
            tally.add(self.input.unwrap_or(0), self.output.unwrap_or(0));
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.skipping |= self.line.len() + bytes.len() > LINE_LIMIT;
        if self.skipping {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn read_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        // Almost every line is a delta without figures; parsing only the others keeps the tap out of the way.
        let has_usage = line.windows(7).any(|w| w == b"\"usage\"");
        if let Some(data) = line.strip_prefix(b"data:").filter(|_| has_usage) {
            self.read_json(data);
        }
    }

    fn read_json(&mut self, json: &[u8]) {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(json) else {
            return;
        };
        // Responses nests it in `response`, Anthropic's first event in `message`, the others have it at the top.
        let places = ["/usage", "/response/usage", "/message/usage"];
        for usage in places.iter().filter_map(|at| value.pointer(at)) {
            let figure = |names: [&str; 2]| names.iter().find_map(|n| usage.get(n)?.as_u64());
            self.input = figure(["input_tokens", "prompt_tokens"]).or(self.input);
            self.output = figure(["output_tokens", "completion_tokens"]).or(self.output);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(content_type: &str, pieces: &[&str]) -> Tokens {
        let (tally, mut tap) = (Tally::default(), Tap::new(Some(content_type.as_bytes())));
        pieces.iter().for_each(|p| tap.see(p.as_bytes()));
        tap.finish(&tally);
        tally.read()
    }

    const STREAM: &str = "event: response.created\ndata: {\"response\":{\"usage\":null}}\n\n\
        data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":12,\"output_tokens\":3}}}\n\n";

    #[test]
    fn a_stream_counts_once_however_it_is_cut() {
        for at in 0..STREAM.len() {
            let tokens = count(
                "text/event-stream; charset=utf-8",
                &[&STREAM[..at], &STREAM[at..]],
            );
            assert_eq!(
                tokens,
                Tokens {
                    answers: 1,
                    input: 12,
                    output: 3
                },
                "cut at {at}"
            );
        }
    }

    #[test]
    fn cumulative_figures_replace_each_other() {
        let stream = "data: {\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n\
            data: {\"usage\":{\"output_tokens\":7}}\n\n";
        assert_eq!(
            count("text/event-stream", &[stream]),
            Tokens {
                answers: 1,
                input: 9,
                output: 7
            }
        );
    }

    #[test]
    fn a_plain_body_counts_and_nonsense_does_not() {
        let body = "{\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}}";
        assert_eq!(
            count("application/json", &[body]),
            Tokens {
                answers: 1,
                input: 5,
                output: 6
            }
        );
        assert_eq!(count("application/json", &["\"usage\""]), Tokens::default());
        assert_eq!(
            count("text/event-stream", &[&"x".repeat(3 * LINE_LIMIT), "\n"]),
            Tokens::default()
        );
    }
}
