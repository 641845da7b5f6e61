//! The kernel, its FUSE module and the module's settings.
//!
//! Pure: texts of `/proc` and `/sys` in, findings out.

use crate::config::limits::READ_SIZE_MAX;
use crate::doctor::finding::{Area, Check, Finding};

/// Whether `/dev/fuse` can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) enum Device {
    Opens,
    Missing,
    Denied,
    Fails(String),
}

/// Texts of `/proc` and `/sys`; `None` for a missing file.
#[derive(Clone, Debug)]
pub(in crate::doctor) struct KernelFacts {
    /// `/proc/sys/kernel/osrelease`.
    pub(in crate::doctor) release: Option<String>,
    /// The kernel's build configuration, if it is in `/boot`.
    pub(in crate::doctor) build: Option<String>,
    pub(in crate::doctor) device: Device,
    pub(in crate::doctor) is_root: bool,
    pub(in crate::doctor) page_size: u32,
    /// `/sys/module/fuse/parameters/max_user_bgreq`.
    pub(in crate::doctor) max_user_bgreq: Option<String>,
    /// `/proc/sys/fs/fuse/max_pages_limit`.
    pub(in crate::doctor) max_pages_limit: Option<String>,
    /// `/proc/sys/fs/fuse/default_request_timeout`, `…/max_request_timeout`.
    pub(in crate::doctor) request_timeouts: [Option<String>; 2],
    /// Background requests that a mount would ask for.
    pub(in crate::doctor) max_background: u16,
}

pub(in crate::doctor) fn judge(facts: &KernelFacts) -> Vec<Finding> {
    let version = facts.release.as_deref().and_then(parse_version);
    vec![
        release(facts, version),
        device(facts),
        read_size(facts),
        background(facts),
        timeout(facts),
        passthrough(facts, version),
    ]
}

type Version = (u32, u32);

/// Parses a release: `6.18.44-fc` is (6, 18).
fn parse_version(release: &str) -> Option<Version> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn release(facts: &KernelFacts, version: Option<Version>) -> Finding {
    const CHECK: &str = "kernel version";
    let shown = facts.release.as_deref().unwrap_or("unknown").trim();
    match version {
        None => Check(Area::Kernel, CHECK).warning(
            format!("Linux version '{shown}' cannot be read"),
            "make sure that it is Linux 4.14 or newer",
        ),
        Some(version) if version < VERSION_MIN => Check(Area::Kernel, CHECK).error(
            format!("Linux {shown} is too old: its FUSE protocol is older than 7.26"),
            "use Linux 4.14 or newer; 4.20 for large reads",
        ),
        Some(version) if version < VERSION_MAX_PAGES => Check(Area::Kernel, CHECK).warning(
            format!("Linux {shown} splits reads into 128 KiB"),
            "use Linux 4.20 or newer for reads of 1 MiB",
        ),
        Some(_) => Check(Area::Kernel, CHECK).ok(format!("Linux {shown}")),
    }
}

fn device(facts: &KernelFacts) -> Finding {
    const CHECK: &str = "/dev/fuse";
    let error = |found: String, advice: &str| Check(Area::Kernel, CHECK).error(found, advice);
    match &facts.device {
        Device::Opens => Check(Area::Kernel, CHECK).ok("can be opened"),
        Device::Missing => error(
            "does not exist, or the kernel module is not loaded".to_owned(),
            "load it with `modprobe fuse`; in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN",
        ),
        Device::Denied if facts.is_root => error(
            "may not be opened, even by root".to_owned(),
            "in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN",
        ),
        Device::Denied => error(
            "may not be opened by this user".to_owned(),
            "as root: `chmod 666 /dev/fuse`, which the udev rule of the package fuse3 does; or mount as root",
        ),
        Device::Fails(why) => error(
            format!("cannot be opened: {why}"),
            "load the module with `modprobe fuse`",
        ),
    }
}

