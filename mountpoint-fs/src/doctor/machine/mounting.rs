//! The permission to mount: root by system call, other users through `fusermount3`.
//!
//! Pure: facts in, findings out.

use crate::doctor::finding::{Area, Check, Finding};

/// The helper for ordinary users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) enum Helper {
    /// Not found in `PATH`.
    Missing,
    /// The output of `fusermount3 -V`, and whether its file, if found, is set-uid root.
    Found {
        version: String,
        is_set_uid: Option<bool>,
    },
    Fails(String),
}

#[derive(Clone, Debug)]
pub(in crate::doctor) struct MountingFacts {
    pub(in crate::doctor) is_root: bool,
    /// `/proc/self/status`.
    pub(in crate::doctor) status: String,
    pub(in crate::doctor) helper: Helper,
    /// `/etc/fuse.conf`, `None` without one.
    pub(in crate::doctor) fuse_conf: Option<String>,
    /// Whether the flags open the mount to other users.
    pub(in crate::doctor) wants_others: bool,
    pub(in crate::doctor) wants_auto_unmount: bool,
}

pub(in crate::doctor) fn judge(facts: &MountingFacts) -> Vec<Finding> {
    vec![privilege(facts), helper(facts), other_users(facts)]
}

fn privilege(facts: &MountingFacts) -> Finding {
    const CHECK: &str = "mounting";
    let may_administer = field(&facts.status, "CapEff")
        .and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .is_none_or(|mask| mask & CAP_SYS_ADMIN != 0);
    let keeps_privileges = field(&facts.status, "NoNewPrivs") == Some("1");
    if facts.is_root && !may_administer {
        return Check(Area::Kernel, CHECK).error(
            "root without the capability to mount (CAP_SYS_ADMIN)",
            "in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN",
        );
    }
    if facts.is_root {
        return Check(Area::Kernel, CHECK).ok("root, by system call");
    }
    if keeps_privileges {
        return Check(Area::Kernel, CHECK).error("an ordinary user whose programs may not gain privileges, so fusermount3 cannot mount",
            "remove NoNewPrivileges= from the unit, or no-new-privileges from the container; or mount as root",
        );
    }
    Check(Area::Kernel, CHECK).ok("an ordinary user, through fusermount3")
}

fn helper(facts: &MountingFacts) -> Finding {
    const CHECK: &str = "fusermount3";
    let is_needed = !facts.is_root || facts.wants_auto_unmount;
    let (found, advice) = match &facts.helper {
        Helper::Found {
            version,
            is_set_uid: Some(false),
        } if !facts.is_root => (
            format!("{version}, which is not set-uid root"),
            "`chmod u+s $(which fusermount3)` as root, or install the package fuse3 again",
        ),
        Helper::Found { version, .. } => return Check(Area::Kernel, CHECK).ok(version),
        Helper::Missing => ("not found".to_owned(), "install the package fuse3"),
        Helper::Fails(why) => (
            format!("does not run: {why}"),
            "install the package fuse3 again",
        ),
    };
    if is_needed {
        Check(Area::Kernel, CHECK).error(found, advice)
    } else {
        Check(Area::Kernel, CHECK).ok(format!("{found}; root needs it for --auto-unmount only"))
    }
}

fn other_users(facts: &MountingFacts) -> Finding {
    const CHECK: &str = "user_allow_other";
    let is_set = facts
        .fuse_conf
        .as_deref()
        .is_some_and(|conf| conf.lines().any(|line| line.trim() == CHECK));
    match (is_set, facts.is_root, facts.wants_others) {
        (true, ..) => Check(Area::Kernel, CHECK).ok("set in /etc/fuse.conf"),
        (false, true, _) => {
            Check(Area::Kernel, CHECK).ok("not set in /etc/fuse.conf; root does not need it")
        }
        (false, false, false) => Check(Area::Kernel, CHECK)
            .ok("not set in /etc/fuse.conf: this user's mounts cannot be shared by --allow-other"),
        (false, false, true) => Check(Area::Kernel, CHECK).error(
            "not set in /etc/fuse.conf, and --allow-other and --allow-root need it",
            "add the line user_allow_other to /etc/fuse.conf, or mount as root",
        ),
    }
}

/// The value of a field of `/proc/self/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field == name).then_some(value.trim())
    })
}

/// Bit 21 of the capabilities, as numbered in `linux/capability.h`.
const CAP_SYS_ADMIN: u64 = 1 << 21;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    const FULL: &str = "Name:\tx\nCapEff:\t000001fffeffffff\nNoNewPrivs:\t0\n";
    const NONE: &str = "Name:\tx\nCapEff:\t0000000000000000\nNoNewPrivs:\t0\n";
    const STUCK: &str = "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n";

    fn found(is_set_uid: Option<bool>) -> Helper {
        Helper::Found {
            version: "fusermount3 version: 3.14.0".to_owned(),
            is_set_uid,
        }
    }

    fn facts(is_root: bool, status: &str) -> MountingFacts {
        MountingFacts {
            is_root,
            status: status.to_owned(),
            helper: found(Some(true)),
            fuse_conf: Some("# user_allow_other\n#user_allow_other\nmount_max = 9\n".to_owned()),
            wants_others: false,
            wants_auto_unmount: false,
        }
    }

    #[test]
    fn privileges() {
        for (is_root, status, level, text) in [
            (true, FULL, Level::Ok, "root"),
            (true, "", Level::Ok, "root"),
            (true, NONE, Level::Error, "SYS_ADMIN"),
            (false, NONE, Level::Ok, "fusermount3"),
            (false, STUCK, Level::Error, "NoNewPrivileges"),
        ] {
            expect(&judge(&facts(is_root, status)), "mounting", level, text);
        }
    }

    #[test]
    fn helpers() {
        for (helper, is_root, auto_unmount, level, text) in [
            (found(Some(true)), false, false, Level::Ok, "3.14.0"),
            (found(None), false, false, Level::Ok, "3.14.0"),
            (found(Some(false)), false, false, Level::Error, "set-uid"),
            (found(Some(false)), true, true, Level::Ok, "3.14.0"),
            (Helper::Missing, false, false, Level::Error, "fuse3"),
            (
                Helper::Missing,
                true,
                false,
                Level::Ok,
                "--auto-unmount only",
            ),
            (Helper::Missing, true, true, Level::Error, "not found"),
            (
                Helper::Fails("odd".to_owned()),
                false,
                false,
                Level::Error,
                "odd",
            ),
        ] {
            let mut facts = facts(is_root, if is_root { FULL } else { NONE });
            facts.helper = helper;
            facts.wants_auto_unmount = auto_unmount;
            expect(&judge(&facts), "fusermount3", level, text);
        }
    }

    #[test]
    fn sharing() {
        for (conf, is_root, wants, level, text) in [
            (Some("user_allow_other\n"), false, true, Level::Ok, "set in"),
            (
                Some("  user_allow_other  "),
                false,
                true,
                Level::Ok,
                "set in",
            ),
            (
                Some("#user_allow_other"),
                false,
                true,
                Level::Error,
                "add the line",
            ),
            (None, false, true, Level::Error, "add the line"),
            (None, false, false, Level::Ok, "cannot be shared"),
            (None, true, true, Level::Ok, "root"),
        ] {
            let mut facts = facts(is_root, if is_root { FULL } else { NONE });
            facts.fuse_conf = conf.map(str::to_owned);
            facts.wants_others = wants;
            expect(&judge(&facts), "user_allow_other", level, text);
        }
    }
}
