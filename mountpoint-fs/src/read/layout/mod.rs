//! Prefetch by the layout of the file before: files of one kind are read at the same places.
//!
//! `LayoutPrefetch` (pure) compares an open file with the one before it and says what to ask for;
//! `LayoutCache` keeps what was learned of closed files, by kind. Knows neither blocks nor
//! requests, nor the planner that asks it.

mod cache;
mod prefetch;

pub(super) use cache::{LayoutCache, LayoutLookup};
pub(super) use prefetch::{AccessKind, KnownLayout, LayoutPrefetch};
