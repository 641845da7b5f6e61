//! Who holds how much memory.
