//! Removals.

use super::*;

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
        "remove::removing_takes_locked_folders_at_every_depth",
        "remove::removing_takes_everything_and_repeats",
    ] {
        again(&wrap, test);
    }
}
