//! The databases that a command is granted, made ready before its jail is planned.

use crate::{broker, error::Error};
use policies::{capability::Capability, plan::database, request::Request};
use std::fs;

/// Makes what is missing of each: the file itself, and what SQLite keeps beside it.
pub(super) fn prepare(request: &Request) -> Result<(), Error> {
    let grants = request.ceiling().grants().filter(|grant| grant.capability() == Capability::Db);
    for file in grants.filter_map(database::file_of) {
        // The plan refuses it; nothing is to be made where it leads.
        if fs::symlink_metadata(&file).is_ok_and(|found| found.is_symlink()) {
            continue;
        }
        broker::prepare_database(&file, request.base()).map_err(|why| Error::Usage {
            what: format!("the database {file} can't be made ready: {why}"),
            remedy: "make its folder, or see to it that you may write there".into(),
        })?;
    }
    Ok(())
}
