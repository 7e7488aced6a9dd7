//! Size and image of a hosted machine: resolved once, stored and shown; applied only by a provider that declares them
//! (API-050 to API-067).

use crate::configuration::SandboxSize;
use crate::invalid::{Invalid, Path};
use crate::metadata::Metadata;

/// Size where nobody named one (API-052).
const DEFAULT_SIZE: SandboxSize = SandboxSize::S;
/// Image where nobody named one (API-062).
const DEFAULT_IMAGE: &str = "default";
/// Image of the largest size; needs at least `M` (API-054, API-066).
const BROWSER_IMAGE: &str = "browser";

/// A resolved machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Size.
    pub size: SandboxSize,
    /// Image id.
    pub image: String,
}

/// Resolves explicit members, then `apipi.*` hints of the Session's and the Agent's metadata, then the defaults.
///
/// # Errors
/// 400 for an unknown size or image, or an image that needs a larger size.
pub fn resolve(
    size: Option<SandboxSize>,
    image: Option<&str>,
    hints: &[&Metadata],
) -> Result<Sandbox, Invalid> {
    let environment = Path::root().member("environment");
    let size = match (size, hint(hints, "apipi.sandbox_size")) {
        (Some(size), _) => size,
        (None, Some(word)) => {
            let path = environment.member("sandbox_size");
            SandboxSize::from_word(word)
                .ok_or_else(|| Invalid::not_one_of(&path, word, SandboxSize::WORDS))?
        }
        (None, None) => DEFAULT_SIZE,
    };
    let path = environment.member("sandbox_image");
    let image = match (image.or_else(|| hint(hints, "apipi.sandbox_image")), size) {
        (Some(image), _) => image,
        (None, SandboxSize::L) => BROWSER_IMAGE,
        (None, _) => DEFAULT_IMAGE,
    };
    const IMAGES: &[&str] = &[DEFAULT_IMAGE, BROWSER_IMAGE];
    if !IMAGES.contains(&image) {
        return Err(Invalid::not_one_of(&path, image, IMAGES));
    }
    if image == BROWSER_IMAGE && size < SandboxSize::M {
        return Err(Invalid::other(
            path.echo(),
            "The sandbox image 'browser' needs the size 'M' or larger.",
        ));
    }
    Ok(Sandbox {
        size,
        image: image.to_owned(),
    })
}

fn hint<'a>(hints: &[&'a Metadata], name: &str) -> Option<&'a str> {
    hints.iter().find_map(|metadata| {
        metadata
            .pairs()
            .find_map(|(key, value)| (key == name).then_some(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(pairs: &[(&str, &str)]) -> Metadata {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn resolved(
        size: Option<SandboxSize>,
        image: Option<&str>,
        hints: &[&Metadata],
    ) -> (SandboxSize, String) {
        let Sandbox { size, image } = resolve(size, image, hints).unwrap();
        (size, image)
    }

    #[test]
    fn the_nearest_choice_wins() {
        // API-052, API-062
        let session = metadata(&[("apipi.sandbox_size", "M")]);
        let agent = metadata(&[
            ("apipi.sandbox_size", "L"),
            ("apipi.sandbox_image", "browser"),
        ]);
        assert_eq!(
            resolved(None, None, &[]),
            (SandboxSize::S, "default".into())
        );
        assert_eq!(
            resolved(Some(SandboxSize::L), None, &[]),
            (SandboxSize::L, "browser".into())
        );
        assert_eq!(
            resolved(None, None, &[&session, &agent]),
            (SandboxSize::M, "browser".into())
        );
        assert_eq!(
            resolved(Some(SandboxSize::L), Some("default"), &[&session]),
            (SandboxSize::L, "default".into())
        );
    }

    #[test]
    fn bad_choices_are_named() {
        // API-058, API-065, API-066
        let bad = metadata(&[("apipi.sandbox_size", "XXL")]);
        assert_eq!(
            resolve(None, None, &[&bad]).unwrap_err().param.as_deref(),
            Some("environment.sandbox_size")
        );
        assert_eq!(
            resolve(None, Some("x"), &[]).unwrap_err().param.as_deref(),
            Some("environment.sandbox_image")
        );
        assert!(resolve(Some(SandboxSize::S), Some("browser"), &[]).is_err());
    }
}
