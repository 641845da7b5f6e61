//! Names, attributes and changes of names.

mod changing;
mod directories;
mod directory_bucket;
mod index;
mod long_lived;
mod metadata;
mod refusals;
mod walks;
