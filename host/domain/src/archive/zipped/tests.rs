//! One archive per trick (F29).

use std::io::{Cursor, Write};

use proptest::prelude::*;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::super::ArchiveFile;
use super::*;

const SMALL: Limits = Limits {
    compressed: 1 << 20,
    expanded: 1000,
    files: 5,
    entries: 8,
};

enum Entry<'a> {
    File(&'a str, &'a [u8]),
    Mode(&'a str, &'a [u8], u32),
    Folder(&'a str),
    Link(&'a str, &'a str),
}

fn zipped(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for entry in entries {
        match entry {
            Entry::File(name, bytes) => {
                writer.start_file(*name, options).unwrap();
                writer.write_all(bytes).unwrap();
            }
            Entry::Mode(name, bytes, mode) => {
                writer
                    .start_file(*name, options.unix_permissions(*mode))
                    .unwrap();
                writer.write_all(bytes).unwrap();
            }
            Entry::Folder(name) => writer.add_directory(*name, options).unwrap(),
            Entry::Link(name, target) => writer.add_symlink(*name, *target, options).unwrap(),
        }
    }
    writer.finish().unwrap().into_inner()
}

fn refused(entries: &[Entry<'_>]) -> ArchiveError {
    unpack(&zipped(entries), &SMALL).expect_err("refused")
}

/// Replaces every occurrence of a name in the raw bytes: the writer would refuse or clean it.
fn renamed(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut count = 0;
    for at in 0..=bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + from.len()].copy_from_slice(to);
            count += 1;
        }
    }
    assert_eq!(count, 2, "the local and the central name");
    bytes
}

#[test]
fn a_clean_archive_keeps_paths_bytes_and_executable_bits() {
    let bytes = zipped(&[
        Entry::Folder("s/"),
        Entry::File("s/SKILL.md", b"text"),
        Entry::Mode("s/bin/run", b"#!", 0o755),
    ]);
    let archive = unpack(&bytes, &SMALL).unwrap();
    assert_eq!(archive.root, "s");
    let names: Vec<_> = archive
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.executable))
        .collect();
    assert_eq!(names, [("SKILL.md", false), ("bin/run", true)]);
    assert_eq!(archive.file("SKILL.md"), Some(&b"text"[..]));
    // What we write is read as what it was, and equal trees are equal bytes.
    let packed = archive.pack(&SMALL).unwrap();
    assert_eq!(unpack(&packed, &SMALL).unwrap(), archive);
    assert_eq!(archive.pack(&SMALL).unwrap(), packed);
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let bytes = zipped(&[Entry::File("s/aaaaaaaa", b"x")]);
    for name in [
        b"../aaaaaaa",
        b"/aaaaaaaaa",
        b"s/../../aa",
        b"C:\\aaaaaaa",
        b"a\\..\\..\\xx",
        b"s/aaaa\0aaa",
        b"s//aaaaaaa",
        b"s/./aaaaaa",
        b"s/aaaaa\xff\xfe\xfd",
    ] {
        let found = unpack(&renamed(bytes.clone(), b"s/aaaaaaaa", name), &SMALL);
        assert_eq!(found, Err(ArchiveError::Path), "{}", name.escape_ascii());
    }
}

#[test]
fn links_and_devices_are_refused() {
    let link = [
        Entry::Link("s/link", "/etc"),
        Entry::File("s/link/passwd", b"x"),
    ];
    assert_eq!(refused(&link), ArchiveError::Special);
    assert_eq!(
        refused(&[Entry::Link("s/link", "x")]),
        ArchiveError::Special
    );
    for kind in [0o020_000, 0o060_000, 0o010_000, 0o140_000] {
        // The writer knows no devices: set the type bits of the central entry.
        let mut bytes = zipped(&[Entry::Mode("s/dev", b"", 0o644)]);
        let central = bytes
            .windows(4)
            .rposition(|part| part == b"PK\x01\x02")
            .unwrap();
        let mode: u32 = (kind | 0o644) << 16;
        bytes[central + 38..central + 42].copy_from_slice(&mode.to_le_bytes());
        assert_eq!(
            unpack(&bytes, &SMALL),
            Err(ArchiveError::Special),
            "{kind:o}"
        );
    }
}

