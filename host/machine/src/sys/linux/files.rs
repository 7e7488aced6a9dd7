//! Open files that travel over a socket, so that no child started meanwhile can inherit them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends open files together with one byte.
pub(crate) fn send_files<const N: usize>(
    socket: impl AsFd,
    files: &[OwnedFd; N],
) -> io::Result<()> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(N))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    if !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(
        socket,
        &[IoSlice::new(&[0])],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives exactly so many open files, each closed on exec.
pub(crate) fn receive_files<const N: usize>(socket: impl AsFd) -> io::Result<[OwnedFd; N]> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(N))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let read = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if read.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut files = Vec::with_capacity(N);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    files
        .try_into()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Marks everything but the three standard streams close-on-exec: what a careless parent left open ends with us and
/// does not reach the programs that we start. Called first of all in a single-purpose process.
pub(crate) fn keep_to_ourselves() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(number) = name
            .to_str()
            .and_then(|name| name.parse().ok())
            .filter(|number: &i32| *number > 2)
        else {
            continue;
        };
        // SAFETY: the number was in our table a moment ago and no other thread exists that could close it; the one of
        // the listing itself is open until the loop ends. The borrow ends with this iteration.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok(())
}
