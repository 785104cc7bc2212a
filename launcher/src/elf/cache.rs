//! The loader's cache of libraries, /etc/ld.so.cache: for those that stand in no standard folder.
//!
//! Source: glibc sysdeps/generic/dl-cache.h, `struct cache_file_new`.

use std::{fs::File, io::Read, path::PathBuf};

/// Where it is.
pub(super) const PATH: &str = "/etc/ld.so.cache";

const MOST_BYTES: u64 = 16 << 20;
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0\0";
const HEADER: usize = 48;
const ENTRY: usize = 24;
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;

/// FLAG_ELF_LIBC6 with the architecture's own word.
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0x0303;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0x0a03;

/// The cache's bytes from its newer header on; empty where there is none.
#[derive(Debug, Default)]
pub(super) struct Cache(Vec<u8>);

impl Cache {
    /// Reads the host's.
    pub(super) fn read() -> Self {
        let mut bytes = Vec::new();
        let read = File::open(PATH).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
        if read.is_err() { Self::default() } else { Self::parse(bytes) }
    }

    fn parse(mut bytes: Vec<u8>) -> Self {
        // Before glibc 2.32 the newer cache stands behind an older one, aligned to eight bytes.
        if bytes.starts_with(OLD_MAGIC) {
            let count = word(&bytes, 12).unwrap_or(0) as usize;
            let end = count.saturating_mul(OLD_ENTRY).saturating_add(OLD_HEADER).next_multiple_of(8);
            bytes = bytes.split_off(end.min(bytes.len()));
        }
        if bytes.starts_with(MAGIC) { Self(bytes) } else { Self::default() }
    }

    /// The paths for a library's name, the preferred first. Variants for certain processors are left out.
    pub(super) fn find(&self, name: &str) -> Vec<PathBuf> {
        let count = word(&self.0, 20).unwrap_or(0) as usize;
        self.0
            .get(HEADER..)
            .unwrap_or_default()
            .chunks_exact(ENTRY)
            .take(count)
            .filter(|entry| {
                let plain = word(entry, 16) == Some(0) && word(entry, 20) == Some(0);
                plain && word(entry, 0) == Some(NATIVE) && self.text(word(entry, 4)) == Some(name)
            })
            .filter_map(|entry| self.text(word(entry, 8)).map(PathBuf::from))
            .filter(|path| path.is_absolute())
            .collect()
    }

    fn text(&self, at: Option<u32>) -> Option<&str> {
        let rest = self.0.get(at? as usize..)?;
        let end = rest.iter().take(4096).position(|byte| *byte == 0)?;
        std::str::from_utf8(rest.get(..end)?).ok()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(entries: &[(u32, &str, &str)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((entries.len() as u32).to_le_bytes());
        bytes.resize(HEADER, 0);
        let mut strings = Vec::new();
        let first = HEADER + entries.len() * ENTRY;
        for (flags, key, value) in entries {
            let mut put = |text: &str| {
                let at = (first + strings.len()) as u32;
                strings.extend(text.bytes().chain([0]));
                at
            };
            let (key, value) = (put(key), put(value));
            for word in [*flags, key, value, 0, 0, 0] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn entries_are_found_by_name_and_architecture() {
        let bytes =
            made(&[(NATIVE, "liba.so.1", "/opt/liba.so.1"), (0x0003, "liba.so.1", "/opt32/liba.so.1")]);
        assert_eq!(Cache::parse(bytes.clone()).find("liba.so.1"), [PathBuf::from("/opt/liba.so.1")]);
        assert!(Cache::parse(bytes.clone()).find("libb.so.1").is_empty());
        let mut old = OLD_MAGIC.to_vec();
        old.extend(1_u32.to_le_bytes());
        old.resize(OLD_HEADER + OLD_ENTRY + 4, 0);
        old.extend(bytes);
        assert_eq!(Cache::parse(old).find("liba.so.1").len(), 1);
    }

    #[test]
    fn a_broken_cache_has_nothing() {
        let bytes = made(&[(NATIVE, "liba.so.1", "/opt/liba.so.1")]);
        for end in 0..bytes.len() {
            assert!(Cache::parse(bytes[..end].to_vec()).find("liba.so.1").is_empty(), "{end}");
        }
        let mut huge = bytes;
        huge[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Cache::parse(huge).find("liba.so.1").len(), 1);
    }
}
