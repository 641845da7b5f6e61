//! The completions in the shells that people have, which must be installed.

use std::path::Path;
use std::process::Command;

/// Starts an interactive shell, types a line and the tab key, and waits until the shell shows the
/// expected line, as far as it can be waited for.
const TYPE: &str = r#"
import os, pty, re, select, sys, time
shell, setup, typed, expected = sys.argv[1:]
options = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}[shell]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(shell, [shell, *options, "-i"])
shown, end = "", time.monotonic() + 60
def wait(text):
    global shown
    while text not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\0", "", shown):
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            sys.exit(f"{shell}: no {text!r} in {shown!r}")
        shown += os.read(terminal, 65536).decode(errors="replace")
os.write(terminal, (setup + "; PS1=; echo rea''dy\n").encode())
wait("ready\r\n")
shown = ""
os.write(terminal, typed.encode() + b"\t")
wait(expected)
os.kill(pid, 9)
"#;

/// Beginnings of lines, and what a tab makes of them.
const LINES: [(&str, &str); 9] = [
    ("mount-s3 war", "mount-s3 warm"),
    ("mount-s3 doctor --endp", "mount-s3 doctor --endpoint-url"),
    ("mount-s3 staged fl", "mount-s3 staged flush"),
    ("mount-s3 cache verify --js", "mount-s3 cache verify --json"),
    (
        "mount-s3 my-bucket /mnt --endp",
        "mount-s3 my-bucket /mnt --endpoint-url",
    ),
    (
        "mount-s3 my-bucket --read-mode di",
        "mount-s3 my-bucket --read-mode direct",
    ),
    (
        "mount-s3 my-bucket --read-mode=di",
        "mount-s3 my-bucket --read-mode=direct",
    ),
    ("mount-s3 trace /et", "mount-s3 trace /etc/"),
    (
        "mount-s3 my-bucket --cache=/et",
        "mount-s3 my-bucket --cache=/etc/",
    ),
];

/// A command that finds `mount-s3`.
fn with_program(program: &str) -> Command {
    let place = Path::new(env!("CARGO_BIN_EXE_mount-s3")).parent().unwrap();
    let mut command = Command::new(program);
    command.env("PATH", format!("{}:/usr/bin:/bin", place.display()));
    command.env("TERM", "vt100");
    command
}

#[track_caller]
fn check_typing(shell: &str, setup: &str) {
    for (typed, expected) in LINES {
        let mut command = with_program("python3");
        command.args(["-c", TYPE, shell, setup, typed, expected]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{typed}: {output:?}");
    }
}

#[test]
fn bash_completes() {
    check_typing("bash", "source <(mount-s3 completions bash)");
}

#[test]
fn zsh_completes() {
    let setup = "autoload -U compinit; compinit -u -D; source <(mount-s3 completions zsh)";
    check_typing("zsh", setup);
}

#[test]
fn fish_completes() {
    let home = tempfile::tempdir().unwrap();
    for (typed, expected) in LINES {
        let script = "mount-s3 completions fish | source; complete -C $argv[1]";
        let mut command = with_program("fish");
        command.env("HOME", home.path());
        let output = command.args(["-c", script, typed]).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        let words: Vec<_> = shown
            .lines()
            .map(|line| line.split('\t').next().unwrap())
            .collect();
        let word = expected.rsplit(' ').next().unwrap();
        assert!(words.contains(&word), "{typed}: {output:?}");
    }
}
