//! How much of one processor a jail's requests may cost.

use std::time::{Duration, Instant};

/// Requests that can be served at once.
const BURST: u32 = 4000;
/// Time that one more takes to become free.
const REFILL: Duration = Duration::from_micros(50);

/// A bucket of tokens. With none left the peer waits; nobody else does.
#[derive(Debug)]
pub(super) struct Bucket {
    tokens: u32,
    filled: Instant,
}

impl Bucket {
    /// Full.
    pub(super) fn new(now: Instant) -> Self {
        Self { tokens: BURST, filled: now }
    }

    /// When the next request can be served, if not now.
    pub(super) fn ready_at(&mut self, now: Instant) -> Option<Instant> {
        let passed = now.saturating_duration_since(self.filled);
        let more = u32::try_from(passed.as_nanos() / REFILL.as_nanos()).unwrap_or(u32::MAX);
        if more > 0 {
            self.tokens = self.tokens.saturating_add(more).min(BURST);
            self.filled = now;
        }
        (self.tokens == 0).then(|| self.filled + REFILL)
    }

    /// Takes for one request that cost as much as `cost` ordinary ones.
    pub(super) fn take(&mut self, cost: u32) {
        self.tokens = self.tokens.saturating_sub(cost.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burst_is_exact_and_time_fills_it_again() {
        let now = Instant::now();
        let mut bucket = Bucket::new(now);
        for _ in 0..BURST {
            assert_eq!(bucket.ready_at(now), None);
            bucket.take(1);
        }
        assert_eq!(bucket.ready_at(now), Some(now + REFILL));
        assert_eq!(bucket.ready_at(now + REFILL), None);
        bucket.take(100);
        assert!(bucket.ready_at(now + REFILL).is_some());
        assert_eq!(bucket.ready_at(now + Duration::from_secs(3600)), None);
    }
}
