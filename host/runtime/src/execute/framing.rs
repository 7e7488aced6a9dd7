//! Cuts a process's output into lines: at LF only, checked as UTF-8, with bounded memory however long a line is (F05).

use plugin_host::contract::harness_io::LineDefect;

/// Longest line that any adapter may ask for.
const LONGEST: usize = 16 * 1024 * 1024;

/// One cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cut {
    /// A line without its LF.
    Line(String),
    /// A line that cannot be handed over.
    Defect(LineDefect),
}

/// Cuts a stream that arrives in arbitrary pieces.
#[derive(Debug)]
pub(super) struct Cutter {
    limit: usize,
    partial: Vec<u8>,
    skipping: bool,
}

impl Cutter {
    /// With the adapter's limit in bytes, at most 16 MiB.
    pub(super) fn new(limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(LONGEST).clamp(1, LONGEST);
        Self {
            limit,
            partial: Vec::new(),
            skipping: false,
        }
    }

    /// Takes the next piece and appends what it completes.
    pub(super) fn push(&mut self, mut bytes: &[u8], cuts: &mut Vec<Cut>) {
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            self.keep(&bytes[..end], cuts);
            self.end_line(cuts);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes, cuts);
    }

    /// The output ended; a line without LF counts.
    pub(super) fn finish(&mut self, cuts: &mut Vec<Cut>) {
        if !self.partial.is_empty() || self.skipping {
            self.end_line(cuts);
        }
    }

    fn keep(&mut self, bytes: &[u8], cuts: &mut Vec<Cut>) {
        if self.skipping {
            return;
        }
        if self.partial.len() + bytes.len() > self.limit {
            // Told at once, so that a line without end does not hide that it is too long.
            cuts.push(Cut::Defect(LineDefect::TooLong));
            self.partial = Vec::new();
            self.skipping = true;
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, cuts: &mut Vec<Cut>) {
        if std::mem::take(&mut self.skipping) {
            return;
        }
        let line = std::mem::take(&mut self.partial);
        cuts.push(match String::from_utf8(line) {
            Ok(text) => Cut::Line(text),
            Err(_) => Cut::Defect(LineDefect::NotText),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(limit: u32, pieces: &[&[u8]]) -> Vec<Cut> {
        let (mut cutter, mut cuts) = (Cutter::new(limit), Vec::new());
        pieces.iter().for_each(|p| cutter.push(p, &mut cuts));
        cutter.finish(&mut cuts);
        cuts
    }

    fn line(text: &str) -> Cut {
        Cut::Line(text.to_owned())
    }

    // F15: only LF separates, and a character that arrives in two pieces is whole.
    #[test]
    fn only_lf_cuts_however_the_bytes_arrive() {
        let text = "a\u{2028}b\u{2029}c\u{85}d\re\u{feff}🦀\n\n{\"x\":1}\nrest".as_bytes();
        let whole = vec![
            line("a\u{2028}b\u{2029}c\u{85}d\re\u{feff}🦀"),
            line(""),
            line("{\"x\":1}"),
            line("rest"),
        ];
        assert_eq!(cut(1000, &[text]), whole);
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(cut(1000, &bytes), whole);
    }

    // F05: a line over the limit is one defect, and the next line is seen.
    #[test]
    fn a_line_too_long_is_skipped_and_the_next_one_is_seen() {
        let long = vec![b'x'; 5000];
        for pieces in [
            vec![&long[..], b"\nok\n"],
            long.chunks(7).chain([&b"\nok\n"[..]]).collect(),
        ] {
            assert_eq!(
                cut(4096, &pieces),
                vec![Cut::Defect(LineDefect::TooLong), line("ok")]
            );
        }
        assert_eq!(
            cut(5, &[b"12345\n123456\n1\n"]),
            vec![line("12345"), Cut::Defect(LineDefect::TooLong), line("1")]
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_told_and_skipped() {
        assert_eq!(
            cut(10, &[b"a\xff\nb\n"]),
            vec![Cut::Defect(LineDefect::NotText), line("b")]
        );
    }
}
