//! The systems under test: how each is started.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::address::{Address, LocalFolder};
use super::environment::set_environment;
use super::peers::{MOUNT_S3, PEERS, PRODUCT};
use crate::dataset::CACHE_BUCKET;
use crate::limit;
use crate::workload::{CacheState, Workload};

/// The role of a system in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Product,
    Peer,
    /// FUSE with no store behind it.
    FuseLimit,
    /// The client with no FUSE before it; mounts nothing.
    ClientLimit,
    /// The workload's files on the local disk, beside caches on that disk; mounts nothing.
    Native,
}

/// Something that mounts a bucket and stays in the foreground.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) name: String,
    pub(crate) role: Role,
    program: PathBuf,
    /// `{bucket}`, `{directory}` and `{url}` are placeholders.
    arguments: &'static [&'static str],
    /// Arguments that the command line adds.
    extra: Vec<String>,
    /// Variables that the command line adds.
    variables: Vec<(String, String)>,
    /// Arguments that make it print its version.
    version: &'static [&'static str],
}

impl System {
    pub(crate) fn product(program: &Path) -> Self {
        Self {
            name: PRODUCT.to_owned(),
            role: Role::Product,
            program: program.into(),
            arguments: MOUNT_S3,
            extra: Vec::new(),
            variables: Vec::new(),
            version: &["--version"],
        }
    }

    /// `NAME` (found in `PATH`) or `NAME=[VARIABLE=VALUE …] PROGRAM [ARGUMENT …]`.
    pub(crate) fn peer(text: &str) -> Result<Self> {
        let (name, words) = text.split_once('=').unwrap_or((text, text));
        let mut words = words.split_whitespace().peekable();
        let mut variables = Vec::new();
        while let Some((name, value)) = words.peek().and_then(|word| variable(word)) {
            variables.push((name.to_owned(), value.to_owned()));
            words.next();
        }
        // A name may carry a mark, so that two builds of one peer can be compared:
        // `rclone:new=…`.
        let kind = kind_of(name);
        let Some((_, arguments, version)) = PEERS.iter().find(|(known, ..)| *known == kind) else {
            let known: Vec<_> = PEERS.iter().map(|(known, ..)| *known).collect();
            bail!("unknown peer {kind:?}; known are {}", known.join(", "));
        };
        let Some(program) = words.next() else {
            bail!("--peer {text:?} names no program");
        };
        Ok(Self {
            name: name.to_owned(),
            role: if kind == PRODUCT {
                Role::Product
            } else {
                Role::Peer
            },
            program: program.into(),
            arguments,
            extra: words.map(str::to_owned).collect(),
            variables,
            version,
        })
    }

    /// The parts of the product alone, and the local disk, served by this program.
    pub(crate) fn limits(quick: bool) -> Result<[Self; 3]> {
        let this = std::env::current_exe().context("this program's path")?;
        let limit = |name: &str, role, arguments| Self {
            name: name.to_owned(),
            role,
            program: this.clone(),
            arguments,
            extra: quick.then(|| "--quick".to_owned()).into_iter().collect(),
            variables: Vec::new(),
            version: &["--version"],
        };
        Ok([
            limit(
                "fuse alone",
                Role::FuseLimit,
                &["limit-fuse", "{directory}"],
            ),
            limit("client alone", Role::ClientLimit, &["limit-client"]),
            limit("native", Role::Native, &[]),
        ])
    }

    /// Whether the workload makes sense for it. A peer that cannot do one fails and is shown as
    /// failed.
    pub(crate) fn takes(&self, workload: &Workload) -> bool {
        match self.role {
            Role::Product | Role::Peer if workload.is_cache_shared => self.has_lasting_cache(),
            Role::Product | Role::Peer => match workload.cache {
                None => true,
                Some(CacheState::Cold | CacheState::Warm) => self.has_cache(),
                Some(CacheState::Remounted) => self.has_lasting_cache(),
            },
            Role::Native => workload.is_staged || is_filled_on_disk(workload),
            Role::FuseLimit | Role::ClientLimit if !workload.group.has_limit() => false,
            Role::FuseLimit => !workload.action.writes() && !workload.action.reads_made_file(),
            Role::ClientLimit => limit::client_takes(workload.action),
        }
    }

