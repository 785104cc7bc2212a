//! Failure injection, in debug builds only: a named step fails with EIO instead of acting, or the kernel seems to lend no redirect.
//!
//! It can only make a start fail, or take the way that an older kernel takes; release builds have none of it.

use super::step::Step;

/// The step that the environment asks to fail.
pub(crate) fn wanted() -> Option<Step> {
    let name = std::env::var("THIRDWALL_TEST_FAIL_STEP").ok()?;
    Step::ALL.into_iter().find(|step| step.name() == name)
}

/// Whether the environment asks for a kernel that lends no redirect (a part of [`Step::Network`] that may fail).
pub(crate) fn lends_no_redirect() -> bool {
    std::env::var("THIRDWALL_TEST_FAIL_STEP").is_ok_and(|name| name == "redirect")
}
