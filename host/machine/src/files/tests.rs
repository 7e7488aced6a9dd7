use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::{CreateError, ExportError, ExportLimits, Folder, LIST_ENTRIES, ListError, Rejection};

/// A workspace with a secret beside it.
fn workspace() -> (TempDir, Folder) {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("workspace")).unwrap();
    std::fs::write(root.path().join("secret"), "sentinel").unwrap();
    let folder = Folder::open(&root.path().join("workspace")).unwrap();
    (root, folder)
}

fn at(root: &TempDir, path: &str) -> std::path::PathBuf {
    root.path().join("workspace").join(path)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let (root, folder) = workspace();
    symlink(root.path(), at(&root, "out")).unwrap();
    symlink("../secret", at(&root, "link")).unwrap();
    for path in [
        "../secret",
        "/etc/passwd",
        "out/secret",
        "link",
        ".",
        "",
        "a/../../secret",
    ] {
        folder.read(Path::new(path), 100).unwrap_err();
    }
    for path in ["../new", "/tmp/new", "out/new", ".", ""] {
        folder.replace(Path::new(path), b"x", 0o600).unwrap_err();
        folder.create(Path::new(path), b"x").unwrap_err();
    }
    folder.remove_all(Path::new("out/secret")).unwrap_err();
    folder.remove_all(Path::new("../secret")).unwrap_err();
    assert_eq!(
        std::fs::read_to_string(root.path().join("secret")).unwrap(),
        "sentinel"
    );
    assert!(!root.path().join("new").exists());
}

#[test]
fn reading_is_bounded_and_refuses_what_is_no_file() {
    let (root, folder) = workspace();
    std::fs::write(at(&root, "five"), "12345").unwrap();
    assert_eq!(folder.read(Path::new("five"), 5).unwrap(), b"12345");
    assert_eq!(
        folder.read(Path::new("five"), 4).unwrap_err().kind(),
        std::io::ErrorKind::FileTooLarge
    );
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at(&root, "fifo"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    assert_eq!(
        folder.read(Path::new("fifo"), 5).unwrap_err().kind(),
        std::io::ErrorKind::InvalidInput
    );
}

#[test]
fn looking_neither_follows_a_link_nor_waits() {
    use super::Part;
    let (root, folder) = workspace();
    std::fs::create_dir_all(at(&root, "sub/deep/deeper")).unwrap();
    for path in ["sub/file", "sub/deep/file", "sub/deep/deeper/file"] {
        std::fs::write(at(&root, path), "12345").unwrap();
    }
    std::fs::set_permissions(at(&root, "sub/file"), PermissionsExt::from_mode(0o640)).unwrap();
    symlink("../../secret", at(&root, "sub/link")).unwrap();
    symlink("sub", at(&root, "to-sub")).unwrap();
    let fifo = at(&root, "sub/fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, fifo, kind, 0o640.into(), 0).unwrap();
    let file = Path::new("sub/file");
    assert!(folder.holds(file, b"12345", 0o640));
    for (path, bytes, mode) in [
        ("sub/file", &b"12345"[..], 0o600),
        ("sub/file", b"12346", 0o640),
        ("sub/file", b"1234", 0o640),
        ("sub/fifo", b"", 0o640),
        ("sub/link", b"sentinel", 0o644),
        ("to-sub/file", b"12345", 0o640),
        ("sub", b"", 0o755),
    ] {
        assert!(!folder.holds(Path::new(path), bytes, mode), "{path}");
    }
    assert_eq!(folder.part(file, Part::Head, 2).unwrap(), b"12");
    assert_eq!(folder.part(file, Part::Tail, 2).unwrap(), b"45");
    assert_eq!(folder.part(file, Part::Tail, 9).unwrap(), b"12345");
    for path in ["sub/fifo", "sub/link", "to-sub/file", "sub", "../secret"] {
        folder.part(Path::new(path), Part::Tail, 9).unwrap_err();
    }
    let files = |levels, most| folder.files(Path::new("sub"), levels, most).unwrap();
    assert_eq!(
        files(1, 9),
        [("deep/file".to_owned(), 5), ("file".to_owned(), 5)]
    );
    assert_eq!(
        (files(0, 9).len(), files(2, 9).len(), files(2, 1).len()),
        (1, 3, 1)
    );
    folder.files(Path::new("to-sub"), 1, 9).unwrap_err();
}

// RP-15.1, RP-15.2, RP-15.3
#[test]
fn a_listing_has_the_regular_files_of_one_folder() {
    let (root, folder) = workspace();
    std::fs::create_dir_all(at(&root, "sub/deeper")).unwrap();
    std::fs::write(at(&root, "sub/b"), "12").unwrap();
    std::fs::write(at(&root, "sub/a"), "").unwrap();
    symlink("b", at(&root, "sub/link")).unwrap();
    symlink("sub", at(&root, "to-sub")).unwrap();
    let entries = folder.list(Path::new("sub")).unwrap();
    let found: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.bytes))
        .collect();
    assert_eq!(found, [("a", 0), ("b", 2)]);
    assert!(entries[0].modified_ms > 1_600_000_000_000);
    for missing in ["nowhere", "sub/b", "to-sub", "sub/b/x", "to-sub/deeper"] {
        assert!(
            matches!(
                folder.list(Path::new(missing)),
                Err(ListError::NotDirectory)
            ),
            "{missing}"
        );
    }
    std::fs::create_dir(at(&root, "many")).unwrap();
    for number in 0..=LIST_ENTRIES {
        std::fs::create_dir(at(&root, &format!("many/{number}"))).unwrap();
    }
    assert!(matches!(
        folder.list(Path::new("many")),
        Err(ListError::TooManyEntries)
    ));
    std::fs::remove_dir(at(&root, "many/0")).unwrap();
    assert_eq!(folder.list(Path::new("many")).unwrap(), []);
}

