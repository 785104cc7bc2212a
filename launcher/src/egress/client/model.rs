//! The two shapes in which providers of models are spoken to.
//!
//! Source: the providers' published descriptions of `POST /v1/chat/completions` (OpenAI, and what is compatible with
//! it) and `POST /v1/messages` (Anthropic, version 2023-06-01).

use policies::{
    fetch::Form,
    turns::{Call, Spoken, Turn, Turns},
};
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
    pub(crate) const fn key_variable(self) -> &'static str {
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

    /// The variables that have keys.
    pub(crate) const KEYS: [&'static str; 2] = [Self::OpenAi.key_variable(), Self::Anthropic.key_variable()];

    /// The fields that carry the key.
    pub(super) fn fields(self, key: &str) -> Vec<(String, String)> {
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

    /// The body of a request with a whole conversation.
    pub(crate) fn conversation(self, model: &str, turns: &Turns, most_tokens: u32) -> Vec<u8> {
        let tools = turns.tools.iter().map(|tool| match self {
            Self::OpenAi => json!({ "type": "function", "function": tool }),
            Self::Anthropic => json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.parameters,
            }),
        });
        let tools: Vec<Value> = tools.collect();
        let mut body = json!({ "model": model, "max_tokens": most_tokens });
        match self {
            Self::OpenAi => body["messages"] = turns.turns.iter().map(openai_turn).collect(),
            Self::Anthropic => {
                let system: Vec<&str> = turns.turns.iter().filter_map(Turn::as_system).collect();
                if !system.is_empty() {
                    body["system"] = json!(system.join("\n\n"));
                }
                body["messages"] = Value::Array(anthropic_turns(turns));
            }
        }
        if !tools.is_empty() {
            body["tools"] = Value::Array(tools);
        }
        body.to_string().into_bytes()
    }
}

fn openai_turn(turn: &Turn) -> Value {
    match turn {
        Turn::System(content) => json!({ "role": "system", "content": content }),
        Turn::User(content) => json!({ "role": "user", "content": content }),
        Turn::Tool { id, content } => json!({ "role": "tool", "tool_call_id": id, "content": content }),
        Turn::Assistant(Spoken { content, calls }) => {
            let mut message = json!({ "role": "assistant", "content": content });
            if !calls.is_empty() {
                let call = |call: &Call| {
                    let function = json!({ "name": call.name, "arguments": call.arguments.to_string() });
                    json!({ "id": call.id, "type": "function", "function": function })
                };
                message["tool_calls"] = calls.iter().map(call).collect();
            }
            message
        }
    }
}

/// Turns but the system's. The results of calls stand together in one turn of the user's, as that provider wants them.
fn anthropic_turns(turns: &Turns) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    let mut results = false;
    for turn in &turns.turns {
        let (role, part) = match turn {
            Turn::System(_) => continue,
            Turn::User(content) => ("user", json!([{ "type": "text", "text": content }])),
            Turn::Tool { id, content } => {
                let part = json!({ "type": "tool_result", "tool_use_id": id, "content": content });
                let last = messages.last_mut().filter(|_| results);
                if let Some(parts) = last.and_then(|last| last["content"].as_array_mut()) {
                    parts.push(part);
                    continue;
                }
                ("user", json!([part]))
            }
            Turn::Assistant(Spoken { content, calls }) => {
                let text = (!content.is_empty()).then(|| json!({ "type": "text", "text": content }));
                let call = |call: &Call| json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments });
                ("assistant", text.into_iter().chain(calls.iter().map(call)).collect())
            }
        };
        results = matches!(turn, Turn::Tool { .. });
        messages.push(json!({ "role": role, "content": part }));
    }
    messages
}

/// Reads the answer to a request of so many bytes: its text, or [`Spoken`] as JSON.
///
/// # Errors
/// Why it is none. Nothing that the provider says of an error is shown: some repeat the key.
pub(super) fn read(
    (provider, form): (Provider, Form),
    status: u16,
    sent: u64,
    body: &[u8],
) -> Result<Said, String> {
    if !(200..300).contains(&status) {
        return Err(format!("the provider answered with status {status}"));
    }
    let unreadable = || "the provider's answer can't be read".to_owned();
    let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let count = |name: &str| answer.get("usage").and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    let tokens = match provider {
        Provider::OpenAi => count("total_tokens"),
        Provider::Anthropic => {
            let tokens = [count("input_tokens"), count("output_tokens")];
            tokens.iter().any(Option::is_some).then(|| tokens.iter().flatten().sum())
        }
    };
    let Spoken { content, calls } = spoken(provider, &answer).ok_or_else(unreadable)?;
    let text = match form {
        Form::Text if content.is_empty() && !calls.is_empty() => return Err(unreadable()),
        Form::Text => content,
        Form::Turns => serde_json::to_string(&Spoken { content, calls }).map_err(|_| unreadable())?,
    };
    // A provider that doesn't count is counted.
    let tokens = tokens.unwrap_or(about(sent, text.len()));
    Ok(Said { text, tokens })
}

/// Tokens of so many bytes there and back: about four bytes are one.
pub(super) fn about(sent: u64, got: usize) -> u64 {
    sent.saturating_add(got as u64) / 4 + 1
}

