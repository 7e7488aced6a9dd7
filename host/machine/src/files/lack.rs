//! Errors that say nothing about a path.

use std::io;

use rustix::io::Errno;

/// Whether the machine lacks something at the moment (room, open files, memory): the same may do later.
pub fn is_lack(error: &io::Error) -> bool {
    let kind = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::OutOfMemory
    );
    let files = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    kind || error
        .raw_os_error()
        .is_some_and(|code| files.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_passes_and_the_rest_stays() {
        for (errno, lack) in [
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::NOSPC, true),
            (Errno::DQUOT, true),
            (Errno::NOMEM, true),
            (Errno::ACCESS, false),
            (Errno::NOENT, false),
            (Errno::LOOP, false),
            (Errno::IO, false),
        ] {
            assert_eq!(is_lack(&errno.into()), lack, "{errno:?}");
        }
    }
}