    /// Its name without a mark.
    fn kind(&self) -> &str {
        kind_of(&self.name)
    }

    /// Whether it knows `--cache`.
    fn has_cache(&self) -> bool {
        self.arguments == MOUNT_S3
    }

    /// Whether its caches outlive the mount: mountpoint-s3 empties its own at the end.
    fn has_lasting_cache(&self) -> bool {
        self.kind() == PRODUCT
    }

    /// This system, with what else `workload` needs on its command line.
    pub(crate) fn prepared_for(&self, workload: &Workload) -> Self {
        let mut prepared = self.clone();
        if workload.is_cache_shared {
            let bucket = format!("s3://{CACHE_BUCKET}/");
            prepared.extra.extend(["--cache-bucket".to_owned(), bucket]);
        }
        prepared
    }

    /// This system once for each value of a variable.
    pub(crate) fn sweep(&self, variable: &str, values: &str) -> Vec<Self> {
        let values = values.split(',').filter(|value| !value.is_empty());
        let systems = values.map(|value| {
            let mut variables = self.variables.clone();
            variables.push((variable.to_owned(), value.to_owned()));
            Self {
                name: format!("{}:{value}", self.name),
                variables,
                ..self.clone()
            }
        });
        systems.collect()
    }

    /// The command that carries a workload out without a mount.
    pub(crate) fn client_command(
        &self,
        address: &Address<'_>,
        workload: &str,
        limit: Duration,
    ) -> Command {
        let mut command = Command::new(&self.program);
        let seconds = limit.as_secs_f64().to_string();
        command.args(self.arguments).args(&self.extra);
        command.args([&address.url, address.bucket, workload, &seconds]);
        set_environment(&mut command, address);
        command.stdin(Stdio::null());
        command
    }

    /// The command that puts a file into the bucket, where no mount is to see it being written.
    pub(crate) fn put_command(address: &Address<'_>, key: &str, file: &Path) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["put", &address.url, address.bucket, key]);
        command.arg(file).stdin(Stdio::null());
        set_environment(&mut command, address);
        Ok(command)
    }

    /// Every known peer that `PATH` holds.
    pub(crate) fn peers_found() -> Vec<Self> {
        let names = PEERS.iter().map(|(name, ..)| *name);
        let peers = names.filter_map(|name| Self::peer(name).ok().filter(|_| name != PRODUCT));
        peers.filter(|peer| peer.version().is_ok()).collect()
    }

    /// The command that mounts the bucket at `directory`, with a folder of the local disk if the
    /// workload is about one.
    pub(crate) fn mount_command(
        &self,
        directory: &Path,
        address: &Address<'_>,
        folder: Option<LocalFolder<'_>>,
    ) -> Command {
        let mut command = Command::new(&self.program);
        for argument in self.arguments {
            let directory = directory.to_string_lossy();
            command.arg(
                argument
                    .replace("{bucket}", address.bucket)
                    .replace("{directory}", &directory)
                    .replace("{url}", &address.url),
            );
        }
        if self.arguments == MOUNT_S3 && address.interfaces.len() > 1 {
            let interfaces = address.interfaces.iter();
            command.args(interfaces.flat_map(|name| ["--bind", name]));
        }
        match folder {
            Some(LocalFolder::Cache(cache)) => {
                command.arg("--cache").arg(cache);
            }
            Some(LocalFolder::Staging(staging)) if self.role == Role::Product => {
                command.arg("--allow-changes").arg("--staging").arg(staging);
            }
            Some(LocalFolder::Staging(staging)) if self.kind() == "rclone" => {
                command
                    .args(["--vfs-cache-mode", "full", "--cache-dir"])
                    .arg(staging);
            }
            // Others have no such folder, or one of their own.
            Some(LocalFolder::Staging(_)) | None => {}
        }
        command.args(&self.extra).stdin(Stdio::null());
        set_environment(&mut command, address);
        command.envs(self.variables.iter().cloned());
        command
    }

