//! Which inode a name is, and how often the kernel knows it.
//!
//! Knows nothing of requests, of time's passing or of permissions.
//!
//! Invariants: a name of a directory means at most one inode. An inode that a name no longer means (its object was
//! replaced or deleted) is *detached*: it serves its open handles and goes with the last reference. An inode is
//! there while the kernel knows it, a handle is open on it or a name in it means an inode; so a parent is never
//! dropped before its children. Numbers are never used twice.

use std::collections::HashMap;
use std::sync::Arc;

use super::inode::{Body, Inode, Moment, Observed};
use super::version::{Found, Version};
use crate::operation::{FileKind, FsError, InodeNo, Progress};
use crate::sync::Mutex;

/// All inodes of a mount. The lock is T of the order H, I, T: it guards the whole table, is held for a few hash
/// look-ups (a path's length of them to build a key), and nothing foreign is called under it.
#[derive(Debug)]
pub(super) struct InodeTable {
    pub(super) table: Mutex<Table>,
    /// The mounted prefix, the root's.
    prefix: String,
}

#[derive(Debug)]
pub(super) struct Table {
    /// Boxed: a half empty table of pointers is small.
    inodes: HashMap<InodeNo, Box<Inode>>,
    last: InodeNo,
    /// Files that are being written, and that S3 does not have all of. Few: beside the inodes, of which there are many.
    pub(super) written: HashMap<InodeNo, Arc<Progress>>,
}

/// A copy of what an inode is.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) ino: InodeNo,
    pub(super) parent: InodeNo,
    pub(super) name: Arc<str>,
    pub(super) found: Found,
    pub(super) observed: Observed,
    pub(super) openers: u32,
    /// While it is being written.
    pub(super) written: Option<Arc<Progress>>,
    /// Whether its name still means this inode.
    pub(super) is_attached: bool,
}

impl InodeTable {
    /// The root alone. It is never dropped.
    pub(super) fn new(prefix: String) -> Self {
        let forever = Observed {
            asked: Moment::START,
            valid_until: Moment::START,
            fresh_until: Moment::START,
        };
        let root = Inode::new(InodeNo::ROOT, Arc::from(""), &Found::Directory, forever);
        let inodes = HashMap::from([(InodeNo::ROOT, Box::new(root))]);
        Self {
            table: Mutex::new(Table {
                inodes,
                last: InodeNo::ROOT,
                written: HashMap::new(),
            }),
            prefix,
        }
    }

    /// The prefix that all keys in the directory `ino` begin with.
    pub(super) fn directory_prefix(&self, ino: InodeNo) -> Result<String, FsError> {
        let table = self.table.lock();
        if table.inode(ino)?.kind() != FileKind::Directory {
            return Err(FsError::NotADirectory);
        }
        let mut names = Vec::new();
        let mut current = ino;
        while current != InodeNo::ROOT {
            let inode = table.inode(current)?;
            names.push(Arc::clone(&inode.name));
            current = inode.parent;
        }
        drop(table);
        let len = self.prefix.len() + names.iter().map(|name| name.len() + 1).sum::<usize>();
        let mut prefix = String::with_capacity(len);
        prefix.push_str(&self.prefix);
        for name in names.iter().rev() {
            prefix.push_str(name);
            prefix.push('/');
        }
        Ok(prefix)
    }

    /// What `ino` is.
    pub(super) fn view(&self, ino: InodeNo) -> Result<View, FsError> {
        self.table.lock().view(ino)
    }

    /// The inode that `name` in `directory` was last known to be.
    pub(super) fn child(&self, directory: InodeNo, name: &str) -> Option<InodeNo> {
        self.table.lock().child(directory, name)
    }

    /// Makes `name` in `directory` mean what was `found`, and raises that inode's lookup count by one.
    ///
    /// An inode that is something else is detached. An answer that was asked for before what is known
    /// changes nothing but how long that is valid.
    pub(super) fn admit(
        &self,
        directory: InodeNo,
        name: &Arc<str>,
        found: &Found,
        observed: Observed,
    ) -> Result<View, FsError> {
        let mut table = self.table.lock();
        let ino = match table.inode(directory)?.body {
            Body::File(_) => return Err(FsError::NotADirectory),
            Body::Directory(_) => table.child(directory, name),
        };
        let ino = match ino.and_then(|ino| table.observe(ino, found, observed)) {
            Some(ino) => ino,
            None => table.create(directory, name, found, observed),
        };
        table.inode_mut(ino)?.lookups += 1;
        table.view(ino)
    }

