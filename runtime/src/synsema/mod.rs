//! Front end one: source → tokens → tree → names → bytecode.

mod ast;
mod compile;
mod lexer;
mod load;
mod needs;
mod numbers;
mod parser;
pub mod program;
mod resolve;
mod token;
mod warn;

pub use load::{Failure, Loader, NoModules, check, load};
pub use needs::needs;
pub use warn::Warning;
