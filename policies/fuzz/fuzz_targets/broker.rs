//! Any bytes as a broker's request and answer: read or refused, never a panic; what is read comes back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policies::broker::{self, MOST_MESSAGE, Message};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Message { id, what, raw }) = broker::request(bytes) {
        // Texts may be longer in our own spelling (an escape for each control character), and then too long.
        if let Ok(again) = broker::encode(id, &what, raw) {
            assert!(again.len() <= MOST_MESSAGE);
            assert_eq!(broker::request(&again), Ok(Message { id, what, raw }));
        }
    }
    let _read = broker::answer(bytes);
});
