//! One memory of names: what S3, the disk and this mount have said of them, and when.
//!
//! [`KnownNames`] gathers what is known of one name as [`NameFacts`], which decide (pure) whether
//! that is an answer. Its parts keep one kind of fact each: names of our own (`own_directories`,
//! `local_changes`), absences that were told (`negative`), pages and listings on the disk (in
//! `listing`).

mod facts;
mod known_names;
mod local_changes;
mod negative;
mod own_directories;

pub(super) use facts::{KnownAnswer, NameFacts};
pub(super) use known_names::KnownNames;
pub(super) use negative::Absence;
