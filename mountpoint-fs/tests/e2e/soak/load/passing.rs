//! Work whose files pass: directories that are renamed and removed, links, files without a name.
//!
//! What a kill or a failure leaves of it stays in a directory that nobody compares.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use rand::Rng as _;
use rand::rngs::StdRng;

use crate::soak::Soak;
use crate::soak::place::{Outcome, Place};

/// A piece of work in a directory that is not there before or after it.
type Work = fn(&Path) -> io::Result<()>;

const WORKS: [(&str, Work); 4] = [
    ("a directory's life", directory),
    ("symbolic links", links),
    ("a file without a name", nameless),
    ("many files at once", many),
];

/// Does one of them.
pub(in crate::soak) fn any(soak: &Soak, place: &Place, directory: &str, numbers: &mut StdRng) {
    let (name, work) = WORKS[numbers.random_range(0..WORKS.len())];
    let path = format!("{directory}/passing/{:x}", numbers.random::<u64>());
    let outcome = soak.call(place, &format!("{path}: {name}"), |root| {
        let path = root.join(&path);
        fs::create_dir_all(&path)?;
        work(&path)?;
        fs::remove_dir(path)
    });
    if let Outcome::Done(()) = outcome {
        soak.tally.done(0);
    }
}

/// Makes a tree, renames its directory, reads it, and removes it.
fn directory(path: &Path) -> io::Result<()> {
    let (old, new) = (path.join("old"), path.join("new"));
    fs::create_dir(&old)?;
    for number in 0..6_usize {
        let below = old.join(format!("d{}", number % 2));
        fs::create_dir_all(&below)?;
        fs::write(
            below.join(number.to_string()),
            vec![number.to_le_bytes()[0]; number * 3000],
        )?;
    }
    fs::rename(&old, &new)?;
    for number in 0..6_usize {
        let bytes = fs::read(new.join(format!("d{}/{number}", number % 2)))?;
        assert!(
            bytes == vec![number.to_le_bytes()[0]; number * 3000],
            "a renamed file"
        );
    }
    assert!(!fs::exists(&old)?, "the old name of a renamed directory");
    fs::remove_dir_all(new)
}

/// Makes, reads and removes symbolic links.
fn links(path: &Path) -> io::Result<()> {
    fs::write(path.join("file"), "linked")?;
    let link = path.join("link");
    symlink("file", &link)?;
    assert_eq!(fs::read_link(&link)?, Path::new("file"));
    assert_eq!(fs::read(&link)?, b"linked");
    fs::rename(&link, path.join("other"))?;
    fs::remove_file(path.join("other"))?;
    fs::remove_file(path.join("file"))
}

/// A file that is removed while it is open.
fn nameless(path: &Path) -> io::Result<()> {
    let path = path.join("file");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    file.write_all(&[1; 50_000])?;
    file.sync_all()?;
    fs::remove_file(&path)?;
    file.write_all(&[2; 50_000])?;
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    assert!(
        bytes == [vec![1; 50_000], vec![2; 50_000]].concat(),
        "a removed file"
    );
    Ok(())
}

/// Files that are all open for writing at once.
fn many(path: &Path) -> io::Result<()> {
    let name = |number: usize| path.join(number.to_string());
    let files = (0..25).map(|number| File::create(name(number)));
    let mut files = files.collect::<io::Result<Vec<_>>>()?;
    for piece in 0..3 {
        for file in &mut files {
            file.write_all(&[piece; 5000])?;
        }
    }
    for file in files {
        nix::unistd::close(file)?;
    }
    for number in 0..25 {
        let bytes = fs::read(name(number))?;
        assert!(
            bytes == [[0; 5000], [1; 5000], [2; 5000]].concat(),
            "one of many files"
        );
        fs::remove_file(name(number))?;
    }
    Ok(())
}
