//! The two shapes in which providers of models are spoken to.
//!
//! Source: the providers' published descriptions of `POST /v1/chat/completions` (OpenAI, and what is compatible with
//! it) and `POST /v1/messages` (Anthropic, version 2023-06-01).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whose shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Provider {
    OpenAi,
    Anthropic,
}

/// What a model said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) tokens: u64,
}

impl Provider {
    /// By its name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "openai" => Some(Self::OpenAi),
            "anthropic" => Some(Self::Anthropic),
            _ => None,
        }
    }

    /// Where it is, unless the host says otherwise.
    pub(crate) fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
        }
    }

    /// The variable that has its key.
    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::OpenAi => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
        }
    }

    /// What stands behind the base of its URL.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "chat/completions",
            Self::Anthropic => "messages",
        }
    }

    /// The fields that carry the key.
    pub(crate) fn fields(self, key: &str) -> Vec<(String, String)> {
        let field = |name: &str, value: String| (name.to_owned(), value);
        let mut fields = vec![field("Content-Type", "application/json".to_owned())];
        match self {
            Self::OpenAi if key.is_empty() => {}
            Self::OpenAi => fields.push(field("Authorization", format!("Bearer {key}"))),
            Self::Anthropic => {
                fields.push(field("x-api-key", key.to_owned()));
                fields.push(field("anthropic-version", "2023-06-01".to_owned()));
            }
        }
        fields
    }

    /// The body of a request.
    pub(crate) fn body(self, model: &str, system: &str, prompt: &str, most_tokens: u32) -> Vec<u8> {
        let user = json!({ "role": "user", "content": prompt });
        let body = match self {
            Self::OpenAi => json!({
                "model": model,
                "max_tokens": most_tokens,
                "messages": [{ "role": "system", "content": system }, user],
            }),
            Self::Anthropic => json!({
                "model": model,
                "max_tokens": most_tokens,
                "system": system,
                "messages": [user],
            }),
        };
        body.to_string().into_bytes()
    }
}

/// Reads the answer to a request of so many bytes.
///
/// # Errors
/// Why it is none. Nothing that the provider says of an error is shown: some repeat the key.
pub(super) fn read(provider: Provider, status: u16, sent: u64, body: &[u8]) -> Result<Said, String> {
    if !(200..300).contains(&status) {
        return Err(format!("the provider answered with status {status}"));
    }
    let unreadable = || "the provider's answer can't be read".to_owned();
    let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let count = |name: &str| answer.get("usage").and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    let (text, tokens) = match provider {
        Provider::OpenAi => {
            let text = answer.pointer("/choices/0/message/content").and_then(Value::as_str);
            (text.map(str::to_owned), count("total_tokens"))
        }
        Provider::Anthropic => {
            let parts = answer.get("content").and_then(Value::as_array);
            let text = parts.map(|parts| {
                parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect::<String>()
            });
            let tokens = [count("input_tokens"), count("output_tokens")];
            (text, tokens.iter().any(Option::is_some).then(|| tokens.iter().flatten().sum()))
        }
    };
    let text = text.ok_or_else(unreadable)?;
    // A provider that doesn't count is counted.
    let tokens = tokens.unwrap_or(about(sent, text.len()));
    Ok(Said { text, tokens })
}

/// Tokens of so many bytes there and back: about four bytes are one.
pub(super) fn about(sent: u64, got: usize) -> u64 {
    sent.saturating_add(got as u64) / 4 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_read() {
        let said = |text: &str, tokens| Ok(Said { text: text.to_owned(), tokens });
        let body =
            br#"{"choices":[{"message":{"role":"assistant","content":"yes"}}],"usage":{"total_tokens":12}}"#;
        assert_eq!(read(Provider::OpenAi, 200, 0, body), said("yes", 12));
        let body = br#"{"content":[{"type":"text","text":"ye"},{"type":"text","text":"s"}],"usage":{"input_tokens":3,"output_tokens":4}}"#;
        assert_eq!(read(Provider::Anthropic, 200, 0, body), said("yes", 7));
        assert_eq!(
            read(Provider::Anthropic, 200, 8, br#"{"content":[{"text":"12345678"}]}"#),
            said("12345678", 5)
        );
        for (status, body) in [(401, &b"{\"error\":\"key sk-123\"}"[..]), (200, b"{}"), (200, b"<html>")] {
            let why = read(Provider::OpenAi, status, 0, body).unwrap_err();
            assert!(!why.contains("sk-"), "{why}");
        }
        let deep = "[".repeat(100_000);
        assert!(read(Provider::OpenAi, 200, 0, deep.as_bytes()).is_err());
    }
}
