//! Keys of the models' providers, which no fork of the launcher's takes along.
//!
//! They are taken out of the environment before anything else reads it. They get back into a program's environment only
//! where the ceiling names them.

use super::settings::usage;
use crate::{broker::Model, error::Error, sys::wiped_on_fork::WipedOnFork};
use nix::errno::Errno;
use policies::{capability::Capability, ceiling::Ceiling, scope::Target};
use std::{
    collections::BTreeMap,
    env,
    ffi::CString,
    sync::{Arc, OnceLock},
};

/// Keys by the variable that had them.
pub(super) type Keys = BTreeMap<&'static str, Arc<WipedOnFork>>;

static TAKEN: OnceLock<Keys> = OnceLock::new();

/// Takes the keys out of the environment.
///
/// # Errors
/// A key that is too long, or one that this kernel can't keep out of forks.
pub(super) fn take() -> Result<(), Error> {
    let mut keys = Keys::new();
    for variable in Model::KEYS {
        let name = CString::new(variable).unwrap_or_default();
        if let Some(key) = WipedOnFork::take(&name).map_err(|errno| unkept(variable, errno))? {
            keys.insert(variable, Arc::new(key));
        }
    }
    // A process does so once.
    let _again = TAKEN.set(keys);
    Ok(())
}

/// A key that stands elsewhere, as in a file; `None` for what is no key's variable.
pub(super) fn keep(variable: &str, text: &str) -> Result<Option<(&'static str, Arc<WipedOnFork>)>, Error> {
    let Some(name) = Model::KEYS.into_iter().find(|name| *name == variable) else { return Ok(None) };
    let key = WipedOnFork::of(text).map_err(|errno| unkept(name, errno))?;
    Ok(Some((name, Arc::new(key))))
}

/// The key that the environment had.
pub(super) fn of_environment(variable: &str) -> Option<Arc<WipedOnFork>> {
    TAKEN.get()?.get(variable).cloned()
}

/// A variable of the caller's, a key or not.
pub(super) fn variable(name: &str) -> Option<String> {
    of_environment(name).map(|key| key.text().to_owned()).or_else(|| env::var(name).ok())
}

/// Puts back those that a ceiling names: a program that is granted its caller's key has it.
pub(super) fn put_back(environment: &mut BTreeMap<String, String>, of_file: &Keys, ceiling: &Ceiling) {
    for name in Model::KEYS {
        let granted = [Capability::Env, Capability::Secret]
            .into_iter()
            .any(|capability| ceiling.covers(capability, Target::Name(name)));
        let key = of_environment(name).or_else(|| of_file.get(name).cloned());
        if let (true, Some(key)) = (granted, key) {
            environment.insert(name.to_owned(), key.text().to_owned());
        }
    }
}

fn unkept(variable: &str, errno: Errno) -> Error {
    usage(
        &format!("{variable} can't be kept apart: {}", errno.desc()),
        "a key is text of at most 64 KiB, and the kernel at least Linux 4.14; or unset it",
    )
}