    /// The first line that the system prints about its version, and whether it could be started at
    /// all.
    pub(crate) fn version(&self) -> Result<String> {
        let output = match Command::new(&self.program).args(self.version).output() {
            Ok(output) => output,
            Err(error) => bail!("cannot start {}: {error}", self.program.display()),
        };
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().next().unwrap_or("unknown").trim().to_owned())
    }
}

fn is_filled_on_disk(workload: &Workload) -> bool {
    !workload.is_cache_shared && workload.cache.is_some_and(CacheState::is_filled)
}

fn kind_of(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// `NAME=VALUE`, as a shell knows it.
fn variable(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::super::environment::OF_AUTHORITY;
    use super::*;
    use crate::dataset::{BUCKET, Dataset};
    use crate::server::Access;
    use crate::workload;

    fn address<'a>(access: &'a Access, interfaces: &'a [String]) -> Address<'a> {
        Address {
            url: "http://127.0.0.1:9".to_owned(),
            bucket: BUCKET,
            access,
            interfaces,
            authority: None,
        }
    }

    fn command(system: &System, interfaces: &[String]) -> Command {
        let access = Access::embedded();
        let address = address(&access, interfaces);
        system.mount_command(Path::new("/mnt/x"), &address, None)
    }

    #[test]
    fn a_peer_is_known_by_name() {
        let peer = System::peer("rclone:new=/opt/rclone").unwrap();
        assert_eq!(
            (peer.name.as_str(), peer.program.as_path()),
            ("rclone:new", Path::new("/opt/rclone"))
        );
        assert_eq!(System::peer("s3fs").unwrap().program, Path::new("s3fs"));
        assert!(System::peer("other=/bin/true").is_err());
        assert!(System::peer("rclone=").is_err());
    }

    #[test]
    fn a_peer_may_have_variables_and_arguments() {
        let peer = System::peer("mount-s3:x=A=1 B_2= /bin/mount-s3 --read-mode direct").unwrap();
        let command = command(&peer, &[]);
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments[arguments.len() - 2..], ["--read-mode", "direct"]);
        let value = |name: &str| {
            let mut variables = command.get_envs();
            variables
                .find(|(found, _)| *found == name)
                .and_then(|(_, value)| value)
        };
        assert_eq!(value("A"), Some(OsStr::new("1")));
        assert_eq!(value("B_2"), Some(OsStr::new("")));
        assert_eq!(command.get_program(), "/bin/mount-s3");
    }

    #[test]
    fn the_command_names_bucket_directory_and_server() {
        let command = command(&System::product(Path::new("m")), &[]);
        let arguments: Vec<_> = command.get_args().collect();
        let expected = [
            "benchmark",
            "/mnt/x",
            "--endpoint-url",
            "http://127.0.0.1:9",
            "--force-path-style",
            "--foreground",
        ];
        assert_eq!(arguments, expected);
    }

    #[test]
    fn over_tls_every_system_is_told_whom_to_trust() {
        let access = Access::embedded();
        let address = Address {
            url: "https://127.0.0.1:9".to_owned(),
            authority: Some(Path::new("/authority.pem")),
            ..address(&access, &[])
        };
        let command =
            System::peer("geesefs")
                .unwrap()
                .mount_command(Path::new("/mnt/x"), &address, None);
        for name in OF_AUTHORITY {
            let mut variables = command.get_envs();
            let set = variables.any(|set| set == (name.as_ref(), Some("/authority.pem".as_ref())));
            assert!(set, "{name}");
        }
        assert!(command.get_args().any(|word| word == "https://127.0.0.1:9"));
    }

    #[test]
    fn a_sweep_is_one_system_for_each_value() {
        let systems = System::product(Path::new("m")).sweep("BACKGROUND", "16,32");
        let names: Vec<_> = systems.iter().map(|system| system.name.as_str()).collect();
        assert_eq!(names, ["mount-s3:16", "mount-s3:32"]);
        assert_eq!(
            systems[1].variables,
            [("BACKGROUND".to_owned(), "32".to_owned())]
        );
    }

    #[test]
    fn several_interfaces_are_bound_to() {
        let interfaces = ["a".to_owned(), "b".to_owned()];
        let product = System::product(Path::new("m"));
        let command = command(&product, &interfaces);
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(
            arguments[arguments.len() - 4..],
            ["--bind", "a", "--bind", "b"]
        );
    }

    #[test]
    fn caches_on_disk_are_measured_where_there_is_one() {
        let all = workload::all(&Dataset::new(true));
        let row = |name: &str| all.iter().find(|row| row.name == name).unwrap();
        let takes = |system: &System| {
            ["off", "cold", "warm", "remounted"]
                .map(|state| system.takes(row(&format!("cache-1x256k-{state}"))))
        };
        let [fuse, client, native] = System::limits(true).unwrap();
        assert_eq!(takes(&System::product(Path::new("m"))), [true; 4]);
        assert_eq!(
            takes(&System::peer("mountpoint-s3").unwrap()),
            [true, true, true, false]
        );
        assert_eq!(
            takes(&System::peer("goofys").unwrap()),
            [true, false, false, false]
        );
        assert_eq!(takes(&native), [false, false, true, true]);
        assert_eq!((takes(&fuse), takes(&client)), ([false; 4], [false; 4]));
        assert!(!native.takes(row("seq-1x256k")));
        let shared = row("cache-shared-1x256k-remounted");
        assert!(System::peer("mount-s3:x=m").unwrap().takes(shared));
        assert!(!System::peer("mountpoint-s3").unwrap().takes(shared));
        assert!(!native.takes(shared));
    }

    #[test]
    fn the_cache_comes_before_what_the_command_line_adds() {
        let system = System::peer("mount-s3:x=m --cache-passthrough off").unwrap();
        let access = Access::embedded();
        let address = address(&access, &[]);
        let cache = Some(LocalFolder::Cache(Path::new("/cache")));
        let command = system.mount_command(Path::new("/mnt/x"), &address, cache);
        let arguments: Vec<_> = command.get_args().collect();
        let expected = ["--cache", "/cache", "--cache-passthrough", "off"];
        assert_eq!(arguments[arguments.len() - 4..], expected);
    }

    #[test]
    fn a_shared_cache_has_a_bucket_that_is_not_mounted() {
        let all = workload::all(&Dataset::new(true));
        let row = |name: &str| all.iter().find(|row| row.name == name).unwrap();
        let access = Access::embedded();
        let address = address(&access, &[]);
        let last = |name: &str| {
            let system = System::product(Path::new("m")).prepared_for(row(name));
            let command = system.mount_command(Path::new("/mnt/x"), &address, None);
            let arguments = command.get_args().map(OsStr::to_string_lossy);
            arguments.last().unwrap().into_owned()
        };
        assert_eq!(last("cache-1x256k-off"), "--foreground");
        let bucket = last("cache-shared-1x256k-cold");
        let is_mounted = bucket.starts_with(&format!("s3://{BUCKET}/"));
        assert!(bucket.starts_with("s3://") && !is_mounted, "{bucket}");
    }

    #[test]
    fn staged_writes_have_a_folder_where_a_system_knows_one() {
        let access = Access::embedded();
        let address = address(&access, &[]);
        for (peer, expected) in [
            ("mount-s3:x=m", "--allow-changes --staging /staging"),
            ("rclone=r", "--vfs-cache-mode full --cache-dir /staging"),
            ("mountpoint-s3=m", "--foreground"),
        ] {
            let staging = Some(LocalFolder::Staging(Path::new("/staging")));
            let system = System::peer(peer).unwrap();
            let command = system.mount_command(Path::new("/mnt/x"), &address, staging);
            let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
            assert!(arguments.join(" ").ends_with(expected), "{arguments:?}");
        }
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = System::peer("s3fs=/no/such/program")
            .unwrap()
            .version()
            .unwrap_err();
        assert!(error.to_string().contains("/no/such/program"));
    }
}
