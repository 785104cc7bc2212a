//! `thirdwall run`
use super::args::RunArgs;
use crate::error::Error;
use policies::ceiling::Ceiling;
pub(super) fn run(_args: &RunArgs) -> Result<u8, Error> {
    Ok(1)
}
pub(super) fn required(_args: &RunArgs) -> Result<Option<Ceiling>, Error> {
    Ok(None)
}