#[test]
fn replacing_makes_parents_keeps_the_mode_and_replaces_a_link_itself() {
    let (root, folder) = workspace();
    symlink("../secret", at(&root, "link")).unwrap();
    folder.replace(Path::new("link"), b"mine", 0o644).unwrap();
    assert_eq!(std::fs::read(at(&root, "link")).unwrap(), b"mine");
    folder.replace(Path::new("a/b/c"), b"one", 0o600).unwrap();
    folder.replace(Path::new("a/b/c"), b"two", 0o755).unwrap();
    assert_eq!(std::fs::read(at(&root, "a/b/c")).unwrap(), b"two");
    assert_eq!(
        (mode(&at(&root, "a/b/c")), mode(&at(&root, "a/b"))),
        (0o755, 0o700)
    );
    folder.replace(Path::new("a/b"), b"x", 0o600).unwrap_err();
    let left: Vec<_> = std::fs::read_dir(at(&root, "a/b")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays");
    assert_eq!(
        std::fs::read_to_string(root.path().join("secret")).unwrap(),
        "sentinel"
    );
}

fn rejection(created: Result<(), CreateError>) -> Rejection {
    match created {
        Err(CreateError::Rejected(rejection)) => rejection,
        other => panic!("{other:?}"),
    }
}

// RP-15.8, RP-15.9, RP-15.10
#[test]
fn creating_never_replaces_anything() {
    let (root, folder) = workspace();
    std::fs::create_dir_all(at(&root, "real")).unwrap();
    std::fs::write(at(&root, "file"), "old").unwrap();
    symlink("nowhere", at(&root, "dangling")).unwrap();
    symlink("real", at(&root, "inside")).unwrap();
    symlink(root.path(), at(&root, "outside")).unwrap();
    folder.create(Path::new("new/deep/file"), b"one").unwrap();
    folder.create(Path::new("inside/file"), b"two").unwrap();
    assert_eq!(std::fs::read(at(&root, "real/file")).unwrap(), b"two");
    assert_eq!(
        (
            mode(&at(&root, "new/deep/file")),
            mode(&at(&root, "new/deep"))
        ),
        (0o600, 0o700)
    );
    for (path, expected) in [
        ("file", Rejection::DestinationExists),
        ("dangling", Rejection::DestinationExists),
        ("inside", Rejection::DestinationExists),
        ("real", Rejection::DestinationDirectory),
        ("file/below", Rejection::ParentUnusable),
        ("outside/new", Rejection::ParentUnusable),
        ("dangling/new", Rejection::ParentUnusable),
    ] {
        assert_eq!(
            rejection(folder.create(Path::new(path), b"x")),
            expected,
            "{path}"
        );
    }
    assert_eq!(std::fs::read(at(&root, "file")).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(at(&root, "new/deep")).unwrap().count(), 1);
}

type Captured = Vec<(String, Vec<u8>)>;

fn capture(folder: &Folder, limits: ExportLimits) -> Result<Option<Captured>, ExportError> {
    let Some(mut export) = folder.export(Path::new("outputs"), limits)? else {
        return Ok(None);
    };
    let mut files = Vec::new();
    while let Some(mut file) = export.next()? {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        assert_eq!(file.size(), bytes.len() as u64);
        let path = file.path().to_owned();
        file.finish()?;
        files.push((path, bytes));
    }
    Ok(Some(files))
}

// RP-15.14, RP-15.15, RP-15.17
#[test]
fn an_export_has_every_regular_file_and_skips_links() {
    let (root, folder) = workspace();
    assert!(capture(&folder, ExportLimits::default()).unwrap().is_none());
    std::fs::create_dir_all(at(&root, "outputs/sub/empty")).unwrap();
    std::fs::write(at(&root, "outputs/z"), "1").unwrap();
    std::fs::write(at(&root, "outputs/sub/b"), "2").unwrap();
    std::fs::hard_link(at(&root, "outputs/sub/b"), at(&root, "outputs/sub/a")).unwrap();
    symlink("z", at(&root, "outputs/link")).unwrap();
    symlink(root.path(), at(&root, "outputs/folder-link")).unwrap();
    symlink("nowhere", at(&root, "outputs/sub/dangling")).unwrap();
    let found = capture(&folder, ExportLimits::default()).unwrap().unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
        .collect();
    assert_eq!(found, [("z", &b"1"[..]), ("sub/a", b"2"), ("sub/b", b"2")]);
}

// RP-15.16
#[test]
fn an_export_fails_on_special_files_links_to_the_folder_and_limits() {
    let (root, folder) = workspace();
    std::fs::create_dir(at(&root, "real")).unwrap();
    symlink("real", at(&root, "outputs")).unwrap();
    assert!(matches!(
        capture(&folder, ExportLimits::default()),
        Err(ExportError::NotDirectory)
    ));
    std::fs::remove_file(at(&root, "outputs")).unwrap();
    std::fs::write(at(&root, "outputs"), "").unwrap();
    assert!(matches!(
        capture(&folder, ExportLimits::default()),
        Err(ExportError::NotDirectory)
    ));
    std::fs::remove_file(at(&root, "outputs")).unwrap();
    std::fs::create_dir_all(at(&root, "outputs/a/b")).unwrap();
    std::fs::write(at(&root, "outputs/a/b/file"), "12345").unwrap();
    std::fs::write(at(&root, "outputs/more"), "12345").unwrap();
    let base = ExportLimits::default();
    for (name, limits) in [
        ("entries", ExportLimits { entries: 3, ..base }),
        ("depth", ExportLimits { depth: 1, ..base }),
        (
            "path length",
            ExportLimits {
                path_bytes: 7,
                ..base
            },
        ),
        (
            "file size",
            ExportLimits {
                file_bytes: 4,
                ..base
            },
        ),
        (
            "total size",
            ExportLimits {
                total_bytes: 9,
                ..base
            },
        ),
    ] {
        match capture(&folder, limits) {
            Err(ExportError::Limit(which)) => assert_eq!(which, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let exact = ExportLimits {
        entries: 4,
        depth: 2,
        path_bytes: 8,
        file_bytes: 5,
        total_bytes: 10,
    };
    assert_eq!(capture(&folder, exact).unwrap().unwrap().len(), 2);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at(&root, "outputs/a/fifo"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    assert!(matches!(
        capture(&folder, base),
        Err(ExportError::SpecialFile)
    ));
}

// RP-15.16
#[test]
fn an_export_fails_when_a_file_changes_while_it_is_read() {
    let (root, folder) = workspace();
    std::fs::create_dir(at(&root, "outputs")).unwrap();
    let path = at(&root, "outputs/file");
    for change in ["grown", "1234", "other"] {
        std::fs::write(&path, "12345").unwrap();
        let mut export = folder
            .export(Path::new("outputs"), ExportLimits::default())
            .unwrap()
            .unwrap();
        let mut file = export.next().unwrap().unwrap();
        file.read_exact(&mut [0; 2]).unwrap();
        match change {
            "grown" => std::fs::write(&path, "123456").unwrap(),
            "1234" => std::fs::write(&path, "1234").unwrap(),
            _ => {
                let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
                std::fs::File::options()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_modified(later)
                    .unwrap();
            }
        }
        std::io::copy(&mut file, &mut std::io::sink()).unwrap();
        assert!(
            matches!(file.finish(), Err(ExportError::Changed)),
            "{change}"
        );
    }
}

// LOC-023
#[test]
fn removing_takes_everything_and_repeats() {
    let (root, folder) = workspace();
    std::fs::create_dir_all(at(&root, "tree/locked/inner")).unwrap();
    std::fs::write(at(&root, "tree/locked/inner/file"), "").unwrap();
    symlink(root.path().join("secret"), at(&root, "tree/link")).unwrap();
    let mut deep = at(&root, "tree/deep");
    for _ in 0..200 {
        deep.push("d");
    }
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::set_permissions(at(&root, "tree/locked"), PermissionsExt::from_mode(0o000)).unwrap();
    folder.remove_all(Path::new("tree")).unwrap();
    assert!(!at(&root, "tree").exists());
    folder.remove_all(Path::new("tree")).unwrap();
    folder.remove_all(Path::new("never/was")).unwrap();
    symlink(root.path(), at(&root, "link")).unwrap();
    folder.remove_all(Path::new("link")).unwrap();
    assert_eq!(
        std::fs::read_to_string(root.path().join("secret")).unwrap(),
        "sentinel"
    );
}

// LOC-023: a folder that may not be written may not be moved either, so the depth at which folders are moved is no
// different from any other.
#[test]
fn removing_takes_locked_folders_at_every_depth() {
    for mode in [0o555, 0o000] {
        let (root, folder) = workspace();
        let mut deep = at(&root, "tree");
        let mut all = Vec::new();
        for _ in 0..70 {
            deep.push("d");
            all.push(deep.clone());
        }
        std::fs::create_dir_all(&deep).unwrap();
        for folder in &all {
            std::fs::write(folder.join("file"), "").unwrap();
        }
        for folder in all.iter().rev() {
            std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).unwrap();
        }
        folder.remove_all(Path::new("tree")).unwrap();
        assert!(!at(&root, "tree").exists(), "{mode:o}");
    }
}

// Modes hold back an ordinary user only.
#[test]
fn an_ordinary_user_removes_locked_folders_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let wrap = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    for test in [
        "removing_takes_locked_folders_at_every_depth",
        "removing_takes_everything_and_repeats",
    ] {
        again(&wrap, test);
    }
}

/// Runs one test of this file once more, under another program.
fn again(wrap: &[&str], test: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    // Whoever we become may not enter the folder that we were built in.
    let program = folder.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = std::process::Command::new(wrap[0])
        .args(&wrap[1..])
        .arg(&program)
        .args(["--exact", &format!("files::tests::{test}")])
        .env("TMPDIR", folder.path())
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

// RP-15.16: as many entries as the limit allows, not as many as files may be open.
#[test]
fn an_export_has_as_many_entries_as_its_limit_allows() {
    let (root, folder) = workspace();
    for number in 0..500 {
        let sub = at(&root, &format!("outputs/sub-{number:03}"));
        std::fs::create_dir_all(&sub).unwrap();
        std::fs::write(sub.join("file"), "").unwrap();
        std::fs::write(at(&root, &format!("outputs/file-{number:03}")), "").unwrap();
    }
    let found = capture(&folder, ExportLimits::default()).unwrap().unwrap();
    assert_eq!(found.len(), 1000);
    assert_eq!(
        (found[0].0.as_str(), found[999].0.as_str()),
        ("file-000", "sub-499/file")
    );
}

#[test]
fn an_export_holds_few_files_open() {
    again(
        &["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"],
        "an_export_has_as_many_entries_as_its_limit_allows",
    );
}

proptest! {
    /// Whatever the path, nothing beside the workspace changes and no call panics.
    #[test]
    fn no_path_touches_what_lies_beside(path in "(\\.\\./|/|a|out/|\\./|link|\u{e9}|\\.\\.|\0){0,6}") {
        let (root, folder) = workspace();
        symlink("..", at(&root, "out")).unwrap();
        symlink("../secret", at(&root, "link")).unwrap();
        let path = Path::new(&path);
        let _ = (folder.read(path, 10), folder.list(path), folder.export(path, ExportLimits::default()).is_ok());
        let _ = (folder.create(path, b"x"), folder.replace(path, b"x", 0o600), folder.create_folder(path, 0o700));
        let _ = (folder.holds(path, b"sentinel", 0o644), folder.part(path, super::Part::Tail, 4), folder.files(path, 2, 9));
        let _ = folder.remove_all(path);
        prop_assert_eq!(std::fs::read_to_string(root.path().join("secret")).unwrap(), "sentinel");
        prop_assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2);
    }
}
