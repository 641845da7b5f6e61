//! Attributes of files and directories, and the object headers that store them.

mod change;
mod headers;
mod xattrs;