fn read_size(facts: &KernelFacts) -> Finding {
    const CHECK: &str = "largest read";
    let wanted = READ_SIZE_MAX / facts.page_size.max(1);
    match number(&facts.max_pages_limit) {
        Some(pages) if pages < u64::from(wanted) => Check(Area::Kernel, CHECK).warning(
            format!(
                "{} KiB: fs.fuse.max_pages_limit is {pages} pages",
                pages * u64::from(facts.page_size) / 1024
            ),
            format!("`sysctl -w fs.fuse.max_pages_limit={wanted}`"),
        ),
        Some(pages) => Check(Area::Kernel, CHECK)
            .ok(format!("1 MiB (fs.fuse.max_pages_limit is {pages} pages)")),
        None => Check(Area::Kernel, CHECK).ok("the kernel's own, no limit to set"),
    }
}

fn background(facts: &KernelFacts) -> Finding {
    const CHECK: &str = "background requests";
    let wanted = facts.max_background;
    match number(&facts.max_user_bgreq) {
        Some(allowed) if allowed < u64::from(wanted) && !facts.is_root => {
            Check(Area::Kernel, CHECK).warning(
                format!("{allowed} for an ordinary user, where the mount would ask for {wanted}"),
                format!("as root: `echo {wanted} > /sys/module/fuse/parameters/max_user_bgreq`"),
            )
        }
        Some(allowed) => Check(Area::Kernel, CHECK).ok(format!(
            "the mount asks for {wanted}; ordinary users may have {allowed}"
        )),
        None => Check(Area::Kernel, CHECK).ok(format!("the mount asks for {wanted}")),
    }
}

fn timeout(facts: &KernelFacts) -> Finding {
    const CHECK: &str = "request timeout";
    let seconds = facts
        .request_timeouts
        .iter()
        .filter_map(number)
        .filter(|seconds| *seconds > 0)
        .min();
    match seconds {
        None => Check(Area::Kernel, CHECK).ok("none: the kernel waits for S3"),
        Some(seconds) => Check(Area::Kernel, CHECK).warning(format!("the kernel ends a mount that takes {seconds} s for one request"),
            "a slow server ends the mount: `sysctl -w fs.fuse.default_request_timeout=0 fs.fuse.max_request_timeout=0`",
        ),
    }
}

fn passthrough(facts: &KernelFacts, version: Option<Version>) -> Finding {
    const CHECK: &str = "passthrough";
    let built = facts.build.as_deref().map(|build| {
        build
            .lines()
            .any(|line| line == "CONFIG_FUSE_PASSTHROUGH=y")
    });
    let found = match (version, built) {
        (Some(version), _) if version < VERSION_PASSTHROUGH => {
            "not in this kernel (since Linux 6.9)"
        }
        (_, Some(false)) => "not built into this kernel",
        (_, Some(true)) if facts.is_root => "in this kernel; --cache uses it",
        (_, None) if facts.is_root => {
            "in kernels since Linux 6.9, if it is built in; --cache uses it"
        }
        (_, _) => "for mounts of root alone, with --cache",
    };
    Check(Area::Kernel, CHECK).ok(found)
}

fn number(text: &Option<String>) -> Option<u64> {
    text.as_deref()?.trim().parse().ok()
}