#[test]
fn names_are_taken_once_by_case_form_and_kind() {
    for pair in [
        ["s/a", "s/A"],
        ["s/\u{e9}", "s/e\u{301}"],
        ["s/a", "S/b"],
        ["s/a", "s/a/b"],
        ["s/a/b", "s/a"],
    ] {
        let entries = [Entry::File(pair[0], b"1"), Entry::File(pair[1], b"2")];
        assert_eq!(refused(&entries), ArchiveError::Duplicate, "{pair:?}");
    }
    let bytes = zipped(&[Entry::File("s/aa", b"1"), Entry::File("s/bb", b"2")]);
    let twice = unpack(&renamed(bytes, b"s/bb", b"s/aa"), &SMALL);
    assert_eq!(twice, Err(ArchiveError::Duplicate));
    // A folder that is named and implied is one folder.
    let bytes = zipped(&[
        Entry::Folder("s/"),
        Entry::File("s/a/b", b""),
        Entry::Folder("s/a/"),
    ]);
    unpack(&bytes, &SMALL).unwrap();
}

#[test]
fn what_comes_out_is_counted() {
    let zeros = vec![0; 1_000_000];
    let limit = SMALL.expanded;
    assert_eq!(
        refused(&[Entry::File("s/bomb", &zeros)]),
        ArchiveError::Expanded { limit }
    );
    let half = vec![0; 600];
    let both = [Entry::File("s/a", &half), Entry::File("s/b", &half)];
    assert_eq!(refused(&both), ArchiveError::Expanded { limit });
    // A declared size below the real one, in both headers.
    let mut bytes = zipped(&[Entry::File("s/a", &[7; 500])]);
    for at in 0..bytes.len() - 4 {
        if bytes[at..at + 4] == 500_u32.to_le_bytes() {
            bytes[at..at + 4].copy_from_slice(&5_u32.to_le_bytes());
        }
    }
    assert_eq!(unpack(&bytes, &SMALL), Err(ArchiveError::Malformed));
}

#[test]
fn files_and_entries_are_counted() {
    let names: Vec<_> = (0..9).map(|number| format!("s/{number}")).collect();
    let files: Vec<_> = names.iter().map(|name| Entry::File(name, b"")).collect();
    assert_eq!(refused(&files[..6]), ArchiveError::Files { limit: 5 });
    assert_eq!(refused(&files), ArchiveError::Entries { limit: 8 });
    let long = vec![0; SMALL.compressed as usize + 1];
    let limit = SMALL.compressed;
    assert_eq!(
        unpack(&long, &SMALL),
        Err(ArchiveError::Compressed { limit })
    );
}

#[test]
fn there_is_one_folder_on_top() {
    for entries in [
        &[Entry::File("SKILL.md", b"")][..],
        &[Entry::File("a/x", b""), Entry::File("b/x", b"")],
        &[],
    ] {
        assert_eq!(refused(entries), ArchiveError::Root);
    }
}

#[test]
fn archives_that_hide_something_are_refused() {
    let clean = zipped(&[Entry::File("s/a", b"1")]);
    let before = [b"junk in front ".as_slice(), &clean].concat();
    let twice = [clean.as_slice(), &clean].concat();
    for bytes in [before, twice, clean[1..].to_vec(), Vec::new()] {
        assert_eq!(unpack(&bytes, &SMALL), Err(ArchiveError::Malformed));
    }
    for cut in 0..clean.len() {
        assert!(unpack(&clean[..cut], &SMALL).is_err(), "{cut}");
    }
}

proptest! {
    #[test]
    fn altered_archives_never_panic_and_never_grow(at in 0..200_usize, byte in any::<u8>()) {
        let mut bytes = zipped(&[Entry::Folder("s/"), Entry::File("s/a", &[1; 100]), Entry::Mode("s/b", b"2", 0o755)]);
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(archive) = unpack(&bytes, &SMALL) {
            prop_assert!(archive.expanded() <= SMALL.expanded);
            let plain = |file: &ArchiveFile| !file.path.split('/').any(|part| matches!(part, "" | "." | ".."));
            prop_assert!(archive.files.iter().all(plain));
        }
    }
}
