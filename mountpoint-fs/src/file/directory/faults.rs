//! Failures of the local disk, for tests.

use std::io;

/// The failure of each access to a data file on the disk; none outside tests.
#[derive(Debug, Default)]
pub(in crate::file) struct Faults {
    /// The failure, and of how many accesses.
    #[cfg(test)]
    kind: crate::sync::Mutex<Option<(io::ErrorKind, usize)>>,
    /// The next sync of a data file fails.
    #[cfg(test)]
    sync: std::sync::atomic::AtomicBool,
}

impl Faults {
    /// Fails if accesses are to fail.
    #[cfg(test)]
    pub(in crate::file) fn check(&self) -> io::Result<()> {
        let mut fault = self.kind.lock();
        match &mut *fault {
            Some((kind, left @ 1..)) => {
                *left -= 1;
                Err((*kind).into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Fails never.
    #[cfg(not(test))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "tests make it fail"
    )]
    pub(in crate::file) fn check(&self) -> io::Result<()> {
        Ok(())
    }

    /// Fails if the next sync is to fail.
    #[cfg(test)]
    pub(in crate::file) fn check_sync(&self) -> io::Result<()> {
        match self.sync.swap(false, std::sync::atomic::Ordering::AcqRel) {
            true => Err(io::Error::other("simulated")),
            false => Ok(()),
        }
    }

    /// Fails never.
    #[cfg(not(test))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "tests make it fail"
    )]
    pub(in crate::file) fn check_sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Fails the next sync of a data file.
    #[cfg(test)]
    pub(in crate::file) fn fail_sync(&self) {
        self.sync.store(true, std::sync::atomic::Ordering::Release);
    }

    /// Fails all accesses, or none.
    #[cfg(test)]
    pub(in crate::file) fn set(&self, kind: Option<io::ErrorKind>) {
        *self.kind.lock() = kind.map(|kind| (kind, usize::MAX));
    }

    /// Fails the next `accesses`.
    #[cfg(test)]
    pub(in crate::file) fn set_next(&self, accesses: usize, kind: io::ErrorKind) {
        *self.kind.lock() = Some((kind, accesses));
    }
}
