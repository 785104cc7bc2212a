//! How programs with agents and scheduled tasks end, and what their gates tell.

use crate::harness::Given;

#[test]
fn exit_in_a_scheduled_task_is_the_program_s() {
    for program in [
        "cron_every(1, () => exit(4))\n",
        "cron_after(1, () => exit(4))\nsleep(600)\nprint(\"never\")\n",
        "agent A\n    sleep(2)\n    print(\"done\")\nspawn A\ncron_after(1, () => exit(4))\n",
    ] {
        let ran = Given::program(program).run();
        assert_eq!((ran.end().exit, &ran.errors), (4, &Vec::new()), "{program}");
        assert!(ran.output.iter().all(|line| line == "[A] done"), "{:?}", ran.output);
    }
    let tested = Given::program(
        "test \"t\"\n    cron_after(1, () => exit(4))\n    sleep(5)\ntest \"u\"\n    assert(true)\n",
    );
    assert_eq!(tested.test(), ["✗ t: exit(4) was called", "✓ u"]);
    let agent = Given::program("agent A\n    exit(4)\nspawn A\n").run();
    assert_eq!(agent.end().exit, 1);
    assert_eq!(agent.errors, ["Agent error [A_0]: exit() ends a program, not an agent"]);
}

#[test]
fn a_ceiling_without_a_model_is_told_once_however_many_agents_there_are() {
    let program = "agent A\n    print(1)\nspawn A\nspawn A\ncron_after(1, () => print(2))\n";
    let count = |ceiling: &str, context: &str| {
        let ran = Given::program(program).ceiling(ceiling).run();
        assert_eq!(ran.output.len(), 3, "{:?}", ran.errors);
        ran.audit.iter().filter(|e| e.capability == "llm" && !e.granted && e.context == context).count()
    };
    assert_eq!((count("stdout,time", "program"), count("stdout,time", "agent")), (1, 0));
    assert_eq!(count("stdout,time", "worker"), 0);
    assert_eq!((count("stdout,time,llm", "program"), count("stdout,time,llm", "agent")), (0, 0));
}
