//! The broker's whole loop against a peer that sends anything: raw bytes, or requests about paths of the peer's making, in
//! order or not. Never a panic; and whatever comes back, no descriptor leads out of the granted folder, nothing beside it
//! changes, and no descriptor is left behind.
#![no_main]

use launcher::broker::{Broker, Lent, Outer, Outside, Used};
use libfuzzer_sys::fuzz_target;
use nix::{
    cmsg_space,
    sys::socket::{
        AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, recvmsg, send, socketpair,
    },
};
use policies::{
    broker::{self, Act, Child, How, Part, Profile, Request, What},
    ceiling::Ceiling,
    process::{Act as OfProcess, Stream},
    scope::Base,
    units::Millis,
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    io::IoSliceMut,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    os::unix::fs::symlink,
    path::PathBuf,
};

/// Inputs between two fresh folders.
const FRESH: u32 = 500;
/// What a path is made of.
const PARTS: [&str; 16] = [
    "/", "..", ".", "a.txt", "deep", "out", "in", "far", "circle", "*", "\\", "~", "\0", "new", "é", "a",
];

struct Scene {
    top: PathBuf,
    outside: PathBuf,
    used: u32,
}

impl Scene {
    fn new() -> Self {
        let home = std::env::temp_dir().join(format!("thirdwall-fuzz-{}", std::process::id()));
        let _gone = fs::remove_dir_all(&home);
        let (top, outside) = (home.join("top"), home.join("outside"));
        fs::create_dir_all(top.join("deep")).expect("a folder");
        fs::create_dir_all(&outside).expect("a folder");
        fs::write(top.join("a.txt"), "inside").expect("a file");
        fs::write(outside.join("secret"), "outside").expect("a file");
        for (to, name) in [("../outside", "out"), ("deep", "in"), ("circle", "circle")] {
            symlink(to, top.join(name)).expect("a link");
        }
        symlink(&outside, top.join("deep/far")).expect("a link");
        Self { top, outside, used: 0 }
    }

    fn check_outside(&self) {
        let names: Vec<_> = fs::read_dir(&self.outside).expect("the folder").flatten().collect();
        assert_eq!(names.len(), 1, "made outside: {names:?}");
        assert_eq!(fs::read_to_string(self.outside.join("secret")).expect("the file"), "outside");
    }
}

thread_local! {
    static SCENE: RefCell<Option<Scene>> = const { RefCell::new(None) };
}

/// Takes bytes off the input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let wanted = usize::from(self.byte().unwrap_or(0)).min(most).min(self.0.len());
        let (taken, rest) = self.0.split_at(wanted);
        self.0 = rest;
        taken
    }

    fn path(&mut self, top: &str) -> String {
        let mut path = if self.byte().unwrap_or(0) % 4 == 0 { String::new() } else { format!("{top}/") };
        for part in self.bytes(24) {
            match PARTS.get(usize::from(*part)) {
                Some(known) => path.push_str(known),
                None => path.push(char::from(*part)),
            }
            if part % 2 == 1 {
                path.push('/');
            }
        }
        path
    }
}

fuzz_target!(|bytes: &[u8]| {
    SCENE.with_borrow_mut(|scene| {
        let scene = match scene {
            Some(scene) if scene.used < FRESH => scene,
            _ => scene.insert(Scene::new()),
        };
        scene.used += 1;
        let before = descriptors();
        talk(scene, Input(bytes));
        scene.check_outside();
        assert_eq!(descriptors(), before, "a descriptor is left behind");
    });
});

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("the list").count()
}

