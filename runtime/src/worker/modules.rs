//! Modules that came with the job, and how their names follow from the paths in `use` lines.

use crate::synsema::Loader;
use std::collections::BTreeMap;

/// Modules that came with the job, by the path from the program's folder.
pub(super) struct Given {
    pub(super) entry: String,
    pub(super) modules: BTreeMap<String, String>,
}

impl Loader for Given {
    fn load(&mut self, importer: &str, path: &str) -> Result<(String, String), String> {
        let name = join(importer, path, importer == self.entry)?;
        match self.modules.get(&name) {
            Some(text) => Ok((name, text.clone())),
            None => Err(format!("Module not found: '{path}'")),
        }
    }
}

/// The module's path, relative as the importer's is, without `.` and `..`.
///
/// # Errors
/// It climbs out of the entry file's folder.
pub fn join(importer: &str, path: &str, from_entry: bool) -> Result<String, String> {
    let folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    let absolute = folder.starts_with('/');
    let mut parts: Vec<&str> = folder.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
    let floor = if from_entry { parts.len() } else { 0 };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.len() <= floor {
                    return Err(if from_entry {
                        "module path escapes the importing directory".to_owned()
                    } else {
                        "module path escapes the project root".to_owned()
                    });
                }
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    Ok(format!("{}{}", if absolute { "/" } else { "" }, parts.join("/")))
}
