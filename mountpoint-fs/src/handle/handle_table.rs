//! Handle numbers and the open files or directories behind them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::operation::{FsError, HandleNo};
use crate::sync::RwLock;

/// All open handles of one kind. The lock guards the map alone; readers share it.
#[derive(Debug)]
pub struct HandleTable<T> {
    handles: RwLock<HashMap<HandleNo, Arc<T>>>,
    last: AtomicU64,
}

impl<T> Default for HandleTable<T> {
    fn default() -> Self {
        Self {
            handles: RwLock::new(HashMap::new()),
            last: AtomicU64::new(0),
        }
    }
}

impl<T> HandleTable<T> {
    /// Gives `open` a number.
    pub fn insert(&self, open: T) -> HandleNo {
        let handle = HandleNo(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        self.handles.write().insert(handle, Arc::new(open));
        handle
    }

    /// The value of `handle`; [`FsError::BadHandle`] if it is not open.
    pub fn get(&self, handle: HandleNo) -> Result<Arc<T>, FsError> {
        self.handles
            .read()
            .get(&handle)
            .map(Arc::clone)
            .ok_or(FsError::BadHandle)
    }

    /// Number of open handles.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handles.read().len()
    }

    /// Whether nothing is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes `handle`. Operations in progress keep its value until they end.
    pub fn remove(&self, handle: HandleNo) -> Option<Arc<T>> {
        self.handles.write().remove(&handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_never_used_twice() {
        let table = HandleTable::default();
        let first = table.insert("a");
        let second = table.insert("b");
        assert_eq!(*table.get(first).unwrap(), "a");
        assert_eq!(table.remove(first).as_deref(), Some(&"a"));
        assert!(table.remove(first).is_none());
        assert!(matches!(table.get(first), Err(FsError::BadHandle)));
        let third = table.insert("c");
        assert!(third != first && third != second);
        assert_eq!(*table.get(second).unwrap(), "b");
    }
}
