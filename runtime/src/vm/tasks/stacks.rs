//! Registers that one partition has done with, for the next one on this thread: making and clearing them costs more than
//! a one-line sandbox does with them.
//!
//! Invariant: what is kept holds nothing of whom it belonged to.

use crate::vm::value::{Value, put};
use std::cell::RefCell;

/// Stacks that are kept, and registers of one at most.
const KEPT: usize = 4;
const LARGEST: usize = 1024;

thread_local! {
    static IDLE: RefCell<Vec<Vec<Value>>> = const { RefCell::new(Vec::new()) };
}

/// Registers that hold nothing, or none at all.
pub(super) fn take() -> Vec<Value> {
    IDLE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Lays registers by. What is still in them goes now, while their partition is there.
pub(crate) fn give(mut stack: Vec<Value>) {
    if stack.len() > LARGEST {
        return;
    }
    for value in &mut stack {
        if !matches!(value, Value::Nothing) {
            put(value, Value::Nothing);
        }
    }
    // At the thread's end the place itself may be gone.
    let _gone = IDLE.try_with(|idle| {
        if let Ok(mut idle) = idle.try_borrow_mut()
            && idle.len() < KEPT
        {
            idle.push(stack);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::heap;

    #[test]
    fn what_is_kept_holds_nothing_and_counts_nothing() {
        let before = heap::live();
        give(vec![Value::list(vec![Value::Int(1)]), Value::text("short"), Value::Int(7)]);
        assert_eq!(heap::live(), before);
        let again = take();
        assert_eq!(again.len(), 3);
        assert!(again.iter().all(|value| matches!(value, Value::Nothing)));
        give(vec![Value::Nothing; LARGEST + 1]);
        assert!(take().is_empty());
    }
}
