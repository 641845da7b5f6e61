use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

use tempfile::TempDir;

use super::*;

fn open(directory: &Path) -> Result<CacheDirectory, DirectoryError> {
    CacheDirectory::open(directory, None, &|_| false)
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// The refusal of a directory has each of these texts.
#[track_caller]
fn check_refused(directory: &Path, texts: &[&str]) {
    let error = open(directory).unwrap_err().to_string();
    for text in texts {
        assert!(error.contains(text), "{error:?} lacks {text:?}");
    }
}

#[test]
fn a_new_directory_is_this_users_alone() {
    let outer = TempDir::new().unwrap();
    let directory = outer.path().join("not/there");
    let cache = open(&directory).unwrap();
    let path = directory.join("mount-s3-cache/v1");
    assert_eq!(cache.path(), path);
    for folder in [&path, path.parent().unwrap(), &directory] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    for file in ["lock", "CACHEDIR.TAG"] {
        assert_eq!(mode(path.join(file)), 0o600, "{file}");
    }
    let tag = fs::read(path.join("CACHEDIR.TAG")).unwrap();
    assert!(tag.starts_with(b"Signature: 8a477f597d28d172789f06886806bc55\n"));
}

#[test]
fn several_processes_share_a_directory_and_find_it_again() {
    let outer = TempDir::new().unwrap();
    let first = open(outer.path()).unwrap();
    let second = open(outer.path()).unwrap();
    assert_eq!(first.path(), second.path());
    drop((first, second));
    assert_eq!(
        open(outer.path()).unwrap().path().file_name().unwrap(),
        "v1"
    );
}

#[test]
fn a_key_has_a_folder_of_its_own() {
    let outer = TempDir::new().unwrap();
    let cache = CacheDirectory::open(outer.path(), Some("abc"), &|_| false).unwrap();
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let folder = outer.path().join("mount-s3-cache");
    assert_eq!(cache.path(), folder.join(hash).join("v1"));
    let plain = open(outer.path()).unwrap();
    assert_eq!(plain.path(), folder.join("v1"));
    let found = CacheDirectory::open_all(outer.path()).unwrap();
    let found: Vec<_> = found.iter().map(CacheDirectory::path).collect();
    assert_eq!(found, [plain.path(), cache.path()]);
}

#[test]
fn looking_for_caches_makes_none() {
    let outer = TempDir::new().unwrap();
    fs::create_dir(outer.path().join("v1")).unwrap();
    assert!(CacheDirectory::open_all(outer.path()).unwrap().is_empty());
    assert!(CacheDirectory::open_all(&outer.path().join("none")).is_err());
    fs::create_dir(outer.path().join("mount-s3-cache")).unwrap();
    assert!(CacheDirectory::open_all(outer.path()).unwrap().is_empty());
    let left = fs::read_dir(outer.path().join("mount-s3-cache")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn links_are_refused_at_every_level() {
    let outer = TempDir::new().unwrap();
    let target = outer.path().join("target");
    fs::create_dir_all(target.join("mount-s3-cache/v1")).unwrap();
    let link = outer.path().join("link");
    symlink(&target, &link).unwrap();
    let hint = format!("name its target ({}) with --cache", target.display());
    check_refused(&link, &["link is a symbolic link", &hint]);
    check_refused(&link.join(""), &["is a symbolic link"]);
    for name in ["mount-s3-cache", "mount-s3-cache/v1"] {
        let base = outer.path().join(name.replace('/', "-"));
        let place = base.join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(target.join(name), &place).unwrap();
        check_refused(&base, &[name, "is a symbolic link"]);
    }
    // The system's own links above it are followed, as /var/run is one.
    assert!(open(&link.join("below")).is_ok());
    // A link in place of the lock leads to no other file.
    let base = outer.path().join("lock");
    let cache = open(&base).unwrap().path().to_owned();
    fs::remove_file(cache.join("lock")).unwrap();
    symlink(outer.path().join("elsewhere"), cache.join("lock")).unwrap();
    check_refused(&base, &["cannot open the lock"]);
    assert!(!outer.path().join("elsewhere").exists());
}

#[test]
fn what_is_no_directory_is_refused() {
    let outer = TempDir::new().unwrap();
    let file = outer.path().join("file");
    fs::write(&file, "x").unwrap();
    check_refused(&file, &["file is not a directory"]);
    fs::write(outer.path().join("mount-s3-cache"), "x").unwrap();
    check_refused(outer.path(), &["mount-s3-cache is not a directory"]);
    assert_eq!(fs::read(&file).unwrap(), b"x");
}

#[test]
fn directories_of_others_are_refused() {
    let outer = TempDir::new().unwrap();
    // Tests run as root: the owner is what counts, not the permission.
    let user = nix::unistd::geteuid().as_raw();
    let other = user + 1000;
    let hint = format!("belongs to user {other}, and this process runs as user {user}");
    for name in ["", "mount-s3-cache", "mount-s3-cache/v1"] {
        let base = outer.path().join(name.replace('/', "-"));
        drop(open(&base).unwrap());
        chown(base.join(name), Some(other), None).unwrap();
        check_refused(&base, &[name, &hint, "--cache"]);
        chown(base.join(name), Some(user), None).unwrap();
        assert!(open(&base).is_ok(), "{name}");
    }
}

#[test]
fn folders_that_others_may_write_are_refused() {
    let outer = TempDir::new().unwrap();
    for (name, wrong) in [
        ("mount-s3-cache", 0o770),
        ("mount-s3-cache/v1", 0o702),
        ("mount-s3-cache/v1", 0o2775),
    ] {
        drop(open(outer.path()).unwrap());
        let folder = outer.path().join(name);
        fs::set_permissions(&folder, Permissions::from_mode(wrong)).unwrap();
        let hint = format!("`chmod go-w {}`", folder.display());
        check_refused(outer.path(), &[&format!("mode {wrong:04o}"), &hint]);
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        assert!(open(outer.path()).is_ok());
    }
    // A volume of a container, where the cache is the only program.
    fs::set_permissions(outer.path(), Permissions::from_mode(0o2777)).unwrap();
    assert!(open(outer.path()).is_ok());
}

#[test]
fn a_directory_on_the_mount_itself_is_refused_and_not_touched() {
    let outer = TempDir::new().unwrap();
    let mount = outer.path().to_owned();
    let inside = mount.join("a/b");
    let error = CacheDirectory::open(&inside, None, &|path| path == mount).unwrap_err();
    assert!(error.to_string().contains("is on the mount itself"));
    assert!(!mount.join("a").exists());
}

#[test]
fn a_lock_of_another_program_is_named() {
    let outer = TempDir::new().unwrap();
    let path = open(outer.path()).unwrap().path().join("lock");
    let other = File::open(&path).unwrap();
    other.try_lock().unwrap();
    check_refused(outer.path(), &["is locked by another program", "fuser -v"]);
    drop(other);
    assert!(open(outer.path()).is_ok());
}

#[test]
fn only_what_is_ours_is_removed_and_only_when_nobody_uses_it() {
    let outer = TempDir::new().unwrap();
    fs::write(outer.path().join("mine"), "x").unwrap();
    let first = open(outer.path()).unwrap();
    let folder = first.path().to_owned();
    let second = open(outer.path()).unwrap();
    fs::create_dir(folder.join("00")).unwrap();
    first.remove_if_unused(|_| Ok(())).unwrap();
    assert!(folder.join("00").exists(), "another process uses it");
    // Files of others stay, with the folders above them.
    fs::write(folder.join("notes"), "x").unwrap();
    second.remove_if_unused(|_| Ok(())).unwrap();
    let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert_eq!(left.len(), 1);
    let later = folder.with_file_name("v2");
    fs::create_dir(&later).unwrap();
    fs::remove_file(folder.join("notes")).unwrap();
    open(outer.path())
        .unwrap()
        .remove_if_unused(|_| Ok(()))
        .unwrap();
    assert!(later.exists() && !folder.exists());
    fs::remove_dir(&later).unwrap();
    let keyed = CacheDirectory::open(outer.path(), Some("k"), &|_| false).unwrap();
    keyed.remove_if_unused(|_| Ok(())).unwrap();
    let left: Vec<_> = fs::read_dir(outer.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
