//! The inner side: native code in the runtime's place, under the runtime's own plan.

use nix::{
    cmsg_space,
    sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg},
};
use policies::broker::{self, Answer, By, DESCRIPTOR, How, Listed, MOST_MESSAGE, Request, What};
use std::{
    fs::File,
    io::{IoSlice, IoSliceMut, Read, Write},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

/// A peer that keeps to the protocol as far as it is told to.
pub(crate) struct Peer {
    next: u32,
}

/// What came back.
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    pub(crate) raw: Vec<u8>,
    pub(crate) file: Option<File>,
}

impl Peer {
    pub(crate) fn new() -> Self {
        Self { next: 1 }
    }

    pub(crate) fn send_bytes(bytes: &[u8], descriptors: &[RawFd]) -> nix::Result<usize> {
        let rights = [ControlMessage::ScmRights(descriptors)];
        let control = if descriptors.is_empty() { &rights[..0] } else { &rights[..] };
        sendmsg::<UnixAddr>(DESCRIPTOR, &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None)
    }

    pub(crate) fn send(&mut self, what: &Request) {
        Self::send_bytes(&broker::encode(self.next, what, b"").unwrap(), &[]).unwrap();
        self.next += 1;
    }

    pub(crate) fn receive() -> Option<Reply> {
        let mut buffer = vec![0; MOST_MESSAGE];
        let mut space = cmsg_space!(RawFd);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let message =
            recvmsg::<UnixAddr>(DESCRIPTOR, &mut parts, Some(&mut space), MsgFlags::empty()).unwrap();
        let length = message.bytes;
        let file = message.cmsgs().unwrap().find_map(|control| match control {
            // The test's own descriptor, just received.
            ControlMessageOwned::ScmRights(raws) => raws.first().map(|raw| own(*raw)),
            _ => None,
        });
        if length == 0 {
            return None;
        }
        let message = broker::answer(&buffer[..length]).unwrap();
        Some(Reply { answer: message.what, raw: message.raw.to_vec(), file })
    }

    pub(crate) fn ask(&mut self, what: &Request) -> Reply {
        self.send(what);
        Self::receive().expect("an answer")
    }

    pub(crate) fn source(&mut self, piece: &[u8]) -> Result<(), By> {
        Self::send_bytes(&broker::encode(self.next, &Request::Source {}, piece).unwrap(), &[]).unwrap();
        self.next += 1;
        match Self::receive().unwrap().answer {
            Answer::Done => Ok(()),
            other => Err(refused(other)),
        }
    }

    /// The text of a file, or who refused.
    pub(crate) fn read(&mut self, path: &str) -> Result<String, By> {
        let reply = self.ask(&Request::Open { path: path.into(), how: How::Read });
        match reply.answer {
            Answer::Opened => {
                let mut text = String::new();
                reply.file.unwrap().read_to_string(&mut text).unwrap();
                Ok(text)
            }
            other => Err(refused(other)),
        }
    }

    pub(crate) fn replace(&mut self, path: &str, text: &str) -> Result<(), By> {
        let reply = self.ask(&Request::Replace { path: path.into() });
        match reply.answer {
            Answer::Opened => reply.file.unwrap().write_all(text.as_bytes()).unwrap(),
            other => return Err(refused(other)),
        }
        self.done(&Request::Commit {})
    }

    pub(crate) fn append(&mut self, path: &str, text: &str) -> Result<(), By> {
        let reply = self.ask(&Request::Open { path: path.into(), how: How::Append });
        match reply.answer {
            Answer::Opened => {
                reply.file.unwrap().write_all(text.as_bytes()).unwrap();
                Ok(())
            }
            other => Err(refused(other)),
        }
    }

    pub(crate) fn list(&mut self, path: &str) -> Result<Vec<Listed>, By> {
        let reply = self.ask(&Request::List { path: path.into() });
        match reply.answer {
            Answer::Inline => Ok(serde_json::from_slice(&reply.raw).unwrap()),
            Answer::Filed { bytes } => {
                let mut raw = Vec::new();
                reply.file.unwrap().read_to_end(&mut raw).unwrap();
                assert_eq!(raw.len() as u64, bytes);
                Ok(serde_json::from_slice(&raw).unwrap())
            }
            other => Err(refused(other)),
        }
    }

    pub(crate) fn look(&mut self, path: &str) -> Result<broker::Seen, By> {
        match self.ask(&Request::Look { path: path.into() }).answer {
            Answer::Seen(seen) => Ok(seen),
            other => Err(refused(other)),
        }
    }

    pub(crate) fn make_folder(&mut self, path: &str) -> Result<(), By> {
        self.done(&Request::MakeFolder { path: path.into() })
    }

    pub(crate) fn remove(&mut self, path: &str, what: What) -> Result<(), By> {
        self.done(&Request::Remove { path: path.into(), what })
    }

    pub(crate) fn done(&mut self, what: &Request) -> Result<(), By> {
        match self.ask(what).answer {
            Answer::Done => Ok(()),
            other => Err(refused(other)),
        }
    }
}

fn refused(answer: Answer) -> By {
    match answer {
        Answer::Refused(refused) => refused.by,
        other => panic!("not an answer to this: {other:?}"),
    }
}

#[expect(unsafe_code, reason = "a descriptor by number, just received")]
fn own(raw: RawFd) -> File {
    // SAFETY: the number was just received, or passed at the start; nothing else closes it.
    File::from(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// The words of the job: which act to do, and on which paths.
pub(crate) fn job() -> Vec<String> {
    let mut text = String::new();
    own(3).read_to_string(&mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Where frames go. Never closed.
pub(crate) fn frames() -> std::mem::ManuallyDrop<File> {
    std::mem::ManuallyDrop::new(own(4))
}

/// Sends a pipe's end beside bytes.
pub(crate) fn send_with_descriptor(bytes: &[u8]) {
    let _sent = Peer::send_bytes(bytes, &[std::io::stdout().as_raw_fd()]);
}
