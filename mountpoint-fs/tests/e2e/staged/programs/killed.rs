//! Programs whose mount is killed while they write: what they were told is there afterwards.

use std::process::{Child, Command, Stdio};

use mountpoint_client::testing::server::Server;

use super::{Staged, mount};
use crate::harness::{server, text_of, wait_until};

const WRITE_BACK: [&str; 3] = ["--write-back", "--drain-timeout", "600"];

impl Staged {
    /// Starts a script in the mount, as [`Staged::run`] runs one.
    fn start(&self, script: &str) -> Child {
        let log = std::fs::File::create(self.local.path().join("log")).unwrap();
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(self.mounted.path())
            .env("HOME", self.local.path())
            .env("L", self.local.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command.spawn().unwrap()
    }

    /// Kills the mount when the file `noted` of the local folder has that many lines, waits for the
    /// end of `program`, and mounts again.
    fn killed_at(self, lines: usize, mut program: Child, server: &Server, args: &[&str]) -> Self {
        let path = self.local.path().join("noted");
        wait_until("the program's progress", || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let ended = program.try_wait().unwrap();
            let log = std::fs::read_to_string(self.local.path().join("log")).unwrap();
            assert!(
                ended.is_none(),
                "{ended:?}: {log}\n{}",
                text_of(&self.mounted.log_file())
            );
            text.lines().count() >= lines
        });
        let Self {
            mounted,
            staging,
            local,
        } = self;
        mounted.kill();
        assert!(!program.wait().unwrap().success(), "it lost its mount");
        Self {
            mounted: mount(server, staging.path(), args),
            staging,
            local,
        }
    }
}

const COMMITS: &str = "
cd work
for i in $(seq 1000); do
  seq $((i * 50)) > d/$((i % 7)) && git add d && git commit -qm $i && git rev-parse -q --verify HEAD >> $L/noted
done
";

/// A commit that git has made is there, and so is all that it needs.
fn check_git(args: &[&str]) {
    let server = server();
    let mut staged = Staged::new(&server, args);
    staged.run(
        "git config --global user.email a@b && git config --global user.name n && git config --global gc.auto 0
         git config --global safe.directory '*' && git init -q -b main work && cd work && mkdir d && seq 10 > d/0 && git add . && git commit -qm first
         git rev-parse HEAD > $L/noted",
    );
    for round in 1..3 {
        let program = staged.start(COMMITS);
        staged = staged.killed_at(round * 4, program, &server, args);
        // The kill may come between a file and its `git add`: what no commit has may be there.
        let changed = staged.run(
            "cd work && rm -f .git/*.lock .git/refs/heads/*.lock && git fsck --strict >&2 && last=$(tail -n 1 $L/noted)
             git merge-base --is-ancestor $last HEAD && git reset -q --hard && git clean -qfd && git status --porcelain",
        );
        assert_eq!(changed, "", "round {round}");
    }
}

#[test]
fn commits_of_git_outlive_kills_of_the_mount() {
    check_git(&[]);
}

#[test]
fn commits_of_git_outlive_kills_of_the_mount_with_write_back() {
    check_git(&WRITE_BACK);
}

/// The clone is lost with its mount; another one takes its place.
#[test]
fn a_clone_is_cut_short_and_made_again() {
    let server = server();
    let staged = Staged::new(&server, &WRITE_BACK);
    staged.run(
        "git config --global user.email a@b && git config --global user.name n && git config --global safe.directory '*'
         git init -q -b main $L/origin && cd $L/origin && for i in $(seq 20); do mkdir d$i && for j in $(seq 10); do echo $i $j > d$i/$j; done; done
         git add . && git commit -qm first",
    );
    // As soon as the checkout has begun.
    let program = staged.start(
        "until test -e work/d2; do sleep 0.01; done && echo 1 > $L/noted & git clone -q --no-hardlinks $L/origin work && sleep 1000",
    );
    let staged = staged.killed_at(1, program, &server, &WRITE_BACK);
    staged.run(
        "rm -rf work && git clone -q --no-hardlinks $L/origin work && cd work && git fsck --strict
         git status --porcelain | wc -l | grep -qx 0 && diff -r --exclude=.git . $L/origin",
    );
}

const TRANSACTIONS: &str = "
import sqlite3, sys
mode, L = sys.argv[1:]
db = sqlite3.connect('a.db')
db.execute(f'pragma journal_mode={mode}')
db.execute('pragma synchronous=full')
db.execute('create table if not exists t (a integer primary key, b text)')
with open(L + '/noted', 'a') as noted:
    for batch in range(1000):
        with db:
            cursor = db.executemany('insert into t(b) values (?)', [(f'{batch}-{row}' * 20,) for row in range(50)])
        last = db.execute('select max(a) from t').fetchone()[0]
        with db: db.execute('update t set b = b || ? where a % 97 = ?', ('x', batch % 97))
        print(last, file=noted, flush=True)
";

fn check_sqlite(mode: &str, args: &[&str]) {
    let server = server();
    let mut staged = Staged::new(&server, args);
    std::fs::write(staged.local.path().join("transactions.py"), TRANSACTIONS).unwrap();
    for round in 1..3 {
        let program = staged.start(&format!("exec python3 $L/transactions.py {mode} $L"));
        staged = staged.killed_at(round * 3, program, &server, args);
        let found = staged.run(
            "sqlite3 a.db 'pragma integrity_check; select max(a) - count(*) from t; select max(a) from t'",
        );
        let noted = std::fs::read_to_string(staged.local.path().join("noted")).unwrap();
        let noted: u64 = noted.lines().last().unwrap().parse().unwrap();
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[..2], ["ok", "0"], "{mode}, round {round}");
        let last: u64 = lines[2].parse().unwrap();
        // A transaction may be done whose end was not noted.
        assert!(
            last == noted || last == noted + 50,
            "{mode}, round {round}: {last}, noted {noted}"
        );
    }
}

#[test]
fn transactions_of_sqlite_outlive_kills_of_the_mount() {
    check_sqlite("delete", &[]);
}

#[test]
fn transactions_of_sqlite_outlive_kills_of_the_mount_with_write_back() {
    for mode in ["delete", "wal"] {
        check_sqlite(mode, &WRITE_BACK);
    }
}
