//! Makes an event fit into a frame (F05, RP-4): what a tool printed is cut to 1 MiB, and then whatever is still too long on
//! the wire, where one byte may become six. A cut text says in its last line how much is missing.

use domain::run::{AgentContent, AgentSend, EventBody, Item, ItemBody, SubagentCreate};

/// Output of one tool call that is kept (F05).
pub(super) const OUTPUT_LIMIT: usize = 1024 * 1024;
/// Longest event on the wire: a frame's 3 MiB less room for what else is in it.
pub(super) const EVENT_LIMIT: usize = 5 * 512 * 1024;
/// For the line that says what is missing.
const LINE: usize = 64;

/// The event does not fit, and nothing in it may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// Cuts the texts of `body` as far as necessary; its encoded size.
pub(super) fn fit(body: &mut EventBody) -> Result<usize, TooLong> {
    let whole = encoded_size(body);
    let mut texts = texts(body);
    let sizes: Vec<usize> = texts.iter().map(|text| encoded(text.text)).collect();
    let fixed = whole.saturating_sub(sizes.iter().sum());
    let plans: Vec<Plan> = texts.iter().map(Plan::new).collect();
    let level = level(&plans, EVENT_LIMIT.saturating_sub(fixed)).ok_or(TooLong)?;
    let mut cut = false;
    for (text, plan) in texts.iter_mut().zip(&plans) {
        let keep = if plan.encoded > level {
            prefix(text.text, level - LINE)
        } else {
            plan.keep
        };
        cut |= keep < text.text.len();
        shorten(text.text, keep);
    }
    if !cut {
        return if whole <= EVENT_LIMIT {
            Ok(whole)
        } else {
            Err(TooLong)
        };
    }
    let size = encoded_size(body);
    if size <= EVENT_LIMIT {
        Ok(size)
    } else {
        Err(TooLong)
    }
}

fn encoded_size(body: &EventBody) -> usize {
    // An event is made of texts and numbers, so it has a text form.
    serde_json::to_vec(body).map_or(usize::MAX, |json| json.len())
}

/// A text that may be cut.
struct Text<'a> {
    text: &'a mut String,
    /// Its own limit in bytes, if it has one.
    limit: Option<usize>,
}

/// What is left of a text by its own limit, and how long that is on the wire.
struct Plan {
    keep: usize,
    encoded: usize,
}

impl Plan {
    fn new(text: &Text<'_>) -> Self {
        match text.limit.filter(|limit| text.text.len() > *limit) {
            Some(limit) => {
                let keep = text.text.floor_char_boundary(limit - LINE);
                let encoded = encoded(&text.text[..keep]) + LINE;
                Self { keep, encoded }
            }
            None => Self {
                keep: text.text.len(),
                encoded: encoded(text.text),
            },
        }
    }
}

/// The length that no text may exceed, so that all together stay within `room`. None if that leaves nothing of them.
fn level(plans: &[Plan], room: usize) -> Option<usize> {
    let mut sizes: Vec<usize> = plans.iter().map(|plan| plan.encoded).collect();
    sizes.sort_unstable();
    let mut left = room;
    for (at, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - at);
        if *size > share {
            return (share > LINE).then_some(share);
        }
        left -= size;
    }
    Some(usize::MAX)
}

fn shorten(text: &mut String, keep: usize) {
    let missing = text.len() - keep;
    if missing > 0 {
        text.truncate(keep);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[cut: {missing} bytes]"));
    }
}

/// Bytes of the characters in a JSON string.
fn encoded(text: &str) -> usize {
    text.bytes().map(encoded_byte).sum()
}

const fn encoded_byte(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// The longest beginning of `text`, in whole characters, that takes no more than `room` in a JSON string.
fn prefix(text: &str, room: usize) -> usize {
    let mut used = 0;
    let fits = text.bytes().position(|byte| {
        used += encoded_byte(byte);
        used > room
    });
    text.floor_char_boundary(fits.unwrap_or(text.len()))
}

/// The texts of an event that are told to people. Names, paths, arguments and identities are never cut: a piece of one is
/// another one.
fn texts(body: &mut EventBody) -> Vec<Text<'_>> {
    match body {
        EventBody::ItemStarted(item) => item_texts(item),
        EventBody::ItemEnded(end) => item_texts(&mut end.item),
        EventBody::Notice(notice) => vec![free(&mut notice.detail)],
        EventBody::Adapter(_)
        | EventBody::Delta(_)
        | EventBody::NativeSession(_)
        | EventBody::Usage(_)
        | EventBody::Agent(_)
        | EventBody::Child(_)
        | EventBody::Error(_)
        | EventBody::Done(_) => Vec::new(),
    }
}

fn item_texts(item: &mut Item) -> Vec<Text<'_>> {
    match &mut item.body {
        ItemBody::Message(message) => vec![free(&mut message.text)],
        ItemBody::Reasoning(reasoning) => reasoning.summary.iter_mut().map(free).collect(),
        ItemBody::Command(command) => {
            let output = command.output.iter_mut().map(output);
            output.chain([free(&mut command.command)]).collect()
        }
        ItemBody::FileChanges(changes) => changes
            .iter_mut()
            .filter_map(|change| change.diff.as_mut().map(free))
            .collect(),
        ItemBody::McpCall(call) => {
            let output = call.output.iter_mut().map(output);
            output
                .chain(call.error.iter_mut().map(self::output))
                .collect()
        }
        ItemBody::NativeTool(tool) => {
            let output = tool.output.iter_mut().map(output);
            output.chain(tool.input.iter_mut().map(free)).collect()
        }
        ItemBody::SubagentCreate(SubagentCreate { content, .. })
        | ItemBody::SubagentSend(AgentSend { content, .. })
        | ItemBody::AgentMessage(AgentSend { content, .. }) => content
            .iter_mut()
            .filter_map(|part| match part {
                AgentContent::Text(text) => Some(free(text)),
                AgentContent::Encrypted(_) => None,
            })
            .collect(),
        ItemBody::FunctionCall(_)
        | ItemBody::WebSearch(_)
        | ItemBody::SubagentResume(_)
        | ItemBody::SubagentInterrupt(_)
        | ItemBody::SubagentClose(_)
        | ItemBody::SubagentWait(_) => Vec::new(),
    }
}

