//! Attributes of files and directories, and the object headers that store them.

mod change;
mod headers;
mod xattrs;

pub(super) use change::{drop_set_id, has_set_id, set};
pub(super) use headers::{describe_version, headers_of_replaced, posix_in, posix_of_new, stat};
pub(super) use xattrs::{
    extended_attribute, extended_attributes, remove_extended_attribute, set_extended_attribute,
};
