//! Open files that travel over a socket, so that no child started meanwhile can inherit them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

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
