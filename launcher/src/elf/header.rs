//! One ELF file: which architecture, which loader, which libraries it names.
//!
//! Invariant: reads are bounded, and an offset that a file names is only ever read at, never indexed with.
//! Source: elf(5); the System V ABI, chapter 5.

use object::{
    LittleEndian,
    elf::{
        DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRTAB, Dyn64, ELFCLASS64, ELFDATA2LSB, ELFMAG,
        EM_AARCH64, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PT_DYNAMIC, PT_INTERP, PT_LOAD,
        ProgramHeader64,
    },
    pod::{from_bytes, slice_from_bytes},
};
use std::{fs::File, io, os::unix::fs::FileExt};

/// More program headers than the kernel takes in a page.
const MOST_HEADERS: u16 = 73;
/// Bytes of a path or a list of paths.
const MOST_TEXT: usize = 4096;
/// Entries of a dynamic section.
const MOST_ENTRIES: usize = 4096;
/// Libraries that one file names.
const MOST_NEEDED: usize = 512;

/// Why a file isn't a program for this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// No ELF file at all.
    NotElf,
    /// ELF for other hardware, or 32 bits.
    Foreign,
    /// ELF, but cut off, oversized or contradictory.
    Broken,
}

/// What the headers say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Headers {
    /// PT_INTERP: the loader's path; `None` = static.
    pub(super) interpreter: Option<String>,
    /// DT_NEEDED, in order.
    pub(super) needed: Vec<String>,
    /// DT_RPATH, unexpanded.
    pub(super) rpath: Option<String>,
    /// DT_RUNPATH, unexpanded.
    pub(super) runpath: Option<String>,
}

/// Reads the headers of an open file.
pub(super) fn read(file: &File) -> Result<Headers, Unfit> {
    let mut start = [0; size_of::<FileHeader64<LittleEndian>>()];
    let length = read_up_to(file, &mut start, 0).map_err(|_| Unfit::Broken)?;
    if !start.starts_with(&ELFMAG) {
        return Err(Unfit::NotElf);
    }
    // The class and the byte order stand in the first bytes of every kind of ELF file.
    if start.get(4) != Some(&ELFCLASS64.0) || start.get(5) != Some(&ELFDATA2LSB.0) {
        return Err(Unfit::Foreign);
    }
    if length < start.len() {
        return Err(Unfit::Broken);
    }
    let (header, _rest) = from_bytes::<FileHeader64<LittleEndian>>(&start).map_err(|()| Unfit::Broken)?;
    let native = if cfg!(target_arch = "x86_64") { EM_X86_64 } else { EM_AARCH64 };
    if header.e_machine.get(LittleEndian) != native {
        return Err(Unfit::Foreign);
    }
    if ![ET_EXEC, ET_DYN].contains(&header.e_type.get(LittleEndian)) {
        return Err(Unfit::Broken);
    }
    let count = header.e_phnum.get(LittleEndian);
    if count > MOST_HEADERS
        || usize::from(header.e_phentsize.get(LittleEndian)) != size_of::<ProgramHeader64<LittleEndian>>()
    {
        return Err(Unfit::Broken);
    }
    let size = usize::from(count).saturating_mul(size_of::<ProgramHeader64<LittleEndian>>());
    let bytes = read_exactly(file, header.e_phoff.get(LittleEndian), size)?;
    let (segments, _rest) = slice_from_bytes::<ProgramHeader64<LittleEndian>>(&bytes, usize::from(count))
        .map_err(|()| Unfit::Broken)?;
    let mut headers = Headers::default();
    for segment in segments {
        match segment.p_type.get(LittleEndian) {
            PT_INTERP => headers.interpreter = Some(text(file, segment.p_offset.get(LittleEndian))?),
            PT_DYNAMIC => dynamic(file, segment, segments, &mut headers)?,
            _other => {}
        }
    }
    Ok(headers)
}

fn dynamic(
    file: &File,
    section: &ProgramHeader64<LittleEndian>,
    segments: &[ProgramHeader64<LittleEndian>],
    headers: &mut Headers,
) -> Result<(), Unfit> {
    const ENTRY: usize = size_of::<Dyn64<LittleEndian>>();
    let size = usize::try_from(section.p_filesz.get(LittleEndian)).map_err(|_| Unfit::Broken)?;
    if size > MOST_ENTRIES * ENTRY {
        return Err(Unfit::Broken);
    }
    let bytes = read_exactly(file, section.p_offset.get(LittleEndian), size)?;
    let (entries, _rest) =
        slice_from_bytes::<Dyn64<LittleEndian>>(&bytes, size / ENTRY).map_err(|()| Unfit::Broken)?;
    let entries = || {
        entries
            .iter()
            .map(|entry| (entry.d_tag.get(LittleEndian), entry.d_val.get(LittleEndian)))
            .take_while(|(tag, _)| *tag != DT_NULL)
    };
    let Some((_, address)) = entries().find(|(tag, _)| *tag == DT_STRTAB) else { return Ok(()) };
    let strings = offset_of(address, segments).ok_or(Unfit::Broken)?;
    let string = |at: u64| text(file, strings.checked_add(at).ok_or(Unfit::Broken)?);
    for (tag, value) in entries() {
        match tag {
            DT_NEEDED if headers.needed.len() >= MOST_NEEDED => return Err(Unfit::Broken),
            DT_NEEDED => headers.needed.push(string(value)?),
            DT_RPATH => headers.rpath = Some(string(value)?),
            DT_RUNPATH => headers.runpath = Some(string(value)?),
            _other => {}
        }
    }
    Ok(())
}

/// Where in the file the loaded address stands.
fn offset_of(address: u64, segments: &[ProgramHeader64<LittleEndian>]) -> Option<u64> {
    segments.iter().filter(|segment| segment.p_type.get(LittleEndian) == PT_LOAD).find_map(|segment| {
        let inside = address.checked_sub(segment.p_vaddr.get(LittleEndian))?;
        let loaded = inside < segment.p_filesz.get(LittleEndian);
        loaded.then(|| segment.p_offset.get(LittleEndian).checked_add(inside)).flatten()
    })
}

/// A NUL-terminated text of the file.
fn text(file: &File, at: u64) -> Result<String, Unfit> {
    let mut bytes = vec![0; MOST_TEXT];
    let length = read_up_to(file, &mut bytes, at).map_err(|_| Unfit::Broken)?;
    bytes.truncate(length);
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(Unfit::Broken)?;
    bytes.truncate(end);
    String::from_utf8(bytes).map_err(|_| Unfit::Broken)
}

fn read_exactly(file: &File, at: u64, size: usize) -> Result<Vec<u8>, Unfit> {
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, at).map_err(|_| Unfit::Broken)?;
    Ok(bytes)
}

/// Reads until `bytes` is full or the file ends.
pub(super) fn read_up_to(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at.saturating_add(length as u64)) {
            Ok(0) => break,
            Ok(more) => length = length.saturating_add(more),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
