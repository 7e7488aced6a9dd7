//! Rules about the Items of one Turn (S-SEQ-2, S-SEQ-3).

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};

use contract::harness_events::{Delta, DeltaKind, EventBody, Item, ItemBody, Usage};

use crate::{Result, broken, ensure};

/// What an Item's key stands for.
enum Known {
    Open(Discriminant<ItemBody>, DeltaKinds),
    Ended,
}

/// Kinds of delta that a body takes.
type DeltaKinds = &'static [DeltaKind];

/// Items of one Turn by key.
#[derive(Default)]
pub struct Items(BTreeMap<String, Known>);

impl Items {
    /// An event of the Turn.
    pub fn event(&mut self, body: &EventBody) -> Result {
        match body {
            EventBody::ItemStarted(item) => self.start(item),
            EventBody::Delta(delta) => self.delta(delta),
            EventBody::ItemEnded(end) => self.end(&end.item),
            EventBody::Usage(usage) => check_usage(usage),
            _ => Ok(()),
        }
    }

    /// Keys that are open.
    pub fn open(&self) -> Vec<&str> {
        let open = self
            .0
            .iter()
            .filter(|(_, known)| matches!(known, Known::Open(..)));
        open.map(|(key, _)| key.as_str()).collect()
    }

    fn start(&mut self, item: &Item) -> Result {
        check_key(item)?;
        let open = Known::Open(discriminant(&item.body), delta_kinds(&item.body));
        let before = self.0.insert(item.key.clone(), open);
        ensure(before.is_none(), "S-SEQ-2", || {
            format!("{} starts again", item.key)
        })
    }

    fn delta(&self, delta: &Delta) -> Result {
        match self.0.get(&delta.key) {
            Some(Known::Open(_, kinds)) => ensure(kinds.contains(&delta.kind), "S-SEQ-2", || {
                format!("{} takes no {:?}", delta.key, delta.kind)
            }),
            Some(Known::Ended) => broken("S-SEQ-2", format!("{} has ended", delta.key)),
            None => broken("S-SEQ-2", format!("{} never started", delta.key)),
        }
    }

    fn end(&mut self, item: &Item) -> Result {
        check_key(item)?;
        match self.0.insert(item.key.clone(), Known::Ended) {
            None => Ok(()),
            Some(Known::Open(kind, _)) => {
                ensure(kind == discriminant(&item.body), "S-SEQ-2", || {
                    format!("{} changed its kind", item.key)
                })
            }
            Some(Known::Ended) => broken("S-SEQ-2", format!("{} ends twice", item.key)),
        }
    }
}

fn check_key(item: &Item) -> Result {
    ensure((1..=256).contains(&item.key.len()), "S-ITEM-4", || {
        format!("a key of {} bytes", item.key.len())
    })
}

fn delta_kinds(body: &ItemBody) -> DeltaKinds {
    match body {
        ItemBody::Message(_) => &[DeltaKind::Text],
        ItemBody::Reasoning(_) => &[DeltaKind::Summary],
        ItemBody::Command(_) => &[DeltaKind::Output],
        _ => &[],
    }
}

fn check_usage(usage: &Usage) -> Result {
    let parts = usage.cached.is_none_or(|cached| cached <= usage.input)
        && usage
            .reasoning
            .is_none_or(|reasoning| reasoning <= usage.output);
    ensure(parts, "RP-11.3", || {
        format!("a part is larger than its whole: {usage:?}")
    })
}
