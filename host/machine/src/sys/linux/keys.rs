//! Key rings of the kernel.

use std::io;

/// `KEYCTL_JOIN_SESSION_KEYRING`
const JOIN_SESSION_KEYRING: libc::c_long = 1;

/// Joins an empty session key ring: that of whoever started us stays with them. Where the kernel has no keys, or none for us,
/// what we start has none either.
pub(crate) fn leave_session_keys() -> io::Result<()> {
    // SAFETY: the operation takes one pointer, to a name; a null pointer asks for a ring without a name. No memory is touched.
    let joined = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    };
    if joined >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM) => Ok(()),
        _ => Err(error),
    }
}
