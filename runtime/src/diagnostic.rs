//! Errors as people and programs read them: category, place, message, the line with the place marked.

use crate::error::{LoadError, Stage};
use crate::source::Source;
use crate::vm::trap::Raised;
use policies::wire::ErrorFrame;
use std::rc::Rc;

/// A load error as it is shown.
#[must_use]
pub fn of_load(error: &LoadError, sources: &[Rc<Source>]) -> ErrorFrame {
    let category = match error.stage {
        Stage::Lexer => "Lexer error",
        Stage::Parse => "Parse error",
    };
    shown(category, &error.message, Some((error.file, error.at)), sources)
}

/// A runtime error as it is shown.
#[must_use]
pub fn of_raised(error: &Raised, sources: &[Rc<Source>]) -> ErrorFrame {
    let mut frame = shown("Runtime error", &error.message, error.place, sources);
    frame.denied = error.denied;
    frame.stack = error
        .stack
        .iter()
        .filter_map(|(name, file, at)| {
            let source = sources.get(*file as usize)?;
            Some(format!("{name} ({}:{})", source.name, source.place(*at).line))
        })
        .collect();
    frame
}

/// An error without a place.
#[must_use]
pub fn plain(category: &str, message: &str) -> ErrorFrame {
    shown(category, message, None, &[])
}

fn shown(category: &str, message: &str, place: Option<(u32, u32)>, sources: &[Rc<Source>]) -> ErrorFrame {
    let found = place.and_then(|(file, at)| {
        let source = sources.get(file as usize)?;
        Some((source, source.place(at)))
    });
    let text = match &found {
        Some((source, place)) => {
            format!("{category}: {}:{}:{}: {message}", source.name, place.line, place.column)
        }
        None => format!("{category}: {message}"),
    };
    ErrorFrame {
        text,
        message: message.to_owned(),
        category: category.to_owned(),
        file: found.as_ref().map(|(s, _)| s.name.clone()),
        line: found.as_ref().map(|(_, p)| p.line),
        column: found.as_ref().map(|(_, p)| p.column),
        source: found.as_ref().map(|(s, p)| s.line(p.line).to_owned()),
        denied: false,
        stack: Vec::new(),
    }
}

/// The source line with the place marked, to stand below an error's text; empty if there is no place.
#[must_use]
pub fn excerpt(error: &ErrorFrame) -> String {
    let (Some(line), Some(column), Some(source)) = (error.line, error.column, &error.source) else {
        return String::new();
    };
    let number = line.to_string();
    let before: String = source
        .chars()
        .take((column as usize).saturating_sub(1))
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    let margin = " ".repeat(number.len());
    format!(" {number} | {source}\n {margin} | {before}^")
}
