//! Failure injection, in debug builds only: a named step fails with EIO instead of acting.
//!
//! It can only make a start fail, never let one pass; release builds have none of it.

use super::step::Step;

/// The step that the environment asks to fail.
pub(crate) fn wanted() -> Option<Step> {
    let name = std::env::var("THIRDWALL_TEST_FAIL_STEP").ok()?;
    Step::ALL.into_iter().find(|step| step.name() == name)
}