fn free(text: &mut String) -> Text<'_> {
    Text { text, limit: None }
}

fn output(text: &mut String) -> Text<'_> {
    Text {
        text,
        limit: Some(OUTPUT_LIMIT),
    }
}

#[cfg(test)]
mod tests {
    use domain::run::{
        ChangeKind, CommandRun, FileChange, FunctionCall, ItemEnd, ItemStatus, McpCall, Message,
    };
    use proptest::prelude::*;

    use super::*;

    fn ended(body: ItemBody) -> EventBody {
        let item = Item {
            key: "k".to_owned(),
            body,
        };
        EventBody::ItemEnded(ItemEnd {
            item,
            status: ItemStatus::Completed,
        })
    }

    fn body(event: &EventBody) -> &ItemBody {
        match event {
            EventBody::ItemEnded(end) => &end.item.body,
            other => panic!("{other:?}"),
        }
    }

    fn printed(output: String) -> EventBody {
        ended(ItemBody::Command(CommandRun {
            command: "c".to_owned(),
            cwd: None,
            output: Some(output),
            exit_code: Some(0),
            duration_ms: None,
        }))
    }

    fn changed(diffs: Vec<String>) -> EventBody {
        let change = |diff| FileChange {
            path: "p".to_owned(),
            moved_to: None,
            kind: ChangeKind::Delete,
            diff: Some(diff),
        };
        ended(ItemBody::FileChanges(
            diffs.into_iter().map(change).collect(),
        ))
    }

    /// The number in the last line.
    fn missing(text: &str) -> Option<usize> {
        let line = text.lines().last()?;
        line.strip_prefix("[cut: ")?
            .strip_suffix(" bytes]")?
            .parse()
            .ok()
    }

    // F05
    #[test]
    fn output_is_cut_by_its_bytes_and_by_what_they_become() {
        for (what, bytes) in [("x", 15_000_000), ("\0", 700_000), ("\0", 15_000_000)] {
            let mut event = printed(what.repeat(bytes));
            let size = fit(&mut event).unwrap();
            assert!(size <= EVENT_LIMIT && size == encoded_size(&event));
            let ItemBody::Command(command) = body(&event) else {
                panic!("{event:?}")
            };
            let output = command.output.as_deref().unwrap();
            assert!(output.len() <= OUTPUT_LIMIT);
            let kept = output.matches(what).count();
            assert_eq!(missing(output), Some(bytes - kept), "{bytes} of {what:?}");
            assert!(kept > 400_000, "{kept}");
        }
    }

    // F05: the biggest pays first, small ones stay whole.
    #[test]
    fn many_diffs_share_what_a_frame_holds() {
        let mut event = changed(vec![
            "small".to_owned(),
            "y".repeat(4 << 20),
            "z".repeat(3 << 20),
        ]);
        fit(&mut event).unwrap();
        let ItemBody::FileChanges(changes) = body(&event) else {
            panic!("{event:?}")
        };
        let diffs: Vec<_> = changes.iter().filter_map(|c| c.diff.as_deref()).collect();
        assert_eq!(diffs[0], "small");
        assert!(missing(diffs[1]) > missing(diffs[2]) && missing(diffs[2]).is_some());
        assert!(diffs[1].len() > 1_000_000 && diffs[2].len() > 1_000_000);
    }

    #[test]
    fn what_fits_stays_as_it_is_and_what_must_stay_whole_does_not_fit() {
        let mut event = ended(ItemBody::Message(Message {
            text: "é\n".repeat(100_000),
            phase: None,
        }));
        let before = event.clone();
        assert_eq!(fit(&mut event), Ok(encoded_size(&before)));
        assert_eq!(event, before);

        let call = |bytes: usize| FunctionCall {
            call: "c".to_owned(),
            name: "f".to_owned(),
            arguments: "x".repeat(bytes),
        };
        let mut event = ended(ItemBody::FunctionCall(call(3 << 20)));
        assert_eq!(fit(&mut event), Err(TooLong));
        let mut event = ended(ItemBody::McpCall(McpCall {
            label: "l".to_owned(),
            name: "n".to_owned(),
            arguments: "{}".to_owned(),
            output: Some("o".repeat(2 << 20)),
            error: Some("e".repeat(2 << 20)),
        }));
        let size = fit(&mut event).unwrap();
        assert!(size < 2 * OUTPUT_LIMIT + 1024);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn whatever_is_told_fits(pieces in prop::collection::vec(("[\\x00-\\x7fé🦀]{1,8}", 1_usize..120_000), 1..5)) {
            let mut event = changed(pieces.iter().map(|(text, times)| text.repeat(*times)).collect());
            let size = fit(&mut event).unwrap();
            prop_assert!(size <= EVENT_LIMIT && size == encoded_size(&event));
        }
    }
}
