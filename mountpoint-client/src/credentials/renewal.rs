//! When keys are renewed. Pure.

use std::time::Duration;

/// How long before their end keys that are good for `lifetime` are renewed: early enough that a
/// request never meets their last second, and not before half of their time is over, however short
/// it is.
pub(super) fn renew_before(lifetime: Duration) -> Duration {
    RENEW_BEFORE.min(lifetime / 2)
}

/// Services renew what they hand out some minutes before its end, so asking earlier brings the same
/// keys again.
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_but_not_at_once() {
        for (lifetime_s, before_s) in [(0, 0), (4, 2), (600, 300), (3600, 300), (43_200, 300)] {
            assert_eq!(
                renew_before(Duration::from_secs(lifetime_s)),
                Duration::from_secs(before_s)
            );
        }
    }
}
