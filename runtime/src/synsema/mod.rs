//! Front end one: source → tokens → tree → names → bytecode.

mod ast;
mod compile;
mod lexer;
mod load;
mod needs;
mod numbers;
mod parser;
pub mod program;
pub mod repl;
mod resolve;
mod token;
mod warn;

pub use load::{Failure, Loader, NoModules, check, load};
pub use needs::needs;
pub use warn::Warning;

/// Keywords and builtins, sorted: what a person may want to have completed.
#[must_use]
pub fn words() -> Vec<&'static str> {
    let mut words: Vec<&str> =
        token::KEYWORDS.into_iter().chain(crate::builtins::all().map(|builtin| builtin.name)).collect();
    words.sort_unstable();
    words
}
