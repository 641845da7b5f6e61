//! Files that are made one after the other: what is known of names that are not there yet.
//!
//! While it looks a new name up and makes a file of it, the kernel keeps everybody else from making
//! one in the same directory. So a LIST for each name would be all that a directory of new files
//! waits for. Who makes a file asks for it to be there, not whether it is: what S3 said of the
//! names around it, a moment ago, is enough, because the file is stored on the condition that
//! nobody else has made it ([`is_unasked`](Namespace::is_unasked)). Who only looks is told what S3
//! says now.
//!
//! Holds no lock across an await. Runs on whatever thread polls it.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::Key;

use super::negative::Absence;
use crate::namespace::listing::page::Page;
use crate::namespace::names;
use crate::namespace::namespace::Namespace;
use crate::operation::{InodeNo, Purpose};

/// Whether the call that looks a name up is to make a file of it: found out once, and only if that
/// matters.
pub(in crate::namespace) struct CreateIntent<'a> {
    purpose: &'a dyn Purpose,
    name: &'a str,
    known: Option<bool>,
}

impl<'a> CreateIntent<'a> {
    pub(in crate::namespace) fn new(purpose: &'a dyn Purpose, name: &'a str) -> Self {
        Self {
            purpose,
            name,
            known: None,
        }
    }

    pub(in crate::namespace) async fn is_so(&mut self) -> bool {
        if let Some(known) = self.known {
            return known;
        }
        let found = self.purpose.is_to_make_file(self.name).await;
        *self.known.insert(found)
    }
}

impl Namespace {
    /// When S3 was asked that knew nothing of `name`, if that is enough for who looks it up.
    pub(in crate::namespace) async fn absent_for_maker(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
        makes: &mut CreateIntent<'_>,
    ) -> Option<Duration> {
        self.known_absent(parent, prefix, name)?;
        if !makes.is_so().await || self.is_moved(parent, prefix) {
            return None;
        }
        // It may have been made meanwhile.
        self.known_absent(parent, prefix, name)
    }

    /// When S3 was asked that knew nothing of `name`, if that is not too old for who makes
    /// something of it.
    fn known_absent(&self, parent: InodeNo, prefix: &str, name: &str) -> Option<Duration> {
        let age_max = self.config.maker_ttl;
        if age_max.is_zero() || !self.client.lists_in_order() {
            return None;
        }
        let key = names::file_key(prefix, name).ok()?;
        let listed = self.recent.absent(prefix, name, self.now(), age_max);
        let asked = listed.max(self.told_absent(&key))?;
        let is_outdated = self.local_changes.invalidates(prefix, name, asked)
            || self.table.is_known_since(parent, name, asked.into());
        (!is_outdated).then_some(asked)
    }

    /// When S3 was asked that knew nothing of `key` alone, if that is not too old for who makes
    /// something of it.
    fn told_absent(&self, key: &Key) -> Option<Duration> {
        let Absence { asked, .. } = self.negative.of(key.as_str())?;
        let age = self.clock.now().saturating_sub(asked);
        (age < self.config.maker_ttl).then_some(asked)
    }

    /// Whether who makes the file `key` was told that it is absent without S3 being asked then.
    pub(in crate::namespace) fn is_unasked(&self, key: &Key) -> bool {
        self.negative.may_be_remembered(key.as_str())
    }

    /// A directory is made of `key`, which is a name of the directory `prefix`: where nothing was,
    /// nothing is below it.
    pub(in crate::namespace) fn nothing_below(&self, prefix: &str, name: &str, key: &Key) {
        let (Some(below), Some(asked)) = (names::directory_prefix(key), self.told_absent(key))
        else {
            return;
        };
        if !self.local_changes.invalidates(prefix, name, asked) {
            let page = Arc::new(Page::whole(Vec::new(), asked));
            let valid_until = (asked + self.config.ttl).into();
            self.recent
                .delivered(&below, &page, self.now(), valid_until);
        }
    }
}
