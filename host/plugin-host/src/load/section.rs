//! `plugin.toml` inside a plugin file, read before a line of the plugin runs.

use contract::native::MANIFEST_SECTION;

/// What a file is, told by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A WASM component.
    Component,
    /// A core module: not a plugin yet.
    CoreModule,
    /// A native library of this kind of system.
    Library,
    /// Anything else.
    Unknown,
}

/// Tells the format.
#[must_use]
pub fn format(bytes: &[u8]) -> Format {
    match bytes {
        [b'\0', b'a', b's', b'm', _, _, 1, 0, ..] => Format::Component,
        [b'\0', b'a', b's', b'm', 1, 0, 0, 0, ..] => Format::CoreModule,
        [0x7f, b'E', b'L', b'F', ..] => Format::Library,
        // Mach-O, 64 bits.
        [0xcf, 0xfa, 0xed, 0xfe, ..] => Format::Library,
        _ => Format::Unknown,
    }
}

/// The manifest's text, if the file carries one.
#[must_use]
pub fn manifest(bytes: &[u8]) -> Option<String> {
    let found = match format(bytes) {
        Format::Component | Format::CoreModule => custom_section(bytes)?.to_vec(),
        Format::Library => library_section(bytes)?,
        Format::Unknown => return None,
    };
    String::from_utf8(found).ok()
}

/// The same component with a manifest of its own, as its last custom section.
#[must_use]
pub fn with_manifest(component: &[u8], manifest: &str) -> Vec<u8> {
    let mut body = Vec::new();
    leb(&mut body, MANIFEST_SECTION.len());
    body.extend_from_slice(MANIFEST_SECTION.as_bytes());
    body.extend_from_slice(manifest.as_bytes());
    let mut bytes = component.to_vec();
    bytes.push(0);
    leb(&mut bytes, body.len());
    bytes.extend_from_slice(&body);
    bytes
}

fn leb(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// The custom section of that name at the top of a module or component.
fn custom_section(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.get(8..)?;
    let mut found = None;
    while let Some((id, after)) = rest.split_first() {
        let (size, body) = read_leb(after)?;
        let section = body.get(..size)?;
        rest = body.get(size..)?;
        if *id == 0 {
            let (length, named) = read_leb(section)?;
            if named.get(..length)? == MANIFEST_SECTION.as_bytes() {
                found = Some(named.get(length..)?);
            }
        }
    }
    found
}

fn read_leb(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_u32;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f).checked_shl(7 * u32::try_from(index).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(feature = "native")]
fn library_section(bytes: &[u8]) -> Option<Vec<u8>> {
    use object::{Object as _, ObjectSection as _};

    let file = object::File::parse(bytes).ok()?;
    let section = file
        .section_by_name(MANIFEST_SECTION)
        .or_else(|| file.section_by_name("__berth_plugin"))?;
    Some(section.data().ok()?.to_vec())
}

/// Whether a library has every part that its head promises: the system maps it without looking.
#[cfg(feature = "native")]
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    use object::{Object as _, ObjectSegment as _};

    let Ok(file) = object::File::parse(bytes) else {
        return false;
    };
    file.segments().all(|segment| {
        let (start, length) = segment.file_range();
        start
            .checked_add(length)
            .is_some_and(|end| end <= bytes.len() as u64)
    })
}

#[cfg(not(feature = "native"))]
fn library_section(_bytes: &[u8]) -> Option<Vec<u8>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];

    #[test]
    fn a_manifest_that_was_put_in_comes_out() {
        let long = "x".repeat(70_000);
        for text in ["", "id = 1", &long] {
            let whole = with_manifest(&EMPTY, text);
            assert_eq!(format(&whole), Format::Component);
            assert_eq!(manifest(&whole).as_deref(), Some(text));
        }
        let twice = with_manifest(&with_manifest(&EMPTY, "old"), "new");
        assert_eq!(manifest(&twice).as_deref(), Some("new"));
        assert_eq!(manifest(&EMPTY), None);
    }

    #[test]
    fn a_cut_file_has_no_manifest() {
        let whole = with_manifest(&EMPTY, "id = \"a\"");
        for end in 0..whole.len() {
            assert_eq!(manifest(&whole[..end]), None, "{end}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_judged(magic in 0..4_usize, tail in proptest::collection::vec(proptest::num::u8::ANY, 0..512)) {
            let heads: [&[u8]; 4] = [&EMPTY, b"\0asm\x01\0\0\0", b"\x7fELF\x02\x01\x01\0", b""];
            let bytes = [heads[magic], &tail].concat();
            if let Some(text) = manifest(&bytes) {
                let _ = super::super::judged(&text);
            }
        }

        #[test]
        fn any_text_is_judged(text in "\\PC{0,200}") {
            let _ = super::super::judged(&text);
        }
    }

    proptest::proptest! {
        // Nearly right ones reach every rule.
        #[test]
        fn a_manifest_with_parts_replaced_is_judged(
            which in 0..3_usize,
            changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0..24_usize, "\\PC{0,12}|[a-z\"'=\\[\\]{}.,\n-]{0,12}"), 1..6),
        ) {
            let manifests = [
                include_str!("../../../../plugins/harness-codex/plugin.toml"),
                include_str!("../../../../plugins/sandbox-local/plugin.toml"),
                include_str!("../../../../plugins/mcp-bindings/plugin.toml"),
            ];
            let mut text: Vec<char> = manifests[which].chars().collect();
            for (at, length, replacement) in changes {
                let start = at.index(text.len().max(1)).min(text.len());
                let end = (start + length).min(text.len());
                text.splice(start..end, replacement.chars());
            }
            let text: String = text.into_iter().collect();
            let _ = super::super::judged(&text);
        }
    }

    #[test]
    fn hostile_lengths_are_no_crash() {
        for tail in [
            &[0xff; 5][..],
            &[0, 0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0, 2, 9, 1],
        ] {
            let mut bytes = EMPTY.to_vec();
            bytes.extend_from_slice(tail);
            assert_eq!(manifest(&bytes), None);
        }
        assert_eq!(manifest(b"\x7fELF"), None);
    }
}
