//! Credentials that change during a run: each mount gets them from a program, `cat`.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use mountpoint_client::testing::server::Server;
use tempfile::TempDir;

/// A profile of AWS, and the file of keys that its `credential_process` prints.
pub(super) struct Keys {
    directory: TempDir,
    number: AtomicU64,
}

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
            number: AtomicU64::new(0),
        };
        keys.rotate(server);
        keys
    }

    /// New keys, in place of which the server refuses the old ones.
    pub(super) fn rotate(&self, server: &Server) {
        let number = self.number.fetch_add(1, Ordering::SeqCst);
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
