//! The kernel's side: FUSE messages in and out of `/dev/fuse`, and nothing else.
