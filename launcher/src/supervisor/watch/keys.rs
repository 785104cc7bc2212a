//! Keys for a program of a language: the caller's terminal, changed when the program asks and given back at the end.

use super::Watch;
use crate::supervisor::{
    terminal::{CallerTerminal, Manner},
    wants::{Sink, Source, Wants},
};
use nix::unistd::isatty;
use policies::{
    broker::Breach,
    plan::{Payload, Plan, Stream},
    terminal::Act,
};

/// Where keys come from: the caller's own input, if a program of a language may read it and nobody else does.
pub(super) fn keys_of(plan: &Plan, wants: &Wants) -> Option<Source> {
    let of_language = plan.payload == Payload::Runtime && plan.stdin == Stream::Relayed;
    let of_caller = matches!((&wants.stdin, &wants.stdout), (Source::Caller, Sink::Stdout));
    let printed = wants.stdout.file().is_some_and(|out| isatty(out) == Ok(true));
    (of_language && of_caller && wants.person.is_none() && printed).then_some(Source::Caller)
}

impl Watch<'_> {
    /// The runtime asks for something of the caller's terminal.
    pub(super) fn of_terminal(&mut self, act: Act) -> Result<(), Breach> {
        let input = self.keys.as_ref().and_then(Source::file);
        let window = match (act, input) {
            // It is open already, and giving an older one back would undo the newer one's settings.
            (Act::Open, Some(_)) if self.caller.is_some() => {
                self.caller.as_ref().and_then(CallerTerminal::window)
            }
            (Act::Open, Some(input)) => {
                let caller = CallerTerminal::of(input, Manner::Keys);
                if let Some(caller) = &caller {
                    caller.enter();
                }
                let window = caller.as_ref().and_then(CallerTerminal::window);
                self.caller = caller.filter(|_| window.is_some());
                window
            }
            (Act::Size, Some(_)) => self.caller.as_ref().and_then(CallerTerminal::window),
            (Act::Close, Some(_)) => {
                self.caller = None;
                None
            }
            (_, None) => None,
        };
        self.broker.as_mut().map_or(Ok(()), |broker| broker.answer_terminal(window))
    }
}
