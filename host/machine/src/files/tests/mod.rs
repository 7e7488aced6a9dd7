mod export;
mod remove;

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

/// Runs one of these tests once more, under another program.
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
