use super::frame::{END, ERROR, PRINT};
use super::*;

#[test]
fn a_job_is_read_as_it_was_written() {
    let mut header = JobHeader::run("a.syn", Some("stdout".into()));
    header.modules = vec!["b.syn".into()];
    let bytes = encode_job(&header, b"print(1)", &[b"export let x be 1".to_vec()], None).unwrap();
    let job = decode_job(&bytes).unwrap();
    assert_eq!(job.header, header);
    assert_eq!(job.source, b"print(1)");
    assert_eq!(job.modules, [b"export let x be 1".to_vec()]);
    for n in 0..bytes.len() {
        assert!(decode_job(&bytes[..n]).is_err());
    }
}

#[test]
fn a_state_follows_the_sources() {
    let mut header = JobHeader::run("a.scua", None);
    header.restore = true;
    let bytes = encode_job(&header, b"let x = 1", &[], Some(b"state")).unwrap();
    assert_eq!(decode_job(&bytes).unwrap().state, Some(b"state".to_vec()));
    for n in 0..bytes.len() {
        assert!(decode_job(&bytes[..n]).is_err());
    }
    header.restore = false;
    let bytes = encode_job(&header, b"let x = 1", &[], Some(b"state")).unwrap();
    assert_eq!(decode_job(&bytes).unwrap().state, None);
}

#[test]
fn frames_come_out_whole_whatever_the_pieces() {
    let end = EndFrame { exit: 3, fuel: 7, heap_peak: 9, trap: None, llm_tokens: 0 };
    let state = Frame::State(vec![0, 255]);
    let frames = [Frame::Print("hällo".into()), Frame::Log("x".into()), state, Frame::End(end)];
    let mut bytes = Vec::new();
    frames.iter().for_each(|f| encode(f, &mut bytes));
    for size in 1..bytes.len() {
        let mut decoder = FrameDecoder::new();
        let mut seen = Vec::new();
        for piece in bytes.chunks(size) {
            decoder.push(piece);
            while let Some(frame) = decoder.next_frame().unwrap() {
                seen.push(frame);
            }
        }
        assert_eq!(seen, frames);
        assert!(decoder.ended());
    }
}

#[test]
fn a_hostile_peer_is_refused() {
    let refuse = |bytes: &[u8]| {
        let mut decoder = FrameDecoder::new();
        decoder.push(bytes);
        loop {
            match decoder.next_frame() {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(e) => return Some(e),
            }
        }
    };
    assert_eq!(refuse(&[9, 0, 0, 0, 0]), Some(Broken::Kind(9)));
    assert!(matches!(refuse(&[PRINT, 255, 255, 255, 255]), Some(Broken::TooLong { .. })));
    assert_eq!(refuse(&[PRINT, 1, 0, 0, 0, 0xff]), Some(Broken::Text));
    assert!(matches!(refuse(&[END, 2, 0, 0, 0, b'{', b'}']), Some(Broken::Json { .. })));
}

#[test]
fn a_long_error_arrives_cut() {
    let long = "\u{1}é".repeat(1 << 20);
    let error = ErrorFrame {
        text: long.clone(),
        message: long.clone(),
        category: "Runtime error".into(),
        file: Some("a.syn".into()),
        line: Some(1),
        column: None,
        source: Some(long.clone()),
        denied: false,
        stack: vec![long; 100],
    };
    let mut bytes = Vec::new();
    encode(&Frame::Error(error), &mut bytes);
    assert!(bytes.len() <= MAX_JSON + 5);
    let mut decoder = FrameDecoder::new();
    decoder.push(&bytes);
    let Some(Frame::Error(read)) = decoder.next_frame().unwrap() else { panic!("no error") };
    assert!(read.text.ends_with('…') && read.text.len() > 40_000 && read.stack.len() == MAX_STACK);
    // What claims to be longer is refused by its head alone.
    let mut decoder = FrameDecoder::new();
    decoder.push(&[ERROR, 1, 0, 0x20, 0]);
    assert!(matches!(decoder.next_frame(), Err(Broken::TooLong { limit: MAX_JSON, .. })));
}

#[test]
fn a_long_print_is_split_at_a_character() {
    let text = "é".repeat(MAX_FRAME / 2 + 3);
    let mut bytes = Vec::new();
    encode_print(&text, &mut bytes);
    let mut decoder = FrameDecoder::new();
    decoder.push(&bytes);
    let mut joined = String::new();
    while let Some(frame) = decoder.next_frame().unwrap() {
        match frame {
            Frame::Print(t) | Frame::PrintPart(t) => joined.push_str(&t),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(joined, text);
}
