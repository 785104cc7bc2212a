//! Errors that both languages share: what was wrong in a source, and how a run stopped.

/// Which stage refused a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Characters to tokens.
    Lexer,
    /// Tokens to tree, and the checks made before anything runs.
    Parse,
}

/// One thing wrong in a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoadError {
    /// Who found it.
    pub stage: Stage,
    /// Index of the file (0 is the program, others are its modules).
    pub file: u32,
    /// Byte offset.
    pub at: u32,
    /// One line.
    pub message: String,
}

impl LoadError {
    pub(crate) fn lexer(at: u32, message: impl Into<String>) -> Self {
        Self { stage: Stage::Lexer, file: 0, at, message: message.into() }
    }

    pub(crate) fn parse(at: u32, message: impl Into<String>) -> Self {
        Self { stage: Stage::Parse, file: 0, at, message: message.into() }
    }
}