fn talk(scene: &Scene, mut input: Input<'_>) {
    let top = scene.top.to_str().expect("text").to_owned();
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).expect("a pair");
    let scopes = [
        format!("file={top}/*"),
        format!("file.read={top}/deep/*,file.write={top}/new*,sandbox_run"),
        format!("file={top}/a.txt,file.read={top}/*/a.txt"),
        format!("db={top}/*,memory"),
        format!("db={top}/a.txt,memory=a"),
    ];
    let scope = usize::from(input.byte().unwrap_or(0)) % scopes.len();
    let ceiling = Ceiling::parse(&scopes[scope]).expect("a ceiling");
    let base = Base { workdir: top.clone(), home: None };
    let (notebooks, outside) = (Some(top.clone()), Outside::bare());
    let mut broker = Broker::new(ours, Lent { ceiling, base, outer: Outer::nobody(), notebooks, children: None, modules: None, outside });
    let mut id = 0_u32;
    let mut denied = 0_usize;
    while let Some(kind) = input.byte() {
        id += 1;
        let path = |input: &mut Input<'_>| input.path(&top);
        let request = match kind % 19 {
            0 => {
                let raw = input.bytes(255).to_vec();
                let _sent = send(theirs.as_raw_fd(), &raw, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
                if !served(&mut broker, &mut denied) {
                    return;
                }
                receive(&theirs, scene);
                continue;
            }
            1 => Request::Open { path: path(&mut input), how: How::Append },
            2 | 3 => Request::Replace { path: path(&mut input) },
            4 | 5 => Request::Commit {},
            6 => Request::Look { path: path(&mut input) },
            7 => Request::List { path: path(&mut input) },
            8 => Request::MakeFolder { path: path(&mut input) },
            9 => Request::Remove { path: path(&mut input), what: What::File },
            10 => Request::Remove { path: path(&mut input), what: What::Folder },
            11 => Request::Source {},
            12 => Request::RunProgram(Box::new(Child {
                ceiling: Ceiling::everything(),
                profile: Profile::Native,
                env: BTreeMap::new(),
                timeout_ms: u64::from(kind),
                fuel: None,
                cwd: Some(path(&mut input)),
                filename: "x".to_owned(),
            })),
            13 => {
                id = id.wrapping_add(u32::from(input.byte().unwrap_or(0)));
                Request::Commit {}
            }
            14 => Request::Database { path: path(&mut input), part: part(&mut input), act: act(&mut input) },
            15 => Request::Notebook { name: path(&mut input), part: part(&mut input), act: act(&mut input) },
            16 => Request::Process { number: u32::from(kind), act: of_process(&mut input) },
            _ => Request::Open { path: path(&mut input), how: How::Read },
        };
        let raw = if matches!(request, Request::Source {}) { input.bytes(255) } else { &[] };
        let message = broker::encode(id, &request, raw).expect("short enough");
        let _sent = send(theirs.as_raw_fd(), &message, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
        if !served(&mut broker, &mut denied) {
            return;
        }
        receive(&theirs, scene);
    }
}

fn part(input: &mut Input<'_>) -> Part {
    [Part::Main, Part::Journal, Part::Log][usize::from(input.byte().unwrap_or(0)) % 3]
}

fn act(input: &mut Input<'_>) -> Act {
    [Act::Read, Act::Write, Act::Make, Act::Look, Act::Remove][usize::from(input.byte().unwrap_or(0)) % 5]
}

fn of_process(input: &mut Input<'_>) -> OfProcess {
    let all = [OfProcess::Feed, OfProcess::EndInput, OfProcess::Read(Stream::Errors), OfProcess::Look, OfProcess::Forget];
    all[usize::from(input.byte().unwrap_or(0)) % 5]
}

/// Whether the peer is still listened to.
fn served(broker: &mut Broker, denied: &mut usize) -> bool {
    let mut tell = |entry: policies::audit::Entry| {
        assert!(!entry.granted);
        *denied += 1;
    };
    let mut used = || Used { memory: 0, processes: 1, cpu: Millis(0) };
    broker.serve(&mut tell, &mut used).is_ok() && broker.requests().is_some()
}

/// Looks at what came back: a descriptor must lead to the folder.
fn receive(socket: &OwnedFd, scene: &Scene) {
    let mut buffer = vec![0; broker::MOST_MESSAGE];
    let mut space = cmsg_space!([RawFd; 8]);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let Ok(message) = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) else { return };
    let length = message.bytes;
    for control in message.cmsgs().expect("well-formed") {
        if let ControlMessageOwned::ScmRights(raws) = control {
            for raw in raws {
                // SAFETY: just received, and owned by nobody else.
                let file = unsafe { OwnedFd::from_raw_fd(raw) };
                let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("its path");
                assert!(
                    real.starts_with(&scene.top) || real.starts_with("/memfd:"),
                    "a descriptor leads to {}",
                    real.display()
                );
            }
        }
    }
    broker::answer(&buffer[..length]).expect("an answer that can be read");
}
