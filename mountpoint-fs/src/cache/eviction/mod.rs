//! Stand-in until the branch with it is merged.
#[derive(Debug)]
pub(crate) struct Room;
impl Room {
    pub(crate) fn admits(&self, _bytes: u64) -> bool { true }
}
