//! git over HTTP, as of a host that serves repositories: `git http-backend` behind a small server.

use super::{BOTH, Make, Staged};
use crate::harness::server;

/// Serves each repository of this machine by its path, on a port that is written to a file.
const SERVER: &str = r#"
import http.server, os, subprocess, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = {"CONTENT_TYPE": "Content-Type", "HTTP_CONTENT_ENCODING": "Content-Encoding",
                 "HTTP_GIT_PROTOCOL": "Git-Protocol"}
        variables = {name: self.headers[header] for name, header in given.items() if self.headers[header]}
        done = subprocess.run(["git", "http-backend"], input=body, stdout=subprocess.PIPE, env={
            **os.environ, **variables, "GIT_PROJECT_ROOT": "/", "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_LENGTH": str(len(body))})
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items(): self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = answer
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".new", "w") as file: file.write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
"#;

const PUSHES_AND_CLONES: &str = "
git config --global user.email a@b && git config --global user.name n && git config --global gc.auto 0
git config --global http.postBuffer 100000000 && git config --global http.receivepack true && git config --global safe.directory '*'
python3 $L/server.py $L/port > $L/server.log 2>&1 & trap \"kill $!\" EXIT
until test -s $L/port; do sleep 0.02; done
URL=http://127.0.0.1:$(cat $L/port)
git init -q -b main $L/origin && cd $L/origin && mkdir d && for i in $(seq 30); do seq 1 $((i * 300)) > d/$i; done
git add . && git commit -qm first && for i in $(seq 5); do echo $i >> d/7; git commit -qam $i; done
git clone -q --bare . $L/bare.git && cd - > /dev/null
# A repository elsewhere, and a clone of it in the mount.
git clone -q $URL$L/bare.git work && cd work && seq 20000 > d/new && git add d/new && git commit -qm second && git push -q
git fsck --strict && test $(git -C $L/bare.git rev-parse main) = $(git rev-parse main) && git -C $L/bare.git fsck --strict && cd ..
# A repository in the mount that is served, and a clone of it elsewhere.
git clone -q --bare $L/bare.git bare.git && git clone -q $URL$PWD/bare.git $L/clone && cd $L/clone
for i in 1 2 3; do echo $i >> d/1; git commit -qam $i; git push -q; done && git checkout -q -b b && seq 9 > n && git add n && git commit -qm b && git push -q -u origin b
cd - > /dev/null && git -C bare.git fsck --strict && git -C bare.git gc -q && test $(git -C bare.git rev-parse b) = $(git -C $L/clone rev-parse b)
cd work && git fetch -q ../bare.git && git merge -q FETCH_HEAD && git pull -q $URL$L/bare.git main && git status --porcelain | wc -l | grep -qx 0
";

fn check(make: Make, args: &[&str]) {
    let server = server();
    // `git gc` empties the folder of references, without which a repository is none.
    let args = [&["--directory-markers"], args].concat();
    let staged = make(&server, &args);
    std::fs::write(staged.local.path().join("server.py"), SERVER).unwrap();
    staged.run(PUSHES_AND_CLONES);
    let Staged {
        mounted, staging, ..
    } = staged;
    assert!(mounted.unmount().success());
    drop(staging);
    let again = make(&server, &[]);
    again.run(
        "git config --global safe.directory '*' && for it in work bare.git; do git -C $it fsck --strict; done
         git -C work status --porcelain | wc -l | grep -qx 0",
    );
}

#[test]
fn git_clones_and_pushes_over_http() {
    for make in BOTH {
        check(make, &[]);
    }
}

#[test]
fn git_clones_and_pushes_over_http_with_write_back() {
    check(Staged::new, &["--write-back", "--drain-timeout", "600"]);
}
