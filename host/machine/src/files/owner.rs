//! Who can change what is in a folder.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::geteuid;

/// Everybody whom a user namespace does not know, root outside of it too.
const UNMAPPED: u32 = 65534;

/// Whether nobody but this account and root can change what is in a folder, which is no link. In a sandbox of ours a folder
/// of Core may belong to an account that does not exist there: then the view must show it read-only.
pub fn is_ours_alone(folder: &Path) -> bool {
    let (Ok(found), Ok(mounted)) = (std::fs::symlink_metadata(folder), statvfs(folder)) else {
        return false;
    };
    let read_only = mounted.f_flag.contains(StatVfsMountFlags::RDONLY);
    found.is_dir() && alone(found.mode(), found.uid(), geteuid().as_raw(), read_only)
}

fn alone(mode: u32, owner: u32, own: u32, read_only: bool) -> bool {
    let ours = owner == own || owner == 0 || (owner == UNMAPPED && read_only);
    ours && mode & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_folder_of_a_foreign_account_or_that_others_may_write_is_not_ours() {
        assert!(alone(0o755, 1000, 1000, false) && alone(0o755, 0, 1000, false));
        for mode in [0o775, 0o757, 0o777] {
            assert!(!alone(mode, 1000, 1000, false) && !alone(mode, 0, 1000, true));
        }
        for (owner, read_only) in [(1001, false), (1001, true), (UNMAPPED, false)] {
            assert!(!alone(0o700, owner, 1000, read_only), "{owner}");
        }
        assert!(alone(0o755, UNMAPPED, 1000, true));

        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        symlink(&folder, outer.path().join("link")).unwrap();
        assert!(is_ours_alone(&folder));
        assert!(!is_ours_alone(&outer.path().join("link")));
        assert!(!is_ours_alone(&outer.path().join("missing")));
        if geteuid().is_root() {
            chown(&folder, Some(1234), None).unwrap();
            assert!(!is_ours_alone(&folder));
        }
    }
}
