//! The deployment's sandbox provider: one selection, numbered by its changes (SP-2.1 to SP-2.3, SP-2.6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The provider's plugin id; none = hosted Environments are refused.
    pub provider: Option<String>,
    /// Its settings by key, without secrets.
    pub settings: BTreeMap<String, String>,
}

/// One accepted selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Grows by one with every accepted change.
    pub generation: u64,
    /// What was chosen.
    pub choice: Choice,
}

/// Why a change is refused; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SelectionRefused {
    /// Somebody else changed it: the present generation (SP-2.2).
    #[error("the selection is at generation {0}")]
    Stale(u64),
    /// Another provider would lose sight of what this one holds (SP-2.10).
    #[error("{0} sandboxes of the present provider are not released")]
    Held(u32),
}

/// Decides a change; none = it is what is chosen already. `renews`: it gives secrets, and nobody compares those. `held` counts
/// sandboxes that are not released.
///
/// # Errors
/// [`SelectionRefused`]; a stale generation before anything else (SP-2.2).
pub fn select(
    current: &Selection,
    expected: u64,
    choice: Choice,
    renews: bool,
    held: u32,
) -> Result<Option<Selection>, SelectionRefused> {
    if expected != current.generation {
        return Err(SelectionRefused::Stale(current.generation));
    }
    if choice == current.choice && !renews {
        return Ok(None);
    }
    if choice.provider != current.choice.provider && held > 0 {
        return Err(SelectionRefused::Held(held));
    }
    Ok(Some(Selection {
        generation: current.generation + 1,
        choice,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(provider: Option<&str>, settings: &[(&str, &str)]) -> Choice {
        Choice {
            provider: provider.map(str::to_owned),
            settings: settings
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    // SP-2.1, SP-2.2, SP-2.10
    #[test]
    fn a_change_needs_the_present_generation_and_another_provider_an_empty_house() {
        let current = Selection {
            generation: 3,
            choice: choice(Some("local"), &[]),
        };
        let same = current.choice.clone();
        let other = choice(Some("other"), &[]);
        let settled = choice(Some("local"), &[("a", "b")]);
        for (expected, wanted, held, result) in [
            // Also with an identical body.
            (2, &same, 0, Err(SelectionRefused::Stale(3))),
            (4, &other, 9, Err(SelectionRefused::Stale(3))),
            (3, &same, 9, Ok(None)),
            (3, &other, 1, Err(SelectionRefused::Held(1))),
            (3, &choice(None, &[]), 1, Err(SelectionRefused::Held(1))),
            (3, &other, 0, Ok(Some(4))),
            (3, &settled, 9, Ok(Some(4))),
            (3, &choice(None, &[]), 0, Ok(Some(4))),
        ] {
            let selected = select(&current, expected, wanted.clone(), false, held);
            let selected = selected.map(|change| {
                change.map(|change| {
                    assert_eq!(&change.choice, wanted);
                    change.generation
                })
            });
            assert_eq!(selected, result);
        }
        let renewed = select(&current, 3, same, true, 9).unwrap();
        assert_eq!(renewed.map(|change| change.generation), Some(4));
    }
}
