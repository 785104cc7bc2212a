//! `build`: one executable that is the engine and a program, with ceiling and profile baked in.
//!
//! The engine has a place of 32 bytes for where its bundle stands. In an engine alone it says 'none', so a start costs no
//! look at the file. `build` copies the engine, appends the bundle (a job, `policies::wire`), and fills the place in.

use super::{
    args::{BuildArgs, RunArgs},
    job::Program,
    settings,
};
use crate::error::Error;
use policies::{
    scope::NormalPath,
    wire::{self, JobHeader, Mode},
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    hint::black_box,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
};

/// What the place begins with. Nothing else in the file may hold these bytes, so nobody else writes them out.
const LABEL: usize = 16;

/// Label, offset, length: the last two little-endian, 0 = no bundle.
#[used]
static PLACE: [u8; 32] = *b"3W-bundle-place:\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Largest bundle that is read.
const MOST: u64 = 512 << 20;

fn word(at: usize) -> u64 {
    // The compiler must not take the file's bytes for those of the source: `build` changes them.
    let place = black_box(&PLACE);
    let mut word = [0; 8];
    word.copy_from_slice(&place[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The bundle of this executable, if it is one that `build` made.
pub(super) fn own() -> Option<Result<(JobHeader, Program), Error>> {
    let (offset, length) = (word(LABEL), word(LABEL + 8));
    (length != 0).then(|| read(offset, length))
}

fn read(offset: u64, length: u64) -> Result<(JobHeader, Program), Error> {
    let failed = |source| Error::File { act: "read the program in", path: "this executable".into(), source };
    if length > MOST {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    File::open("/proc/self/exe").and_then(|exe| exe.read_exact_at(&mut bytes, offset)).map_err(failed)?;
    let job = wire::decode_job(&bytes)
        .map_err(|broken| failed(io::Error::new(io::ErrorKind::InvalidData, broken.to_string())))?;
    let header = job.header.clone();
    Ok((header, Program::of_job(job)))
}

/// Files beside the program, by their paths as they were given. A folder brings all files in it; links in it are left out,
/// as nobody named what they lead to.
fn packed(paths: &[String]) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let mut packed = BTreeMap::new();
    let mut left: Vec<String> = Vec::new();
    let mut size = 0;
    for path in paths {
        let named = NormalPath::parse(path).ok().map(|path| path.to_string());
        let named =
            named.filter(|path| !path.starts_with(['/', '~']) && path != ".." && !path.starts_with("../"));
        left.push(named.ok_or_else(|| Error::Usage {
            what: format!("--asset {path}: it is no path below this folder"),
            remedy: "call build in the folder that the program's paths start from".into(),
        })?);
    }
    while let Some(path) = left.pop() {
        let failed = |source| Error::File { act: "read the asset", path: path.clone(), source };
        if fs::metadata(&path).map_err(failed)?.is_dir() {
            for entry in fs::read_dir(&path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name().into_string();
                let name = name.map_err(|_| failed(io::Error::other("a name in it is not UTF-8")))?;
                if !entry.file_type().map_err(failed)?.is_symlink() {
                    left.push(if path == "." { name } else { format!("{path}/{name}") });
                }
            }
        } else {
            let bytes = super::sources::program(&path).map(Some).or_else(|error| match error.kind() {
                io::ErrorKind::FileTooLarge => Ok(None),
                _ => Err(failed(error)),
            })?;
            size = bytes.as_ref().map_or(usize::MAX, |bytes| bytes.len().saturating_add(size));
            let Some(bytes) = bytes.filter(|_| size <= wire::MAX_SOURCE) else {
                return Err(failed(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    "all assets together have at most 64 MiB",
                )));
            };
            packed.insert(path.clone(), bytes);
        }
        if packed.len() + left.len() > wire::MAX_MODULES {
            return Err(Error::Usage {
                what: format!("more than {} assets", wire::MAX_MODULES),
                remedy: "pack fewer files, or one archive".into(),
            });
        }
    }
    Ok(packed)
}

/// Writes the executable.
pub(super) fn build(args: &BuildArgs) -> Result<u8, Error> {
    super::apart::of_build(args)?;
    let run: RunArgs = args.as_run();
    let ceiling = settings::host_ceiling(&run)?;
    let mut program = Program::read(&args.file)?;
    // All modules must be known now: where the executable runs, their files aren't.
    program.explore(None, &run.common)?;
    program.pack(packed(&args.asset)?);
    if let Some(report) = super::run::refusals(&run)? {
        for error in &report.errors {
            let _told = writeln!(io::stderr(), "{error}");
        }
        return Ok(1);
    }
    let mut header = super::job::header(Mode::Run, &program, &run, ceiling.as_ref())?;
    header.audit.clone_from(&args.audit);
    let bundle = program.encode(header)?;
    let failed = |act| {
        let path = args.output.clone();
        move |source| Error::File { act, path, source }
    };
    let mut engine = fs::read("/proc/self/exe").map_err(failed("read the engine for"))?;
    let label = &black_box(&PLACE)[..LABEL];
    let mut places = engine.windows(PLACE.len()).enumerate().filter(|(_, window)| window.starts_with(label));
    let (Some((place, _)), None) = (places.next(), places.next()) else {
        return Err(failed("find the place for the bundle in")(io::ErrorKind::InvalidData.into()));
    };
    let offset = engine.len() as u64;
    engine[place + LABEL..place + LABEL + 8].copy_from_slice(&offset.to_le_bytes());
    engine[place + LABEL + 8..place + LABEL + 16].copy_from_slice(&(bundle.len() as u64).to_le_bytes());
    engine.extend_from_slice(&bundle);
    super::given::replace(Path::new(&args.output), 0o755, |file| file.write_all(&engine))
        .map_err(failed("write"))?;
    Ok(0)
}
