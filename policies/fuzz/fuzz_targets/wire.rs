//! Any bytes as a job and as frames, the frames in pieces of any size: never a panic, and memory stays bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policies::wire::{self, FrameDecoder};

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let _job = wire::decode_job(bytes);
    let mut decoder = FrameDecoder::new();
    for piece in bytes.chunks(usize::from(size).max(1)) {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(_frame)) => {}
                Ok(None) => break,
                Err(_broken) => return,
            }
        }
    }
});
