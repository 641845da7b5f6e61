//! Random operations against models, and many threads.

mod concurrent;
mod names;
mod sharing;
mod threads;
mod writes;

use super::*;
