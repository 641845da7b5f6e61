//! S3's answer about one name.

pub use crate::operation::Version;

/// The object or directory of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Keys share the prefix `name/`. It wins over an object of the same name, which is then out of
    /// reach.
    Directory,
    /// An object.
    File(Version),
}

impl Found {
    /// Whether both are the same bytes, or both directories.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(version), Self::File(other)) => version.is_same(other),
            (Self::Directory, Self::Directory) => true,
            (Self::File(_), Self::Directory) | (Self::Directory, Self::File(_)) => false,
        }
    }
}