    /// What a new look at the name of `ino` found. `None` if it is not this inode any more, which is then detached.
    pub(super) fn observe(&self, ino: InodeNo, found: &Found, observed: Observed) -> Option<View> {
        let mut table = self.table.lock();
        if table.observe(ino, found, observed).is_none() {
            table.detach(ino);
            return None;
        }
        drop(table);
        self.view(ino).ok()
    }

    /// Gives back `count` lookups; more than there are count as all.
    pub(super) fn forget(&self, ino: InodeNo, count: u64) {
        let mut table = self.table.lock();
        if let Ok(inode) = table.inode_mut(ino) {
            inode.lookups = inode.lookups.saturating_sub(count);
            table.drop_unused(ino);
        }
    }

    /// The name of `ino` is no longer known to mean it.
    pub(super) fn detach(&self, ino: InodeNo) {
        self.table.lock().detach(ino);
    }

    /// Lets at most one caller after each lookup have the version that the lookup saw, while it is fresh.
    pub(super) fn take_fresh(&self, ino: InodeNo, now: Moment) -> Option<Version> {
        let mut table = self.table.lock();
        let inode = table.inode_mut(ino).ok()?;
        let fresh_until = std::mem::replace(&mut inode.observed.fresh_until, Moment::START);
        match &inode.body {
            Body::File(version) if fresh_until != Moment::START && now <= fresh_until => {
                Some(version.clone())
            }
            Body::File(_) | Body::Directory(_) => None,
        }
    }

    /// A handle was opened: the inode stays until it is closed.
    pub(super) fn open(&self, ino: InodeNo) -> Result<(), FsError> {
        self.table.lock().inode_mut(ino)?.openers += 1;
        Ok(())
    }

    /// A handle was closed.
    pub(super) fn close(&self, ino: InodeNo) {
        let mut table = self.table.lock();
        if let Ok(inode) = table.inode_mut(ino) {
            assert!(
                inode.openers > 0,
                "{ino:?} is closed more often than it was opened"
            );
            inode.openers -= 1;
            table.drop_unused(ino);
        }
    }

    /// Inodes besides the root.
    pub(super) fn len(&self) -> usize {
        self.table.lock().inodes.len() - 1
    }
}

impl Table {
    pub(super) fn view(&self, ino: InodeNo) -> Result<View, FsError> {
        let inode = self.inode(ino)?;
        let Inode {
            parent,
            observed,
            openers,
            ..
        } = *inode;
        let is_attached = ino == InodeNo::ROOT || self.child(parent, &inode.name) == Some(ino);
        Ok(View {
            ino,
            parent,
            name: Arc::clone(&inode.name),
            found: inode.found(),
            observed,
            openers,
            written: self.written.get(&ino).map(Arc::clone),
            is_attached,
        })
    }

    pub(super) fn inode(&self, ino: InodeNo) -> Result<&Inode, FsError> {
        self.inodes
            .get(&ino)
            .map(Box::as_ref)
            .ok_or_else(|| unknown(ino))
    }

    pub(super) fn inode_mut(&mut self, ino: InodeNo) -> Result<&mut Inode, FsError> {
        self.inodes
            .get_mut(&ino)
            .map(Box::as_mut)
            .ok_or_else(|| unknown(ino))
    }

    pub(super) fn child(&self, directory: InodeNo, name: &str) -> Option<InodeNo> {
        match &self.inodes.get(&directory)?.body {
            Body::Directory(children) => children.get(name).copied(),
            Body::File(_) => None,
        }
    }

    /// `ino` if it may go on meaning its name after that name was `found` to be this.
    fn observe(&mut self, ino: InodeNo, found: &Found, observed: Observed) -> Option<InodeNo> {
        if self.written.contains_key(&ino) {
            // What S3 has is not what the file will be.
            return Some(ino);
        }
        let inode = self.inode_mut(ino).ok()?;
        if observed.asked < inode.observed.asked {
            inode.observed.valid_until = inode.observed.valid_until.max(observed.valid_until);
            return Some(ino);
        }
        inode
            .is_same(found)
            .then(|| inode.observe(found, observed))?;
        Some(ino)
    }

