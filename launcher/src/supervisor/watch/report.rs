//! What is told of a run that is over.

use super::Watch;
use crate::supervisor::{
    account,
    frames::{Frames, Trap},
    lines::{Cut, Replaced},
    reap::{self, Cause, Ending, Evidence, FuelLeft},
};
use policies::report::{Report, Verdict};

impl Watch<'_> {
    pub(super) fn report(mut self) -> Report {
        drop(self.caller.take());
        if let Some(egress) = self.egress.take() {
            egress.finish().into_iter().for_each(|entry| self.audit.add(entry));
        }
        if let Some(uncounted) = self.uncounted.take() {
            self.audit.datagrams(uncounted.datagrams());
        }
        let limits = &self.plan.limits;
        let trap = self.frames.as_ref().map_or(Trap::None, Frames::trap);
        match (&self.frames, self.ending) {
            (Some(_), _) if trap == Trap::Memory => _ = self.cause.get_or_insert(Cause::Heap),
            (Some(frames), Some(Ending::Told(record)))
                if !frames.has_ended() && libc::WIFEXITED(record.status) =>
            {
                let how = "the runtime ended without its last frame".to_owned();
                self.cause.get_or_insert(Cause::Broken(how));
            }
            _ => {}
        }
        let fuel = self.frames.as_ref().and_then(Frames::fuel);
        let (seen, group) = self.watcher.finish();
        let judged = reap::judge(&Evidence {
            ending: self.ending.unwrap_or(Ending::Untold),
            cause: self.cause.as_ref(),
            stop: self.stop,
            fuel: FuelLeft::from(trap),
            met: seen.met,
        });
        let mut usage = account::usage(&seen, group.as_ref(), self.wall, self.allowance.used());
        usage.fuel = fuel;
        drop(group);
        let mut errors = Vec::new();
        match &self.cause {
            Some(Cause::Broken(how)) => errors.push(how.clone()),
            Some(cause) => {
                if let Some((limit, reason)) = account::limit_of(cause, limits) {
                    self.audit.limit_met(limit, reason);
                }
            }
            None if judged.verdict == Verdict::JailFailed => {
                errors.push("the jail's init was killed from outside".to_owned());
            }
            None => {}
        }
        errors.extend(self.told.finish().0);
        let mut output = Vec::new();
        let mut output_replaced = false;
        if let Some(kept) = self.kept {
            for (lines, to) in [(kept.out, &mut output), (kept.err, &mut errors)] {
                let (lines, replaced, cut) = lines.finish();
                to.extend(lines);
                output_replaced |= replaced == Replaced::Some;
                if cut == Cut::Short {
                    to.push("(the report keeps no more)".to_owned());
                }
            }
        }
        let (audit, audit_dropped) = self.audit.finish();
        Report {
            ok: judged.verdict == Verdict::Ok,
            status: judged.verdict,
            exit: judged.exit,
            signal: judged.signal,
            output,
            output_replaced,
            errors,
            audit,
            audit_dropped,
            timed_out: matches!(judged.verdict, Verdict::WallTime | Verdict::CpuTime),
            llm_tokens: self.tokens,
            usage,
            layers: self.plan.layers.clone(),
            limits: account::limits(limits, &judged, &seen),
        }
    }
}
