//! Server-sent events: cuts a stream of bytes into whole events, and reads what they say of tokens.
//!
//! Only whole events go on: if an upstream breaks off inside an event, the client gets an error
//! event and never half of one.

use std::collections::VecDeque;

use hyper::body::Bytes;
use serde::Deserialize;

/// Tokens of a request, as the upstream counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Usage {
    /// Of the prompt.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Of the answer; embeddings have none.
    #[serde(default)]
    pub completion_tokens: u64,
}

/// An event that is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// The state of a stream of answers.
#[derive(Debug)]
pub struct AnswerEvents {
    partial: Vec<u8>,
    max_event: usize,
    /// Whether the client asked for usage; otherwise the event that holds nothing else is left out.
    keeps_usage: bool,
    ready: VecDeque<Bytes>,
    /// Events with a part of the answer.
    pub parts: u64,
    /// What the upstream counted.
    pub usage: Option<Usage>,
    /// Whether the answer ended at its limit of tokens.
    pub is_cut: bool,
    /// Whether the last event was there.
    pub is_done: bool,
}

impl AnswerEvents {
    /// Nothing read yet.
    pub fn new(max_event: usize, keeps_usage: bool) -> Self {
        Self {
            partial: Vec::new(),
            max_event,
            keeps_usage,
            ready: VecDeque::new(),
            parts: 0,
            usage: None,
            is_cut: false,
            is_done: false,
        }
    }

    /// Whole events that can go on.
    pub fn pop(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    /// Whether whole events can go on.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a part of an event has come, but not its end.
    pub fn is_inside_event(&self) -> bool {
        self.partial.iter().any(|byte| !byte.is_ascii_whitespace())
    }

    /// Takes bytes as they came.
    pub fn push(&mut self, mut bytes: Bytes) -> Result<(), TooLong> {
        if !self.partial.is_empty() {
            // The end may lie across the border, so a search starts a little before it.
            let searched = self.partial.len().saturating_sub(3);
            self.partial.extend_from_slice(&bytes);
            match event_end(&self.partial, searched) {
                None if self.partial.len() > self.max_event => return Err(TooLong),
                None => return Ok(()),
                Some(_) => bytes = Bytes::from(std::mem::take(&mut self.partial)),
            }
        }
        let mut kept = 0;
        let mut start = 0;
        while let Some(end) = event_end(&bytes, start) {
            if end - start > self.max_event {
                return Err(TooLong);
            }
            if !self.read_event(&bytes[start..end]) {
                if kept < start {
                    self.ready.push_back(bytes.slice(kept..start));
                }
                kept = end;
            }
            start = end;
        }
        if kept < start {
            self.ready.push_back(bytes.slice(kept..start));
        }
        self.partial.extend_from_slice(&bytes[start..]);
        if self.partial.len() > self.max_event { Err(TooLong) } else { Ok(()) }
    }

    /// Whether the client gets the event.
    fn read_event(&mut self, event: &[u8]) -> bool {
        let Some(data) = event.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return true };
        if data == b"[DONE]" {
            self.is_done = true;
            return true;
        }
        let has_usage = contains(data, b"\"usage\":{") || contains(data, b"\"usage\": {");
        let is_cut = contains(data, b"\"length\"");
        if !has_usage && !is_cut {
            self.parts += 1;
            return true;
        }
        let Ok(chunk) = serde_json::from_slice::<Chunk>(data) else { return true };
        self.usage = chunk.usage.or(self.usage);
        self.parts += u64::from(!chunk.choices.is_empty());
        let cut = |choice: &Choice| choice.finish_reason.as_deref() == Some("length");
        self.is_cut |= chunk.choices.iter().any(cut);
        self.keeps_usage || !(chunk.usage.is_some() && chunk.choices.is_empty())
    }
}

/// What the gateway reads of an answer, streamed or whole.
#[derive(Debug, Default, Deserialize)]
pub struct Chunk {
    /// Tokens so far.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Answers.
    #[serde(default)]
    pub choices: Vec<Choice>,
}

/// One of the answers.
#[derive(Debug, Deserialize)]
pub struct Choice {
    /// Why it ended.
    #[serde(default)]
    pub finish_reason: Option<String>,
}

/// The end of the first event: behind an empty line.
fn event_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == b'\n' || *byte == b'\r')?;
        let rest = &bytes[at..];
        for blank in [&b"\r\n\r\n"[..], b"\n\n", b"\r\r", b"\n\r\n"] {
            if rest.starts_with(blank) {
                return Some(at + blank.len());
            }
        }
        at += 1;
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n\
        : a comment\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\r\n\r\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5}}\n\n\
        data: [DONE]\n\n";

    fn read(stream: &str, piece: usize, keeps_usage: bool) -> (String, AnswerEvents) {
        let mut events = AnswerEvents::new(1000, keeps_usage);
        let mut out = Vec::new();
        for piece in stream.as_bytes().chunks(piece) {
            events.push(Bytes::copy_from_slice(piece)).unwrap();
            while let Some(bytes) = events.pop() {
                out.extend_from_slice(&bytes);
            }
        }
        (String::from_utf8(out).unwrap(), events)
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        for piece in 1..=STREAM.len() {
            let (out, events) = read(STREAM, piece, true);
            assert_eq!(out, STREAM, "{piece}");
            let usage = Usage { prompt_tokens: 3, completion_tokens: 5 };
            assert_eq!(events.usage, Some(usage));
            assert_eq!((events.parts, events.is_cut, events.is_done), (2, true, true));
            assert!(!events.is_inside_event());
        }
    }

    #[test]
    fn usage_that_the_client_did_not_ask_for_is_left_out() {
        for piece in [1, 7, 1000] {
            let (out, events) = read(STREAM, piece, false);
            let lines: Vec<&str> = STREAM.lines().filter(|line| !line.contains("5}")).collect();
            assert_eq!(out.lines().filter(|line| !line.is_empty()).count() + 1, 5);
            assert!(out.lines().filter(|line| !line.is_empty()).all(|line| lines.contains(&line)));
            assert_eq!(events.usage.unwrap().completion_tokens, 5);
        }
    }

    #[test]
    fn half_an_event_does_not_go_on_and_an_endless_one_is_refused() {
        let (out, events) = read("data: {\"choices\":[]}\n\ndata: {\"cho", 5, true);
        assert_eq!(out, "data: {\"choices\":[]}\n\n");
        assert!(events.is_inside_event() && !events.is_done);
        let mut events = AnswerEvents::new(1000, true);
        let endless = Bytes::from(vec![b'x'; 400]);
        assert_eq!((0..9).find(|_| events.push(endless.clone()).is_err()), Some(2));
        assert_eq!(AnswerEvents::new(9, true).push(Bytes::from("data: 1234567\n\n")), Err(TooLong));
    }
}
