//! Prefetch by the layout of the file before: files of one kind are read at the same places.
//!
//! `LayoutPrefetch` (pure) compares an open file with the one before it and adds to the plan of a
//! read what that foretells; `LayoutCache` keeps what was learned of closed files, by kind. The
//! open object asks both.

mod cache;
mod prefetch;

pub(super) use cache::LayoutCache;
pub(super) use prefetch::{KnownLayout, LayoutPrefetch};
