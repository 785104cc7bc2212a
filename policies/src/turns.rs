//! A conversation with a model that may call tools: what a runtime sends as the body of a prompt, and what it gets back.
//!
//! Invariant: the shape of every provider is made from this one by the supervisor's side; a program never sees a provider's.

use serde::{Deserialize, Serialize};

/// Turns of a conversation at most.
pub const MOST_TURNS: usize = 1000;
/// Tools at most.
pub const MOST_TOOLS: usize = 128;

/// A conversation, and the tools that the model may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    /// In their order.
    pub turns: Vec<Turn>,
    /// What may be called.
    pub tools: Vec<Tool>,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Turn {
    /// What the model is told of its task.
    System(String),
    /// What somebody asks.
    User(String),
    /// What the model said.
    Assistant(Spoken),
    /// What a call came to.
    Tool {
        /// The call.
        id: String,
        /// Its result.
        content: String,
    },
}

/// What a model said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spoken {
    /// Its text.
    pub content: String,
    /// What it wants to be called.
    pub calls: Vec<Call>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// By which its result is told.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What it is called with: what the model wrote, so any data at all.
    pub arguments: serde_json::Value,
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Letters, digits, `_` and `-`, 64 at most.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: serde_json::Value,
}

impl Turn {
    /// What the model is told of its task, if it is that.
    #[must_use]
    pub fn as_system(&self) -> Option<&str> {
        match self {
            Self::System(content) => Some(content),
            Self::User(_) | Self::Assistant(_) | Self::Tool { .. } => None,
        }
    }
}

impl Turns {
    /// Why it can't be sent; `None`: it can.
    #[must_use]
    pub fn unfit(&self) -> Option<String> {
        let is_name = |name: &str| {
            (1..=64).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        if self.turns.is_empty() {
            return Some("a conversation without a turn".to_owned());
        }
        if self.turns.len() > MOST_TURNS {
            return Some(format!("a conversation of more than {MOST_TURNS} turns"));
        }
        if self.tools.len() > MOST_TOOLS {
            return Some(format!("more than {MOST_TOOLS} tools"));
        }
        let bad = self.tools.iter().find(|tool| !is_name(&tool.name));
        if let Some(tool) = bad {
            let name = tool.name.escape_debug();
            return Some(format!("a tool's name has 1 to 64 letters, digits, `_` or `-`, got \"{name}\""));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        Tool { name: name.to_owned(), description: String::new(), parameters: serde_json::json!({}) }
    }

    #[test]
    fn bounds_are_exact() {
        let of = |turns: usize, tools: usize| Turns {
            turns: vec![Turn::User("x".to_owned()); turns],
            tools: vec![tool("a-B_9"); tools],
        };
        assert_eq!(of(MOST_TURNS, MOST_TOOLS).unfit(), None);
        assert!(of(MOST_TURNS + 1, 0).unfit().is_some() && of(1, MOST_TOOLS + 1).unfit().is_some());
        assert!(of(0, 0).unfit().is_some());
        for name in ["", "a b", "é", &"a".repeat(65)] {
            let turns = Turns { tools: vec![tool(name)], ..of(1, 0) };
            assert!(turns.unfit().is_some(), "{name}");
        }
    }

    #[test]
    fn a_conversation_comes_back_as_it_went() {
        let call =
            Call { id: "1".to_owned(), name: "f".to_owned(), arguments: serde_json::json!({"a": [1]}) };
        let turns = Turns {
            turns: vec![
                Turn::System("s".to_owned()),
                Turn::Assistant(Spoken { content: String::new(), calls: vec![call] }),
                Turn::Tool { id: "1".to_owned(), content: "2".to_owned() },
            ],
            tools: vec![tool("f")],
        };
        let text = serde_json::to_string(&turns).unwrap();
        assert_eq!(serde_json::from_str::<Turns>(&text).unwrap(), turns);
        assert!(serde_json::from_str::<Turns>(r#"{"turns":[{"root":"x"}],"tools":[]}"#).is_err());
    }
}
