//! The Items of one Turn: which are open, what is known of each, and that each ends once (S-SEQ-2, S-SEQ-3).

use std::collections::BTreeMap;

use sdk::harness_events::{
    Delta, DeltaKind, EventBody, Item, ItemBody, ItemEnd, ItemStatus, Origin,
};
use sdk::json::string;
use serde_json::Value;

use crate::native;
use crate::out::Out;

/// Longest native id that serves as a key.
const LONGEST_KEY: usize = 256;
/// Bytes of a command's output that an unfinished Item keeps.
const KEPT_OUTPUT: usize = 1024 * 1024;
/// Summary parts of one reasoning Item.
const MOST_PARTS: usize = 1024;

/// An Item that has started.
struct Open {
    native: String,
    key: String,
    body: ItemBody,
}

/// Open and ended Items of one Turn.
pub struct Ledger {
    origin: Origin,
    open: Vec<Open>,
    /// How many Items of this native id have ended; ids of calls come from the model and may repeat.
    ended: BTreeMap<String, u32>,
}

impl Ledger {
    pub fn new(run: &str) -> Self {
        Self {
            origin: Origin::Root(run.to_owned()),
            open: Vec::new(),
            ended: BTreeMap::new(),
        }
    }

    pub fn origin(&self) -> Origin {
        self.origin.clone()
    }

    /// An Item starts. A repeated start is ignored.
    pub fn start(&mut self, item: &Value, out: &mut Out) {
        let (Some(native), Some(body)) = (string(item, "id"), native::body(item)) else {
            return;
        };
        if self.position(native).is_some() {
            return;
        }
        let key = self.key(native);
        self.event(
            EventBody::ItemStarted(Item {
                key: key.clone(),
                body: body.clone(),
            }),
            out,
        );
        self.open.push(Open {
            native: native.to_owned(),
            key,
            body,
        });
    }

    /// A piece of an open Item; pieces of others are dropped.
    pub fn delta(&mut self, native: &str, kind: DeltaKind, index: u32, text: &str, out: &mut Out) {
        let Some(position) = self.position(native) else {
            return;
        };
        let open = &mut self.open[position];
        if text.is_empty() || !append(&mut open.body, kind, index, text) {
            return;
        }
        let delta = Delta {
            key: open.key.clone(),
            kind,
            index,
            text: text.to_owned(),
        };
        self.event(EventBody::Delta(delta), out);
    }

    /// The last word on an Item, started or not. A second one is ignored.
    pub fn end(&mut self, item: &Value, cleaning: bool, out: &mut Out) {
        let (Some(native), Some(mut body)) = (string(item, "id"), native::body(item)) else {
            return;
        };
        let key = match self.position(native) {
            Some(position) => self.open.remove(position).key,
            None if self.ended.contains_key(native) => return,
            None => self.key(native),
        };
        *self.ended.entry(native.to_owned()).or_default() += 1;
        let status = native::status(item, cleaning);
        if status == ItemStatus::Incomplete {
            native::without_made_up_exit(&mut body);
        }
        self.event(
            EventBody::ItemEnded(ItemEnd {
                item: Item { key, body },
                status,
            }),
            out,
        );
    }

    /// The model's stream broke and is asked again as a whole: what it had begun to say never ends.
    pub fn drop_partial_speech(&mut self, out: &mut Out) {
        self.close(
            |body| matches!(body, ItemBody::Message(_) | ItemBody::Reasoning(_)),
            out,
        );
    }

    /// Everything but commands, which can still end by themselves after the Turn.
    pub fn close_all_but_commands(&mut self, out: &mut Out) {
        self.close(|body| !matches!(body, ItemBody::Command(_)), out);
    }

    /// Nothing can end by itself any more.
    pub fn close_all(&mut self, out: &mut Out) {
        self.close(|_| true, out);
    }

    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    fn close(&mut self, which: fn(&ItemBody) -> bool, out: &mut Out) {
        let (closed, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|x| which(&x.body));
        self.open = open;
        for Open { native, key, body } in closed {
            *self.ended.entry(native).or_default() += 1;
            let item = Item { key, body };
            self.event(
                EventBody::ItemEnded(ItemEnd {
                    item,
                    status: ItemStatus::Incomplete,
                }),
                out,
            );
        }
    }

    fn position(&self, native: &str) -> Option<usize> {
        self.open.iter().position(|open| open.native == native)
    }

    /// A key that is unique in the Turn.
    fn key(&self, native: &str) -> String {
        let before = self.ended.get(native).copied().unwrap_or_default();
        let place = self.ended.values().sum::<u32>() as usize + self.open.len();
        match (native.len() + 11 <= LONGEST_KEY, before) {
            (true, 0) => native.to_owned(),
            (true, before) => format!("{native}#{}", before + 1),
            (false, _) => format!("item#{place}"),
        }
    }

    fn event(&self, body: EventBody, out: &mut Out) {
        out.event(self.origin(), body);
    }
}

/// Adds a piece to what is known; false if it does not belong to this kind of Item.
fn append(body: &mut ItemBody, kind: DeltaKind, index: u32, text: &str) -> bool {
    match (kind, body) {
        (DeltaKind::Text, ItemBody::Message(message)) => message.text.push_str(text),
        (DeltaKind::Output, ItemBody::Command(command)) => {
            let output = command.output.get_or_insert_default();
            if output.len() + text.len() <= KEPT_OUTPUT {
                output.push_str(text);
            }
        }
        (DeltaKind::Summary, ItemBody::Reasoning(reasoning)) => {
            let index = index as usize;
            if index >= MOST_PARTS {
                return false;
            }
            if reasoning.summary.len() <= index {
                reasoning.summary.resize(index + 1, String::new());
            }
            reasoning.summary[index].push_str(text);
        }
        _ => return false,
    }
    true
}
