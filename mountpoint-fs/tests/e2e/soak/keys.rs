//! Credentials that change during a run: each mount gets them from a program, `cat`.

use std::process::Command;
use std::time::{Duration, Instant};

use mountpoint_client::testing::server::Server;
use parking_lot::Mutex;
use tempfile::TempDir;

/// A profile of AWS, and the file of keys that its `credential_process` prints.
pub(super) struct Keys {
    directory: TempDir,
    /// How many there were, and since when the last ones hold.
    last: Mutex<(u64, Option<Instant>)>,
}

/// Least life of keys: a mount looks for others at most that often, because a refusal may have
/// another reason.
const LIFE_MIN: Duration = Duration::from_secs(15);

impl Keys {
    pub(super) fn new(server: &Server) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let keys = directory.path().join("keys.json");
        let profile = format!(
            "[default]\ncredential_process = /bin/cat {}\n",
            keys.display()
        );
        std::fs::write(directory.path().join("config"), profile).unwrap();
        let keys = Self {
            directory,
            last: Mutex::new((0, None)),
        };
        keys.rotate(server);
        keys
    }

    /// New keys, in place of old ones that the server refuses then. Keys live for some time.
    pub(super) fn rotate(&self, server: &Server) {
        let mut last = self.last.lock();
        if last.1.is_some_and(|since| since.elapsed() < LIFE_MIN) {
            return;
        }
        *last = (last.0 + 1, Some(Instant::now()));
        let number = last.0;
        let (access, secret) = (format!("KEY{number}"), format!("secret{number}"));
        let text = format!(
            r#"{{"Version": 1, "AccessKeyId": "{access}", "SecretAccessKey": "{secret}"}}"#
        );
        let new = self.directory.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.directory.path().join("keys.json")).unwrap();
        server.set_credentials(&access, &secret);
    }

    pub(super) fn give(&self, command: &mut Command) {
        command
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY")
            .env("AWS_CONFIG_FILE", self.directory.path().join("config"));
    }
}