/// FUSE protocol 7.26, the oldest that the session supports.
const VERSION_MIN: Version = (4, 14);
/// The first version with reads of more than 128 KiB.
const VERSION_MAX_PAGES: Version = (4, 20);
const VERSION_PASSTHROUGH: Version = (6, 9);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    fn facts() -> KernelFacts {
        let some = |text: &str| Some(text.to_owned());
        KernelFacts {
            release: some("6.18.44-generic\n"),
            build: None,
            device: Device::Opens,
            is_root: false,
            page_size: 4096,
            max_user_bgreq: some("7866\n"),
            max_pages_limit: some("256\n"),
            request_timeouts: [some("0\n"), some("0\n")],
            max_background: 64,
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut KernelFacts), name: &str, level: Level, text: &str) {
        let mut facts = facts();
        change(&mut facts);
        expect(&judge(&facts), name, level, text);
    }

    #[test]
    fn a_good_kernel_has_nothing_to_do() {
        for finding in judge(&facts()) {
            assert_eq!(finding.level, Level::Ok, "{finding:?}");
        }
    }

    #[test]
    fn versions() {
        for (release, level, text) in [
            ("6.18.44-fc-v669", Level::Ok, "Linux 6.18.44-fc-v669"),
            ("5.10.0-28-amd64", Level::Ok, "5.10"),
            ("4.20.0", Level::Ok, "4.20"),
            ("4.19.5", Level::Warning, "128 KiB"),
            ("4.14.0", Level::Warning, "4.20"),
            ("4.13.0", Level::Error, "too old"),
            ("3.10.0-1160.el7", Level::Error, "4.14"),
            ("FreeBSD", Level::Warning, "cannot be read"),
            ("", Level::Warning, "cannot be read"),
            ("99999999999.1", Level::Warning, "cannot be read"),
        ] {
            let change = |facts: &mut KernelFacts| facts.release = Some(release.to_owned());
            check(change, "kernel version", level, text);
        }
        check(
            |f| f.release = None,
            "kernel version",
            Level::Warning,
            "unknown",
        );
    }

    #[test]
    fn the_device() {
        let name = "/dev/fuse";
        for (device, is_root, text) in [
            (Device::Missing, true, "modprobe fuse"),
            (Device::Denied, true, "--cap-add SYS_ADMIN"),
            (Device::Denied, false, "chmod 666"),
            (Device::Fails("odd".to_owned()), true, "odd"),
        ] {
            let change = |facts: &mut KernelFacts| {
                facts.device = device;
                facts.is_root = is_root;
            };
            check(change, name, Level::Error, text);
        }
    }

    #[test]
    fn settings_of_the_module() {
        let some = |text: &str| Some(text.to_owned());
        let pages = "largest read";
        check(
            |f| f.max_pages_limit = some("32"),
            pages,
            Level::Warning,
            "128 KiB",
        );
        check(
            |f| f.max_pages_limit = some("32"),
            pages,
            Level::Warning,
            "max_pages_limit=256",
        );
        check(
            |f| f.max_pages_limit = some("1024"),
            pages,
            Level::Ok,
            "1 MiB",
        );
        check(|f| f.max_pages_limit = None, pages, Level::Ok, "no limit");
        check(|f| f.page_size = 65_536, pages, Level::Ok, "1 MiB");
        let background = "background requests";
        check(
            |f| f.max_user_bgreq = some("12"),
            background,
            Level::Warning,
            "echo 64",
        );
        let as_root = |f: &mut KernelFacts| {
            f.max_user_bgreq = some("12");
            f.is_root = true;
        };
        check(as_root, background, Level::Ok, "64");
        check(
            |f| f.max_user_bgreq = some("x"),
            background,
            Level::Ok,
            "64",
        );
        let timeout = "request timeout";
        check(
            |f| f.request_timeouts[1] = some("60"),
            timeout,
            Level::Warning,
            "60 s",
        );
        check(
            |f| f.request_timeouts = [some("90"), some("30")],
            timeout,
            Level::Warning,
            "30 s",
        );
        check(
            |f| f.request_timeouts = [None, None],
            timeout,
            Level::Ok,
            "none",
        );
    }

    #[test]
    fn features_that_are_only_reported() {
        let some = |text: &str| Some(text.to_owned());
        let ok = Level::Ok;
        let name = "passthrough";
        check(
            |f| f.release = some("6.8.0"),
            name,
            ok,
            "not in this kernel",
        );
        check(
            |f| f.build = some("CONFIG_FUSE_FS=m\n"),
            name,
            ok,
            "not built",
        );
        check(
            |f| {
                f.build = some("A=1\nCONFIG_FUSE_PASSTHROUGH=y\n");
                f.is_root = true;
            },
            name,
            ok,
            "in this kernel; --cache uses it",
        );
        check(|f| f.is_root = true, name, ok, "; --cache uses it");
        check(|f| f.is_root = false, name, ok, "mounts of root alone");
    }
}