    pub(super) fn create(
        &mut self,
        directory: InodeNo,
        name: &Arc<str>,
        found: &Found,
        observed: Observed,
    ) -> InodeNo {
        let ino = InodeNo(self.last.0 + 1);
        self.last = ino;
        let inode = Inode::new(directory, Arc::clone(name), found, observed);
        let replaced = match self
            .inodes
            .get_mut(&directory)
            .map(|directory| &mut directory.body)
        {
            Some(Body::Directory(children)) => children.insert(Arc::clone(name), ino),
            Some(Body::File(_)) | None => unreachable!("the caller has looked"),
        };
        self.inodes.insert(ino, Box::new(inode));
        if let Some(replaced) = replaced {
            self.drop_unused(replaced);
        }
        ino
    }

    pub(super) fn detach(&mut self, ino: InodeNo) {
        let Ok(inode) = self.inode(ino) else { return };
        let (parent, name) = (inode.parent, Arc::clone(&inode.name));
        self.unname(parent, &name, ino);
        self.drop_unused(parent);
    }

    /// Takes `name` out of `directory` if it means `ino`.
    fn unname(&mut self, directory: InodeNo, name: &str, ino: InodeNo) {
        let Ok(Inode {
            body: Body::Directory(children),
            ..
        }) = self.inode_mut(directory)
        else {
            return;
        };
        if children.get(name) == Some(&ino) {
            children.remove(name);
            if children.is_empty() {
                *children = HashMap::new();
            }
        }
    }

    /// Drops `ino` if nobody needs it, and then its parents.
    pub(super) fn drop_unused(&mut self, mut ino: InodeNo) {
        while ino != InodeNo::ROOT && self.inode(ino).is_ok_and(Inode::is_unused) {
            let Some(inode) = self.inodes.remove(&ino) else {
                return;
            };
            self.unname(inode.parent, &inode.name, ino);
            ino = inode.parent;
        }
        if self.inodes.len() < self.inodes.capacity() / SHRINK_BELOW
            && self.inodes.capacity() > SHRINK_ABOVE
        {
            self.inodes.shrink_to(self.inodes.len() * 2);
        }
    }
}

fn unknown(ino: InodeNo) -> FsError {
    FsError::Stale(format!("inode {} is not known any more", ino.0))
}

/// The table gives memory back when it is filled to less than this part of its capacity…
const SHRINK_BELOW: usize = 8;

