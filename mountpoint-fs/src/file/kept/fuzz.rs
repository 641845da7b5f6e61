//! Descriptions of kept versions, of a disk that others can write.

use super::description::{Description, KeptPlace};

/// A description, which says of each byte where it is.
pub(crate) fn description(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(found) = Description::parse(text) else {
        return;
    };
    use KeptPlace::{Base, First, Second, Zeros};
    assert_eq!(
        found.bytes_in(&[First, Second, Zeros, Base]),
        found.ranges.iter().map(|it| it.end - it.start).sum::<u64>()
    );
    assert!(found.bytes_in(&[First, Second, Zeros, Base]) <= found.size);
    let again = serde_json::to_string(&found).unwrap();
    assert_eq!(Description::parse(&again).unwrap(), found);
}
