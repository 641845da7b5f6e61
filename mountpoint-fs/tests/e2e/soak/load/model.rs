//! The files that one writer owns, as they should be.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The bytes of a file.
pub(in crate::soak) type Content = Arc<Vec<u8>>;

/// Names of a change, each with what it has then: bytes, or nothing.
pub(in crate::soak) type World = Vec<(String, Option<Content>)>;

/// Files by their names.
#[derive(Debug, Default)]
pub(in crate::soak) struct Files(BTreeMap<String, Content>);

impl Files {
    pub(in crate::soak) fn get(&self, name: &str) -> Option<Content> {
        self.0.get(name).cloned()
    }

    pub(in crate::soak) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    pub(in crate::soak) fn iter(&self) -> impl Iterator<Item = (&String, &Content)> {
        self.0.iter()
    }

    pub(in crate::soak) fn len(&self) -> usize {
        self.0.values().map(|content| content.len()).sum()
    }

    /// What names have now.
    pub(in crate::soak) fn world(&self, names: &[&str]) -> World {
        let of = |name: &&str| ((*name).to_owned(), self.get(name));
        names.iter().map(of).collect()
    }

    pub(in crate::soak) fn become_as(&mut self, world: &World) {
        for (name, content) in world {
            match content {
                Some(content) => drop(self.0.insert(name.clone(), Arc::clone(content))),
                None => drop(self.0.remove(name)),
            }
        }
    }
}

/// A short text of a world for a failure: names, lengths and sums.
pub(in crate::soak) fn text(world: &World) -> String {
    let text = |content: &Content| {
        let sum = content.iter().fold(0_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        });
        format!("{} bytes, sum {sum:x}", content.len())
    };
    let texts = world.iter().map(|(name, content)| {
        let content = content.as_ref().map_or_else(|| "nothing".to_owned(), text);
        format!("{name}: {content}")
    });
    texts.collect::<Vec<_>>().join("; ")
}