/// What a model said, whoever it is.
fn spoken(provider: Provider, answer: &Value) -> Option<Spoken> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    match provider {
        Provider::OpenAi => {
            let message = answer.pointer("/choices/0/message")?;
            let calls = message.get("tool_calls").and_then(Value::as_array);
            let calls: Vec<Call> = calls
                .into_iter()
                .flatten()
                .map(|call| {
                    let written = text(call.pointer("/function/arguments"));
                    Call {
                        id: text(call.get("id")),
                        name: text(call.pointer("/function/name")),
                        // A model may write what is no JSON: then that is what was written.
                        arguments: serde_json::from_str(&written).unwrap_or(Value::String(written)),
                    }
                })
                .collect();
            let content = message.get("content");
            let readable = content.is_some_and(Value::is_string) || !calls.is_empty();
            readable.then(|| Spoken { content: text(content), calls })
        }
        Provider::Anthropic => {
            let mut spoken = Spoken::default();
            for part in answer.get("content").and_then(Value::as_array)? {
                spoken.content.push_str(&text(part.get("text")));
                if part.get("type").and_then(Value::as_str) == Some("tool_use") {
                    spoken.calls.push(Call {
                        id: text(part.get("id")),
                        name: text(part.get("name")),
                        arguments: part.get("input").cloned().unwrap_or_default(),
                    });
                }
            }
            Some(spoken)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_read() {
        let said = |text: &str, tokens| Ok(Said { text: text.to_owned(), tokens });
        let body =
            br#"{"choices":[{"message":{"role":"assistant","content":"yes"}}],"usage":{"total_tokens":12}}"#;
        assert_eq!(read((Provider::OpenAi, Form::Text), 200, 0, body), said("yes", 12));
        let body = br#"{"content":[{"type":"text","text":"ye"},{"type":"text","text":"s"}],"usage":{"input_tokens":3,"output_tokens":4}}"#;
        assert_eq!(read((Provider::Anthropic, Form::Text), 200, 0, body), said("yes", 7));
        assert_eq!(
            read((Provider::Anthropic, Form::Text), 200, 8, br#"{"content":[{"text":"12345678"}]}"#),
            said("12345678", 5)
        );
        for (status, body) in [(401, &b"{\"error\":\"key sk-123\"}"[..]), (200, b"{}"), (200, b"<html>")] {
            let why = read((Provider::OpenAi, Form::Text), status, 0, body).unwrap_err();
            assert!(!why.contains("sk-"), "{why}");
        }
        let deep = "[".repeat(100_000);
        assert!(read((Provider::OpenAi, Form::Text), 200, 0, deep.as_bytes()).is_err());
    }

    #[test]
    fn a_conversation_has_each_providers_shape_and_calls_come_back() {
        let arguments = json!({ "a": 1 });
        let call = Call { id: "c1".to_owned(), name: "f".to_owned(), arguments: arguments.clone() };
        let spoken = Spoken { content: "wait".to_owned(), calls: vec![call.clone(), call] };
        let result = |content: &str| Turn::Tool { id: "c1".to_owned(), content: content.to_owned() };
        let parameters = json!({ "type": "object" });
        let tool = policies::turns::Tool { name: "f".to_owned(), description: "d".to_owned(), parameters };
        let turns = Turns {
            turns: vec![
                Turn::System("s".to_owned()),
                Turn::User("u".to_owned()),
                Turn::Assistant(spoken),
                result("1"),
                result("2"),
                Turn::User("go on".to_owned()),
            ],
            tools: vec![tool],
        };
        let of = |provider: Provider| -> Value {
            serde_json::from_slice(&provider.conversation("m", &turns, 9)).unwrap()
        };
        let body = of(Provider::OpenAi);
        assert_eq!(body["tools"][0]["function"]["name"], "f");
        assert_eq!(body["messages"].as_array().unwrap().len(), 6);
        assert_eq!(body["messages"][2]["tool_calls"][1]["function"]["arguments"], r#"{"a":1}"#);
        assert_eq!(body["messages"][3]["tool_call_id"], "c1");
        let body = of(Provider::Anthropic);
        assert_eq!(
            (&body["system"], &body["tools"][0]["input_schema"]["type"]),
            (&json!("s"), &json!("object"))
        );
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 4, "{messages:?}");
        assert_eq!(
            messages[1]["content"][1],
            json!({"type": "tool_use", "id": "c1", "name": "f", "input": arguments})
        );
        assert_eq!(messages[2]["content"].as_array().unwrap().len(), 2);
        let bodies = [
            (
                Provider::OpenAi,
                r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}]}}],"usage":{"total_tokens":5}}"#,
            ),
            (
                Provider::Anthropic,
                r#"{"content":[{"type":"tool_use","id":"x","name":"f","input":{"a":1}}],"usage":{"input_tokens":2,"output_tokens":3}}"#,
            ),
        ];
        for (provider, body) in bodies {
            let said = read((provider, Form::Turns), 200, 0, body.as_bytes()).unwrap();
            let spoken: Spoken = serde_json::from_str(&said.text).unwrap();
            assert_eq!((spoken.content.as_str(), spoken.calls[0].name.as_str(), said.tokens), ("", "f", 5));
            assert_eq!(spoken.calls[0].arguments, arguments);
            assert!(read((provider, Form::Text), 200, 0, body.as_bytes()).is_err());
        }
    }
}
