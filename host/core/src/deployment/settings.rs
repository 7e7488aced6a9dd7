//! Settings of a provider: those that its manifest knows.

use std::collections::BTreeMap;

use domain::Secret;
use plugin_host::contract::manifest::{Setting, SettingKind};

use super::NotSelected;

/// Longest value of a setting, in bytes.
const VALUE_BYTES: usize = 4096;

/// Whether these are settings that the manifest knows, each of its type, with every required one.
pub(super) fn check(
    known: &[Setting],
    given: &BTreeMap<String, String>,
) -> Result<(), NotSelected> {
    each(known, given)?;
    required(known.iter(), given)
}

/// The same for what was selected before: its secrets are not among the settings.
pub(super) fn check_stored(
    known: &[Setting],
    stored: &BTreeMap<String, String>,
) -> Result<(), NotSelected> {
    each(known, stored)?;
    let plain = known.iter().filter(|it| it.kind != SettingKind::Secret);
    required(plain, stored)
}

fn wrong<T>(key: &str, what: &'static str) -> Result<T, NotSelected> {
    Err(NotSelected::Setting(key.to_owned(), what))
}

fn each(known: &[Setting], given: &BTreeMap<String, String>) -> Result<(), NotSelected> {
    for (key, value) in given {
        let Some(setting) = known.iter().find(|setting| setting.key == *key) else {
            return wrong(key, "is not one of this provider's");
        };
        let fits = match setting.kind {
            SettingKind::String => true,
            SettingKind::Secret => !value.is_empty(),
            SettingKind::Bool => matches!(value.as_str(), "true" | "false"),
            SettingKind::Integer => value.parse::<i64>().is_ok(),
        };
        if !fits {
            return wrong(key, "is not of its type");
        }
        if value.len() > VALUE_BYTES || value.contains('\0') {
            return wrong(key, "is longer than 4096 bytes or holds a NUL");
        }
    }
    Ok(())
}

fn required<'a>(
    mut known: impl Iterator<Item = &'a Setting>,
    given: &BTreeMap<String, String>,
) -> Result<(), NotSelected> {
    match known.find(|setting| setting.required && !given.contains_key(&setting.key)) {
        Some(missing) => wrong(&missing.key, "is required"),
        None => Ok(()),
    }
}

/// Moves the secrets out of the settings.
pub(super) fn take_secrets(
    known: &[Setting],
    given: &mut BTreeMap<String, String>,
) -> BTreeMap<String, Secret> {
    let secret = known.iter().filter(|it| it.kind == SettingKind::Secret);
    secret
        .filter_map(|setting| {
            let value = given.remove(&setting.key)?;
            Some((setting.key.clone(), Secret::new(value)))
        })
        .collect()
}

/// What was given, and the defaults of the rest.
pub(super) fn effective(
    known: &[Setting],
    given: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let value = |setting: &Setting| {
        let value = given.get(&setting.key).or(setting.default.as_ref())?;
        Some((setting.key.clone(), value.clone()))
    };
    known.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, kind: SettingKind, required: bool, default: Option<&str>) -> Setting {
        Setting {
            key: key.to_owned(),
            kind,
            description: String::new(),
            required,
            default: default.map(str::to_owned),
        }
    }

    #[test]
    fn settings_are_those_of_the_manifest() {
        let known = [
            setting("region", SettingKind::String, true, None),
            setting("size", SettingKind::Integer, false, Some("2")),
            setting("fast", SettingKind::Bool, false, None),
            setting("key", SettingKind::Secret, false, None),
        ];
        let given = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(owned).collect()
        };
        for (pairs, wrong) in [
            (
                &[("region", "eu"), ("size", "3"), ("fast", "true")][..],
                None,
            ),
            (&[("size", "3")], Some("region")),
            (&[("region", "eu"), ("size", "three")], Some("size")),
            (&[("region", "eu"), ("fast", "yes")], Some("fast")),
            (&[("region", "eu"), ("key", "k")], None),
            (&[("region", "eu"), ("key", "")], Some("key")),
            (&[("region", "eu"), ("color", "red")], Some("color")),
            (&[("region", "a\0b")], Some("region")),
        ] {
            let found = match check(&known, &given(pairs)) {
                Ok(()) => None,
                Err(NotSelected::Setting(key, _)) => Some(key),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(found.as_deref(), wrong, "{pairs:?}");
        }
        let mut settings = given(&[("region", "eu"), ("key", "k")]);
        let secrets = take_secrets(&known, &mut settings);
        assert_eq!(secrets["key"].expose(), b"k");
        assert_eq!(settings, given(&[("region", "eu")]));
        let needs_key = [setting("key", SettingKind::Secret, true, None)];
        assert!(check(&needs_key, &given(&[])).is_err());
        assert!(check_stored(&needs_key, &given(&[])).is_ok());
        let effective = effective(&known, &given(&[("region", "eu")]));
        let expected = [("region", "eu"), ("size", "2")];
        assert_eq!(
            effective,
            expected.map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }
}
