//! Each step on the way into the jail, made to fail: nothing of the program runs, and the message names the step.
//!
//! Debug builds of the launcher only; see `launcher::jail::inject`.

use super::sudden_death::all_gone;
use crate::{given::Given, host::Who};
use launcher::jail::Step;
use policies::report::Verdict;

#[test]
fn a_failed_step_runs_nothing_and_is_named() {
    if !cfg!(debug_assertions) {
        return crate::host::skip("failing steps: release builds have no way to make one fail");
    }
    for who in Who::all() {
        for step in Step::ALL {
            let mark = format!("failed-step-{}-{who:?}-{}", std::process::id(), step.name());
            let given = Given::usual(*who).environment("THIRDWALL_TEST_FAIL_STEP", step.name());
            // One step is there only for those who may reach a host.
            let given = if step == Step::Network {
                given.flag("--cap-set", "stdout,net=example.com:443")
            } else {
                given
            };
            let ended = given.run(&["executed", &mark]);
            ended.is_refusal(&[
                "thirdwall: failed to build the jail",
                &format!("step {} failed", step.name()),
                "EIO",
            ]);
            assert!(ended.report.is_none(), "{ended:?}");
            all_gone(&mark);
        }
        // Twin: with no step failing the program runs.
        let given = Given::usual(*who).environment("THIRDWALL_TEST_FAIL_STEP", "none");
        given.run(&["executed"]).expect(Verdict::Ok).says("executed", "yes");
    }
}
