//! Captures.

use super::*;

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
        "export::an_export_has_as_many_entries_as_its_limit_allows",
    );
}
