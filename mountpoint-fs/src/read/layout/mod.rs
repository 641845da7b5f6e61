//! Prefetch by the layout of the previous file: files of one kind are read at the same offsets.
//!
//! `LayoutPrefetch` (pure) compares an open file with the previous one and adds predicted ranges to
//! the plan of a read. `LayoutCache` keeps the layouts of closed files, by kind. The open object
//! uses both.

mod cache;
mod prefetch;

pub(super) use cache::LayoutCache;
pub(super) use prefetch::{KnownLayout, LayoutPrefetch};
