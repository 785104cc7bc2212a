//! The command: reads what was typed and ends with the exit code of the table in `launcher::cli::exit`.
//!
//! It is the C library's `main`, not Rust's: what std prepares before its own (a handler for stack overflows with a stack of
//! its own, the bounds of the main thread's stack read from /proc/self/maps) is a fifth of the calls of a start, and
//! serves nobody here. What is needed of it, `launcher::cli::main` does first.
#![no_main]
#![expect(unsafe_code, reason = "a symbol that isn't mangled is declared so; nothing unsafe is done")]

/// Called by the C library's start code. The words come by way of `std::env`, which has them on this target without its own
/// `main` (std, `sys/args/unix.rs`: `.init_array`).
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    i32::from(launcher::cli::main())
}
