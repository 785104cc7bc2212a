//! The closed list of capabilities: what a program may be granted.

use serde::{Deserialize, Serialize};

/// A language-level right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Capability {
    /// Print.
    #[serde(rename = "stdout")]
    Stdout,
    /// Read standard input.
    #[serde(rename = "stdin")]
    Stdin,
    /// Clock and sleep.
    #[serde(rename = "time")]
    Time,
    /// Randomness.
    #[serde(rename = "random")]
    Random,
    /// Model calls.
    #[serde(rename = "llm")]
    Llm,
    /// Question blocks.
    #[serde(rename = "judge")]
    Judge,
    /// Child programs in jails of their own.
    #[serde(rename = "sandbox_run")]
    SandboxRun,
    /// Attestation.
    #[serde(rename = "attest")]
    Attest,
    /// Hosts.
    #[serde(rename = "net")]
    Net,
    /// Files, reading and writing.
    #[serde(rename = "file")]
    File,
    /// Files, reading.
    #[serde(rename = "file.read")]
    FileRead,
    /// Files, writing.
    #[serde(rename = "file.write")]
    FileWrite,
    /// Programs.
    #[serde(rename = "exec")]
    Exec,
    /// Environment variables.
    #[serde(rename = "env")]
    Env,
    /// Secrets.
    #[serde(rename = "secret")]
    Secret,
    /// Plain text of secrets.
    #[serde(rename = "reveal")]
    Reveal,
    /// Signing keys.
    #[serde(rename = "sign")]
    Sign,
    /// Wallets.
    #[serde(rename = "wallet")]
    Wallet,
    /// Spending.
    #[serde(rename = "spend")]
    Spend,
    /// The notebook.
    #[serde(rename = "memory")]
    Memory,
    /// Databases.
    #[serde(rename = "db")]
    Db,
    /// Listening ports.
    #[serde(rename = "serve")]
    Serve,
}
