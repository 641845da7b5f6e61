//! Names: which key a file is, which inode a name is, and what S3 was last heard to say of it.
//!
//! [`Namespace`] turns names into requests and answers into inodes; [`Listing`] enumerates one directory. Neither
//! knows open files, bytes or the kernel's messages.
//!
//! Invariants: an inode is one *version* of one file, or one directory, and never becomes another; its number is
//! never used again. A lookup count rises only in the step that returns it to the caller, so a future that is
//! dropped while it waits leaks none. The one lock that is held anywhere is never held across an `.await`.
//!
//! Runs on whatever thread polls it.

mod absences;
mod attributes;
mod behind;
mod change;
mod changes;
mod crowd;
mod enumerating;
mod extended;
mod finding;
mod fronts;
mod guess;
mod hidden;
mod inode;
mod inode_table;
mod joined;
mod key_scale;
mod listing;
mod lookup;
mod making;
mod motion;
mod names;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod namespace;
mod open;
mod packed;
mod page;
mod ranges;
mod recent;
mod shards;
mod subtree;
mod surplus;
mod table_changes;
mod table_writing;
mod version;
mod walk;
mod writing;

pub use attributes::AttributeStyle;
pub use behind::FileBehind;
pub use change::NameChange;
pub use enumerating::Standing;
pub use listing::{AheadBudget, Listing};
pub use motion::InMotion;
pub use namespace::Namespace;
pub use open::{FileOpened, OpenVersion, Proof};
pub use page::{Listed, Page};
pub use version::{Found, Version};
pub use writing::{Created, Readers, being_written};
