//! The command as the model gave it. Codex reports the whole call, `/bin/bash -lc 'echo hi'` (MMX-018).

use sdk::json::bounded;

/// Bytes of a command's output that are kept.
const LONGEST_OUTPUT: usize = 1024 * 1024;

/// The script inside a shell call; anything that is not exactly `shell -c script` stays as it is.
pub fn script(command: &str) -> String {
    let words = split(command);
    match words.as_deref() {
        Some([shell, flag, script]) if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc") => {
            script.clone()
        }
        _ => command.to_owned(),
    }
}

fn is_shell(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "bash" | "sh" | "zsh" | "dash")
}

/// Words of a quoted command line in the POSIX way; none if a quote is open or a character would mean something.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => match rest.next()? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        '$' | '`' => return None,
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            '$' | '`' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '\n' | '\t' => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// A command's output, cut so that the cut is visible (F05).
pub fn output(text: &str) -> String {
    if text.len() <= LONGEST_OUTPUT {
        return text.to_owned();
    }
    let kept = bounded(text, LONGEST_OUTPUT - 32);
    format!("{kept}\n[cut: {} bytes]", text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_a_shell_call_is_unquoted() {
        assert_eq!(
            script("/bin/bash -lc 'echo start; sleep 3'"),
            "echo start; sleep 3"
        );
        assert_eq!(script("bash -lc ls"), "ls");
        assert_eq!(
            script(r#"/bin/bash -lc "echo it's \"it\" \$HOME""#),
            r#"echo it's "it" $HOME"#
        );
        assert_eq!(script("/bin/sh -c 'a'\\''b'"), "a'b");
        assert_eq!(script("/bin/bash -lc 'one\ntwo'"), "one\ntwo");
    }

    #[test]
    fn anything_else_is_kept() {
        for command in [
            "ls -la",
            "bash -lc 'open",
            "bash -lc a b",
            "bash -lc ls | sh",
            "python -c 'x'",
            "",
        ] {
            assert_eq!(script(command), command);
        }
    }

    proptest::proptest! {
        /// However a script is quoted, it comes back whole; and nothing makes the reader fail.
        #[test]
        fn any_quoted_script_comes_back(text in ".*", line in ".*") {
            let quoted = format!("/bin/bash -lc '{}'", text.replace('\'', r"'\''"));
            proptest::prop_assert_eq!(script(&quoted), text);
            let _ = script(&line);
        }
    }

    #[test]
    fn a_long_output_says_how_much_was_cut() {
        let long = "é".repeat(LONGEST_OUTPUT);
        let cut = output(&long);
        assert!(cut.len() <= LONGEST_OUTPUT);
        assert!(cut.ends_with(" bytes]"));
        assert_eq!(output("short"), "short");
    }
}
