//! Names, attributes and changes of names.

mod changing;
mod directories;
mod directory_bucket;
mod index;
mod metadata;
mod refusals;
mod walks;