/// …and has room for more than this many inodes.
const SHRINK_ABOVE: usize = 4096;

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use mountpoint_client::types::ETag;

    use super::*;

    const ROOT: InodeNo = InodeNo::ROOT;

    fn seen(at: u64) -> Observed {
        let moment = |seconds| Moment::from(Duration::from_secs(seconds));
        Observed {
            asked: moment(at),
            valid_until: moment(at + 1),
            fresh_until: moment(at),
        }
    }

    fn file(etag: &str) -> Found {
        let etag = ETag::from_header(etag);
        Found::File(Version {
            size: 1,
            etag,
            mtime: SystemTime::UNIX_EPOCH,
            is_archived: false,
        })
    }

    fn admit(
        table: &InodeTable,
        directory: InodeNo,
        name: &str,
        found: &Found,
        at: u64,
    ) -> InodeNo {
        table
            .admit(directory, &Arc::from(name), found, seen(at))
            .unwrap()
            .ino
    }

    #[test]
    fn keys_are_built_from_the_names_of_the_parents() {
        let table = InodeTable::new("p/".to_owned());
        let a = admit(&table, ROOT, "a", &Found::Directory, 0);
        let b = admit(&table, a, "b", &Found::Directory, 0);
        let f = admit(&table, b, "f", &file("1"), 0);
        assert_eq!(table.directory_prefix(ROOT).unwrap(), "p/");
        assert_eq!(table.directory_prefix(b).unwrap(), "p/a/b/");
        assert!(matches!(
            table.directory_prefix(f),
            Err(FsError::NotADirectory)
        ));
        // Parents that the kernel forgot first are still there.
        table.forget(a, 1);
        table.forget(b, 1);
        assert_eq!(table.directory_prefix(b).unwrap(), "p/a/b/");
        assert_eq!(table.view(f).unwrap().parent, b);
        table.forget(f, 1);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn an_older_answer_changes_nothing() {
        let table = InodeTable::new(String::new());
        let new = admit(&table, ROOT, "a", &file("2"), 5);
        assert_eq!(admit(&table, ROOT, "a", &file("1"), 4), new);
        assert_eq!(table.view(new).unwrap().found, file("2"));
        assert_ne!(admit(&table, ROOT, "a", &file("1"), 5), new);
    }

    #[test]
    fn a_lookup_vouches_for_one_open() {
        let table = InodeTable::new(String::new());
        let now = |seconds| Moment::from(Duration::from_secs(seconds));
        let ino = admit(&table, ROOT, "a", &file("1"), 5);
        assert!(table.take_fresh(ino, now(5)).is_some());
        assert!(table.take_fresh(ino, now(5)).is_none());
        admit(&table, ROOT, "a", &file("1"), 6);
        assert!(table.take_fresh(ino, now(7)).is_none());
        assert!(table.take_fresh(ino, now(6)).is_none());
        assert!(table.take_fresh(ROOT, now(6)).is_none());
    }

    #[test]
    fn detached_inodes_go_with_their_last_reference() {
        let table = InodeTable::new(String::new());
        let first = admit(&table, ROOT, "a", &file("1"), 1);
        table.open(first).unwrap();
        let second = admit(&table, ROOT, "a", &file("2"), 2);
        assert!(!table.view(first).unwrap().is_attached);
        table.forget(first, 1);
        assert_eq!(table.len(), 2);
        table.close(first);
        assert_eq!(table.len(), 1);
        // The name still means the other one.
        assert_eq!(table.child(ROOT, "a"), Some(second));
        table.detach(second);
        assert_eq!(table.child(ROOT, "a"), None);
        table.forget(second, 1);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn the_root_stays_and_unknown_inodes_do_no_harm() {
        let table = InodeTable::new(String::new());
        table.forget(ROOT, 1);
        table.forget(InodeNo(9), 1);
        table.close(InodeNo(9));
        table.detach(InodeNo(9));
        table.detach(ROOT);
        assert!(table.view(ROOT).unwrap().is_attached);
        assert!(table.open(InodeNo(9)).is_err());
    }

    /// Estimated from all allocations that belong to it: glibc adds 8 bytes to each and rounds up to 16.
    #[test]
    fn a_hundred_thousand_inodes_are_small() {
        const COUNT: usize = 100_000;
        let table = InodeTable::new(String::new());
        for number in 0..COUNT {
            let etag = format!("\"{number:032x}\"");
            admit(
                &table,
                ROOT,
                &format!("file-name-{number:010}.bin"),
                &file(&etag),
                0,
            );
        }
        let allocation = |bytes: usize| (bytes + 8).next_multiple_of(16);
        // A hash table has a power of two of slots, of which seven eighths are used, and a byte for each.
        let slots = |capacity: usize, slot: usize| (capacity * 8 / 7) * (slot + 1);
        let bytes = {
            let inner = table.table.lock();
            let Body::Directory(children) = &inner.inodes[&ROOT].body else {
                unreachable!()
            };
            slots(inner.inodes.capacity(), size_of::<(InodeNo, Box<Inode>)>())
                + slots(children.capacity(), size_of::<(Arc<str>, InodeNo)>())
                + COUNT
                    * (allocation(size_of::<Inode>()) + allocation(16 + 24) + allocation(16 + 34))
        };
        assert!(bytes / COUNT <= 300, "{} bytes each", bytes / COUNT);
        for number in 0..COUNT as u64 {
            table.forget(InodeNo(number + 2), 1);
        }
        assert_eq!(table.len(), 0);
        assert!(
            table.table.lock().inodes.capacity() <= 2 * SHRINK_ABOVE,
            "memory was given back"
        );
    }
}
