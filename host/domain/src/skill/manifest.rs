//! `SKILL.md`: YAML front matter between two `---` lines, then text for the agent (SKL-012 to SKL-015, ENV-520).

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// Longest `SKILL.md`, in bytes (SKL-012).
const MAX_BYTES: usize = 256 * 1024;
/// Longest name, in characters (SKL-013).
const MAX_NAME: usize = 64;
const FENCE: &str = "---";

/// What a Skill says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Lower-case letters and digits, separated by single `-` or `_`.
    pub name: String,
    /// When to use it.
    pub description: String,
}

/// Why a `SKILL.md` is refused. The text may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ManifestFault {
    /// SKL-012.
    #[error("SKILL.md must be UTF-8 text of at most 262144 bytes.")]
    Text,
    /// SKL-012.
    #[error("SKILL.md must begin with YAML front matter between two '---' lines.")]
    FrontMatter,
    /// SKL-015, ENV-520.
    #[error(
        "The front matter of SKILL.md must be a YAML mapping of name, description, license, compatibility and \
         string-valued metadata."
    )]
    Members,
    /// SKL-013.
    #[error(
        "The name in SKILL.md must be 1 to 64 lower-case letters and digits, optionally separated by single '-' or '_'."
    )]
    Name,
    /// SKL-014.
    #[error("The description in SKILL.md must not be empty.")]
    Description,
}

/// Everything the front matter may hold: hooks, permissions and the like are refused as unknown members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontMatter {
    name: Text,
    description: Text,
    #[serde(default, rename = "license")]
    _license: Option<Text>,
    #[serde(default, rename = "compatibility")]
    _compatibility: Option<Text>,
    #[serde(default, rename = "metadata")]
    _metadata: Option<BTreeMap<String, Text>>,
}

/// A scalar that YAML itself calls text; `1.0` and `true` are none.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

impl Manifest {
    /// Reads the bytes of a `SKILL.md`.
    ///
    /// # Errors
    /// [`ManifestFault`], the first that applies.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestFault> {
        if bytes.len() > MAX_BYTES {
            return Err(ManifestFault::Text);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ManifestFault::Text)?;
        if text.contains('\0') {
            return Err(ManifestFault::Text);
        }
        let front = front_matter(text).ok_or(ManifestFault::FrontMatter)?;
        let front: FrontMatter =
            serde_saphyr::from_str(&front).map_err(|_| ManifestFault::Members)?;
        let (name, description) = (front.name.0, front.description.0);
        // YAML has escapes, too.
        if description.contains('\0') {
            return Err(ManifestFault::Text);
        }
        if !is_name(&name) {
            return Err(ManifestFault::Name);
        }
        if description.trim().is_empty() {
            return Err(ManifestFault::Description);
        }
        Ok(Self { name, description })
    }
}

/// The lines between the first line, a fence, and the next fence.
fn front_matter(text: &str) -> Option<String> {
    let mut lines = text.lines();
    (lines.next()?.trim_end() == FENCE).then_some(())?;
    let mut front = String::new();
    for line in lines {
        if line.trim_end() == FENCE {
            return Some(front);
        }
        front.push_str(line);
        front.push('\n');
    }
    None
}

/// SKL-013.
pub(crate) fn is_name(name: &str) -> bool {
    let word = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !part.is_empty() && part.bytes().all(plain)
    };
    name.len() <= MAX_NAME && name.split(['-', '_']).all(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Manifest, ManifestFault> {
        Manifest::parse(text.as_bytes())
    }

    #[test]
    fn reads_name_and_description() {
        // SKL-012 to SKL-015, ENV-513a
        for text in [
            "---\nname: report\ndescription: Writes reports.\n---",
            "---\r\nname: report\r\ndescription: Writes reports.\r\n---\r\nText",
            "---\ndescription: 'Writes reports.'\nname: \"report\"\nlicense: MIT\ncompatibility: any\nmetadata:\n  version: \"1.0\"\n---\n# Report\n---\n",
        ] {
            let manifest = parse(text).unwrap();
            assert_eq!(
                (manifest.name.as_str(), manifest.description.as_str()),
                ("report", "Writes reports."),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_what_is_no_manifest() {
        for (text, fault) in [
            ("", ManifestFault::FrontMatter),
            ("# Report", ManifestFault::FrontMatter),
            (
                "\n---\nname: a\ndescription: b\n---",
                ManifestFault::FrontMatter,
            ),
            ("---\nname: a\ndescription: b\n", ManifestFault::FrontMatter),
            ("---\n---", ManifestFault::Members),
            ("---\n- a\n---", ManifestFault::Members),
            ("---\nname: a\n---", ManifestFault::Members),
            (
                "---\nname: a\ndescription: b\nhooks: {}\n---",
                ManifestFault::Members,
            ),
            (
                "---\nname: a\ndescription: b\nallowed-tools: Bash\n---",
                ManifestFault::Members,
            ),
            (
                "---\nname: a\ndescription: b\nmetadata:\n  version: 1.0\n---",
                ManifestFault::Members,
            ),
            (
                "---\nname: a\nname: b\ndescription: b\n---",
                ManifestFault::Members,
            ),
            (
                "---\nname: a\ndescription: [b]\n---",
                ManifestFault::Members,
            ),
            ("---\nname: A\ndescription: b\n---", ManifestFault::Name),
            ("---\nname: a--b\ndescription: b\n---", ManifestFault::Name),
            ("---\nname: -a\ndescription: b\n---", ManifestFault::Name),
            (
                "---\nname: a\ndescription: ' '\n---",
                ManifestFault::Description,
            ),
            ("---\nname: a\ndescription: b\n---\0", ManifestFault::Text),
            (
                "---\nname: a\ndescription: \"a\\0b\"\n---",
                ManifestFault::Text,
            ),
            (
                "---\nname: a\ndescription: \"a\\x00b\"\n---",
                ManifestFault::Text,
            ),
            (
                "---\nname: \"a\\0\"\ndescription: b\n---",
                ManifestFault::Name,
            ),
        ] {
            assert_eq!(parse(text), Err(fault), "{text:?}");
        }
        assert_eq!(
            Manifest::parse(b"---\nname: \xff"),
            Err(ManifestFault::Text)
        );
        let long = format!(
            "---\nname: a\ndescription: b\n---\n{}",
            "x".repeat(MAX_BYTES)
        );
        assert_eq!(parse(&long), Err(ManifestFault::Text));
        // Aliases that multiply.
        let mut bomb =
            "---\nname: a\ndescription: b\nmetadata:\n  a: &a [x, x, x, x, x, x, x, x]\n"
                .to_owned();
        for (one, two) in ["ab", "bc", "cd", "de", "ef", "fg", "gh"].map(|pair| pair.split_at(1)) {
            bomb.push_str(&format!(
                "  {two}: &{two} [{}]\n",
                vec![format!("*{one}"); 8].join(", ")
            ));
        }
        assert_eq!(parse(&(bomb + "---")), Err(ManifestFault::Members));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(---\n)?[ -~\n:&*\\[\\]{}é]{0,80}(\n---)?") {
            if let Ok(manifest) = parse(&text) {
                prop_assert!(is_name(&manifest.name));
            }
        }
    }
}
