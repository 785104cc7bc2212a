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

/// Why a program's state can't be saved or restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Something runs or waits, or the program has ended.
    #[error("save the program: it is not at rest")]
    NotAtRest,
    /// More bytes, or more actors, than a state may have.
    #[error("save the program: its state has more than {limit} bytes, or more than 1048576 actors and tasks")]
    TooLarge {
        /// Bytes at most.
        limit: usize,
    },
    /// The first bytes are wrong.
    #[error("restore the program: this is no saved state")]
    NoState,
    /// Written by another version.
    #[error("restore the program: the state has layout {found}, this version reads {wanted}")]
    Version {
        /// The layout's number.
        found: u8,
        /// The number that is read.
        wanted: u8,
    },
    /// Another text was running.
    #[error("restore the program: the state was saved by another source text")]
    OtherSource,
    /// The source itself.
    #[error("restore the program: {0}")]
    Source(LoadError),
    /// A function of the host is not there.
    #[error("restore the program: the state refers to the host function `{name}`, which is not registered")]
    Missing {
        /// Its name.
        name: String,
    },
    /// It needs more than the limit.
    #[error("restore the program: the state needs more than {limit} bytes of memory")]
    Memory {
        /// Bytes at most.
        limit: u64,
    },
    /// What no program writes.
    #[error("restore the program: the state is damaged ({what} at byte {at})")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Where, in bytes.
        at: usize,
    },
}

impl StateError {
    /// What to do, and who can.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            StateError::NotAtRest => {
                "save when no call runs and nothing waits; a program that ended has no state"
            }
            StateError::TooLarge { .. } => "let the program hold less when it is saved",
            StateError::NoState | StateError::Damaged { .. } => "give the file that saving wrote, unchanged",
            StateError::Version { .. } => "restore with the version that saved it, or start the program anew",
            StateError::OtherSource => "restore with the very text that was saved, or start the program anew",
            StateError::Source(_) => "correct the program",
            StateError::Missing { .. } => "the host must register the function before it restores",
            StateError::Memory { .. } => "give more memory",
        }
    }
}

impl LoadError {
    pub(crate) fn lexer(at: u32, message: impl Into<String>) -> Self {
        Self { stage: Stage::Lexer, file: 0, at, message: message.into() }
    }

    pub(crate) fn parse(at: u32, message: impl Into<String>) -> Self {
        Self { stage: Stage::Parse, file: 0, at, message: message.into() }
    }
}
