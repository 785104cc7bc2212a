//! An empty text at an address that nobody else knows.
//!
//! Source: mmap(2), MAP_FIXED_NOREPLACE (Linux 4.17); getrandom(2).

use nix::errno::Errno;
use std::ffi::CStr;

/// Bits of the random address: half of the least address space that the architecture's kernels are built with.
#[cfg(target_arch = "x86_64")]
const ADDRESS_BITS: u32 = 46;
#[cfg(target_arch = "aarch64")]
const ADDRESS_BITS: u32 = 38;

/// Pages are at most this large; a random place in the last part of one stays within it.
const LARGEST_PAGE: usize = 1 << 16;
/// Low addresses are not for ordinary users to map (vm.mmap_min_addr).
const LOWEST: usize = 1 << 20;

/// Maps one read-only page of zeros at a random address, for good, and gives a random place in it.
///
/// # Errors
/// ENOSYS or EAGAIN without random numbers, ENOMEM without memory, EEXIST when everything that was tried is in use.
pub(crate) fn empty_text() -> Result<&'static CStr, Errno> {
    let mut result = Errno::EEXIST;
    for _attempt in 0..64 {
        let random = random()? & ((1 << ADDRESS_BITS) - 1);
        let base = random & !(LARGEST_PAGE - 1);
        if base < LOWEST {
            continue;
        }
        match map_zeros(base) {
            Ok(page) => {
                let place = page.get(random - base..=random - base).ok_or(Errno::EFAULT)?;
                return CStr::from_bytes_with_nul(place).map_err(|_| Errno::EFAULT);
            }
            Err(errno) => result = errno,
        }
    }
    Err(result)
}

fn random() -> Result<usize, Errno> {
    let mut bytes = [0; size_of::<usize>()];
    // SAFETY: the kernel writes at most the length of `bytes` into it.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // Up to 256 bytes are never cut short.
    Errno::result(got).map(|_| usize::from_ne_bytes(bytes))
}

fn map_zeros(base: usize) -> Result<&'static [u8; LARGEST_PAGE], Errno> {
    let wanted = std::ptr::with_exposed_provenance_mut::<libc::c_void>(base);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping that replaces none (MAP_FIXED_NOREPLACE): no memory that is in use changes.
    let page = unsafe { libc::mmap(wanted, LARGEST_PAGE, libc::PROT_READ, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    // SAFETY: `LARGEST_PAGE` bytes are mapped at `page`, readable, zero, aligned for bytes, never written or unmapped.
    Ok(unsafe { &*page.cast::<[u8; LARGEST_PAGE]>() })
}
