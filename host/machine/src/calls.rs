//! System calls that a tree may not make where nothing but an allow-list of paths is around it (LOC-002).
//!
//! Landlock judges files, not sockets with a file's name: `connect` goes through. Behind such sockets are services that trust
//! Core's account, or any account: the user's own systemd, a container engine, a database with peer authentication. So such a
//! tree makes no Unix socket. Connected pairs stay, which is what programs talk to their children with.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};

/// Kernel numbers of x86-64 calls with 32-bit pointers begin here. They are the same calls under another number.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// What is refused, ready to be entered without allocating.
pub(crate) struct Refused([BpfProgram; 2]);

impl Refused {
    /// # Errors
    /// Filters cannot be made for this processor.
    pub(crate) fn new() -> io::Result<Self> {
        let unix = argument(0, SeccompCmpOp::Eq, libc::AF_UNIX)?;
        // Only these could be connected anew, to another socket.
        let datagrams = argument(1, SeccompCmpOp::MaskedEq(0xf), libc::SOCK_DGRAM)?;
        let another = argument(0, SeccompCmpOp::Ne, 0)?;
        let families = rules([
            (libc::SYS_socket, vec![rule(vec![unix.clone()])?]),
            (libc::SYS_socketpair, vec![rule(vec![unix, datagrams])?]),
        ]);
        let others = rules([
            // Makes and connects sockets too.
            (libc::SYS_io_uring_setup, Vec::new()),
            // Keys belong to an account.
            (libc::SYS_add_key, Vec::new()),
            (libc::SYS_request_key, Vec::new()),
            (libc::SYS_keyctl, Vec::new()),
            // The limits of another process of the account, Core's for one.
            (libc::SYS_prlimit64, vec![rule(vec![another])?]),
        ]);
        Ok(Self([
            program(families, libc::EAFNOSUPPORT)?,
            program(others, libc::ENOSYS)?,
        ]))
    }

    /// Refuses them to this thread and all that it starts, for good.
    pub(crate) fn enter(&self) -> io::Result<()> {
        for program in &self.0 {
            apply_filter(program).map_err(|error| match error {
                seccompiler::Error::Prctl(cause) | seccompiler::Error::Seccomp(cause) => cause,
                _ => io::ErrorKind::Unsupported.into(),
            })?;
        }
        Ok(())
    }

    /// Proves that this kernel takes it: in a thread that ends.
    pub(crate) fn prove() -> io::Result<()> {
        let refused = Self::new()?;
        let tried = std::thread::Builder::new().spawn(move || refused.enter())?;
        tried
            .join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules<const N: usize>(of: [(libc::c_long, Vec<SeccompRule>); N]) -> Rules {
    of.into_iter().collect()
}

fn rule(conditions: Vec<SeccompCondition>) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(io::Error::other)
}

fn argument(number: u8, compared: SeccompCmpOp, with: libc::c_int) -> io::Result<SeccompCondition> {
    let with = u64::from(with.unsigned_abs());
    SeccompCondition::new(number, SeccompCmpArgLen::Dword, compared, with).map_err(io::Error::other)
}

fn program(rules: Rules, errno: libc::c_int) -> io::Result<BpfProgram> {
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(io::Error::other)?;
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch);
    let compiled: BpfProgram = filter
        .and_then(TryInto::try_into)
        .map_err(io::Error::other)?;
    Ok(no_other_numbers().into_iter().chain(compiled).collect())
}

/// Refuses the calls under their other numbers; the library leaves them alone. Calls of another processor end the process.
#[cfg(target_arch = "x86_64")]
fn no_other_numbers() -> Vec<sock_filter> {
    let step = |code: u32, jf, k| sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let answer = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    vec![
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, answer),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn no_other_numbers() -> Vec<sock_filter> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use super::*;

    #[test]
    fn unix_sockets_are_refused_and_connected_pairs_are_not() {
        let refused = Refused::new().unwrap();
        let path = tempfile::tempdir().unwrap().path().join("s");
        let inside = std::thread::spawn(move || {
            refused.enter().unwrap();
            let unsupported = |error: io::Error| error.raw_os_error() == Some(libc::EAFNOSUPPORT);
            assert!(UnixStream::connect(&path).is_err_and(unsupported));
            assert!(UnixListener::bind(&path).is_err_and(unsupported));
            assert!(UnixDatagram::pair().is_err_and(unsupported));
            UnixStream::pair().unwrap();
            std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            std::process::Command::new("/bin/true").status().unwrap();
        });
        inside.join().unwrap();
        Refused::prove().unwrap();
        // Another thread is as free as before.
        UnixDatagram::pair().unwrap();
    }
}
