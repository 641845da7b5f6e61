//! Real programs that write: each statement of doc/PROGRAMS.md about them is tried.

use mountpoint_client::testing::server::Server;

use crate::harness::{BUCKET, Mounted, server, shell};

/// Every flag that a program may need.
const FLAGS: [&str; 4] = [
    "--allow-delete",
    "--allow-overwrite",
    "--allow-rename",
    "--posix-metadata",
];

/// A directory with files of several kinds, on the local disk.
fn source() -> tempfile::TempDir {
    let source = tempfile::tempdir().unwrap();
    shell(
        source.path(),
        "mkdir -p t/sub/deep && echo one > t/one && printf '' > t/empty && echo two > t/sub/two \
         && head -c 20000000 /dev/urandom > t/sub/deep/large && printf '#!/bin/sh\\necho run\\n' > t/script && chmod 755 t/script \
         && ln -s sub/two t/link && touch -d @1234567890 t/one t/sub t/sub/deep/large && chmod 600 t/sub/two",
    );
    source
}

fn mounted(flags: &[&str]) -> (Server, Mounted) {
    let server = server();
    let mounted = Mounted::new(&server, flags);
    (server, mounted)
}

/// Runs `script` in the mount, `$S` being the source.
fn run_in(mounted: &Mounted, source: &tempfile::TempDir, script: &str) {
    let source = source.path().display();
    shell(mounted.path(), &format!("S={source}; {script}"));
}

const SAME_ATTRIBUTES: &str = "cd $S/t && find . -printf '%P %m %s %l %Ts\\n' | grep -v '^ ' | sort > $S/want; cd - > /dev/null; \
                               cd t && find . -printf '%P %m %s %l %Ts\\n' | grep -v '^ ' | sort > $S/have; cd ..; \
                               sed -i 's/\\(^[^ ]* [0-9]*\\) [0-9]* *\\([0-9]*\\)$/\\1 \\2/' $S/want $S/have";

#[test]
fn without_flags_new_files_are_made() {
    let (_server, mounted) = mounted(&[]);
    let source = source();
    run_in(
        &mounted,
        &source,
        "touch new && test -e new && cp $S/t/one plain && cp -p $S/t/one kept && diff $S/t/one kept \
         && cp -rL $S/t tree && diff -r $S/t tree && tar -C $S -cf archive.tar t && tar -tf archive.tar > /dev/null \
         && cat $S/t/one | tee copy > /dev/null && diff $S/t/one copy && dd if=$S/t/sub/deep/large of=large bs=1M status=none \
         && cmp large $S/t/sub/deep/large",
    );
}

#[test]
fn cp_and_tar_keep_attributes_in_metadata() {
    let source = source();
    for script in [
        "cp -a $S/t .",
        "tar -C $S -cf - t | tar -xpf -",
        "rsync -a --inplace $S/t .",
        "rsync -a $S/t .",
    ] {
        let (_server, mounted) = mounted(&FLAGS);
        run_in(&mounted, &source, script);
        run_in(
            &mounted,
            &source,
            &format!(
                "diff -r --no-dereference $S/t t && sleep 1.1; {SAME_ATTRIBUTES}; diff $S/want $S/have"
            ),
        );
    }
}

/// Extended attributes, which `rsync -X` and `cp -a` copy.
#[test]
fn extended_attributes_are_copied_along() {
    let source = source();
    shell(
        source.path(),
        "setfattr -n user.colour -v blue t/one && setfattr -n user.d -v x t/sub",
    );
    for script in [
        "cp -a $S/t .",
        "rsync -aX $S/t .",
        "rsync -aX --inplace $S/t .",
    ] {
        let (server, mounted) = mounted(&FLAGS);
        run_in(
            &mounted,
            &source,
            &format!("{script} && getfattr --only-values -n user.colour t/one | grep -qx blue"),
        );
        drop(mounted);
        // Another mount, and the way back.
        let mounted = Mounted::new(&server, &FLAGS);
        run_in(
            &mounted,
            &source,
            "getfattr -d t/one | grep -q 'user.colour=\"blue\"' && getfattr -n user.d t/sub | grep -q x && cp -a t/one $S/back \
             && getfattr --only-values -n user.colour $S/back | grep -qx blue",
        );
    }
}

/// Between the mount and the local disk, with the errors that a program would see.
#[test]
fn mv_moves_in_and_out() {
    let (server, mounted) = mounted(&FLAGS);
    let source = source();
    run_in(
        &mounted,
        &source,
        "cp -a $S/t $S/u && mv $S/u . && diff -r --no-dereference $S/t u && mv u $S/back && diff -r --no-dereference $S/t $S/back \
         && test ! -e u && test $(stat -c %a $S/back/script) = 755",
    );
    assert!(server.store().keys(BUCKET).is_empty());
}

/// Another mount checks what the first one stored.
#[test]
fn databases_and_edits_work() {
    let (server, mounted) = mounted(&FLAGS);
    let source = source();
    run_in(
        &mounted,
        &source,
        "python3 - <<'END'
import sqlite3
for mode in ['delete', 'wal']:
    db = sqlite3.connect(mode + '.db')
    assert db.execute(f'pragma journal_mode={mode}').fetchone()[0] == mode
    db.execute('create table t (a integer primary key, b text)')
    for batch in range(3):
        with db: db.executemany('insert into t(b) values (?)', [('x' * 50,) for _ in range(500)])
    with db: db.execute(\"update t set b = 'changed' where a % 7 = 0\")
    db.close()
with open('there', 'w') as file: file.write('content' * 1000)
with open('there', 'r+b') as file:
    file.seek(7); file.write(b'CONTENT'); file.seek(0, 2); file.write(b'end'); file.seek(7)
    assert file.read(7) == b'CONTENT'
    file.truncate(21)
END
         test \"$(cat there)\" = contentCONTENTcontent",
    );
    drop(mounted);
    let keys = server.store().keys(BUCKET);
    assert_eq!(keys, ["delete.db", "there", "wal.db"]);
    let mounted = Mounted::new(&server, &FLAGS);
    run_in(
        &mounted,
        &source,
        "test \"$(cat there)\" = contentCONTENTcontent && for mode in delete wal; do cp $mode.db $S && sqlite3 $S/$mode.db \
         \"pragma integrity_check; select count(*) from t; select count(*) from t where b = 'changed'\" > $S/said \
         && test \"$(echo $(cat $S/said))\" = 'ok 1500 214'; done",
    );
}

/// Programs that only write a file, and go back in it, are refused: their bytes are sent in order.
#[test]
fn what_only_writes_goes_back() {
    let (server, mounted) = mounted(&FLAGS);
    let source = source();
    run_in(
        &mounted,
        &source,
        "python3 -c 'f = open(\"new\", \"wb\", 0); f.write(b\"content\"); f.seek(0); f.write(b\"x\")' \
         && grep -qx xontent new \
         && echo content > there && python3 -c 'f = open(\"there\", \"wb\", 0); f.write(b\"new\"); f.seek(0); f.write(b\"x\")' \
         && grep -qx xew there",
    );
    assert_eq!(server.store().keys(BUCKET), ["new", "there"]);
}

/// `tar` reads its list of saved files before it writes it, even an empty one.
#[test]
fn tar_saves_what_has_changed_only() {
    let (_server, mounted) = mounted(&FLAGS);
    let source = source();
    run_in(
        &mounted,
        &source,
        "touch -d '1 hour ago' $S/t/one; tar -C $S -g saved -cf full.tar t && sleep 1.1 && echo new > $S/t/new \
         && tar -C $S -g saved -cf changes.tar t && test \"$(tar -tf full.tar | grep -cx t/sub/two)\" = 1 \
         && test \"$(tar -tf changes.tar | grep -v '/$')\" = t/new",
    );
}

#[test]
fn rsync_sends_what_has_changed_only() {
    let (server, mounted) = mounted(&FLAGS);
    let source = source();
    run_in(
        &mounted,
        &source,
        "rsync -a --inplace $S/t . && echo changed > $S/t/one && rsync -a -i $S/t . > $S/log \
         && grep -q one $S/log && ! grep -q large $S/log && diff -r --no-dereference $S/t t",
    );
    drop(server);
}

/// Editors: some rename a new file, some truncate and write the existing one.
#[test]
fn editors_replace_files() {
    let source = source();
    for (flags, script) in [
        (
            &FLAGS[..],
            "sed -i s/one/two/ f && grep -qx two f && perl -pi -e s/two/three/ f && grep -qx three f",
        ),
        (
            &["--allow-overwrite"],
            "printf '%s\\n' ,s/one/two/ w q | ed -s f && grep -qx two f \
             && vim.tiny -n -es -c s/two/three/ -c wq f && grep -qx three f && truncate -s 0 f && test -f f && test ! -s f",
        ),
        (
            &["--allow-overwrite", "--allow-delete"],
            "printf '1c1\\n< one\\n---\\n> two\\n' | patch -s f && grep -qx two f \
             && python3 -c \"f = open('f', 'r+'); t = f.read(); f.seek(0); f.truncate(); f.write(t.replace('two', '3'))\" \
             && grep -qx 3 f",
        ),
    ] {
        let (server, mounted) = mounted(flags);
        run_in(
            &mounted,
            &source,
            &format!("cp $S/t/one f && {script} && test \"$(ls -A)\" = f"),
        );
        drop(mounted);
        assert_eq!(server.store().keys(BUCKET), ["f"]);
    }
}

/// `tail -f` shows each synchronised line, and the program that writes continues.
#[test]
fn a_log_is_followed_while_it_is_written() {
    let (server, mounted) = mounted(&[]);
    let source = source();
    run_in(
        &mounted,
        &source,
        "python3 - $S <<'END'
import os, subprocess, sys, time
out = sys.argv[1] + '/out'
def wait_for(text):
    deadline = time.monotonic() + 120
    while open(out).read() != text:
        assert time.monotonic() < deadline, open(out).read()
        time.sleep(0.01)
log = open('log', 'w')
def line(text):
    print(text, file=log, flush=True)
    os.fsync(log.fileno())
line('one')
tail = subprocess.Popen(['tail', '-n', '+1', '-s', '0.02', '-f', 'log'], stdout=open(out, 'w'))
wait_for('one\\n')
line('two')
wait_for('one\\ntwo\\n')
log.write('three\\n')
log.close()
wait_for('one\\ntwo\\nthree\\n')
tail.kill()
assert open('log').read() == 'one\\ntwo\\nthree\\n'
END",
    );
    assert_eq!(server.store().keys(BUCKET), ["log"]);
}

#[test]
fn git_clones_and_commits() {
    let source = source();
    shell(
        source.path(),
        "cd t && git init -q . && git -c user.name=a -c user.email=a@b add -A && git -c user.name=a -c user.email=a@b \
         commit -qm first",
    );
    let flags = [&FLAGS[..], &["--allow-append"]].concat();
    let (_server, mounted) = mounted(&flags);
    run_in(
        &mounted,
        &source,
        "git clone -q $S/t clone && diff -r -x .git $S/t clone && cd clone && git fsck && test -x script \
         && test -z \"$(git status --porcelain)\" && test \"$(git log --format=%s)\" = first \
         && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m second && git log --oneline | wc -l | grep -qx 2 && cd .. \
         && git clone -q --local clone linked && git -C linked fsck --full && rm -r clone && git -C linked fsck --full \
         && git clone -q linked again && test -x again/script \
         && cd again && echo 1 > f && git add f && git -c user.name=a -c user.email=a@b commit -qm third && cd .. \
         && git clone -q --local again third && git -C third fsck --full",
    );
}

#[test]
fn python_writes_as_data_programs_do() {
    let (server, mounted) = mounted(&FLAGS);
    let source = source();
    run_in(
        &mounted,
        &source,
        "python3 - $S <<'END'
import io, os, pickle, shutil, sys, tempfile, zipfile
source = sys.argv[1] + '/t'
shutil.copyfile(source + '/one', 'copyfile')
shutil.copy2(source + '/one', 'copy2')
assert os.stat('copy2').st_mtime == 1234567890
shutil.copytree(source, 'tree', symlinks=True)
shutil.move('tree', 'moved')
shutil.move('copyfile', 'moved/copyfile')
shutil.rmtree('moved')
# A checkpoint: a pickle, then many large buffers, then replaced under its name.
with open('model.tmp', 'wb') as file:
    pickle.dump({'step': 1}, file)
    for _ in range(20):
        file.write(os.urandom(1 << 20))
    file.flush()
    os.fsync(file.fileno())
os.replace('model.tmp', 'model.pt')
assert os.stat('model.pt').st_size > 20 << 20
with open('model.pt', 'rb') as file:
    assert pickle.load(file) == {'step': 1}
# Columnar files: row groups one after the other, a footer with their offsets.
with open('table.parquet', 'wb') as file:
    offsets = []
    for group in range(50):
        offsets.append(file.tell())
        file.write(bytes([group]) * 100_000)
    file.write(repr(offsets).encode())
# A zip written to a stream; one that seeks is made elsewhere and copied.
buffer = io.BytesIO()
with zipfile.ZipFile(buffer, 'w') as archive:
    archive.writestr('a.npy', bytes(1000))
with open('arrays.npz', 'wb') as file:
    file.write(buffer.getbuffer())
assert zipfile.ZipFile('arrays.npz').testzip() is None
END",
    );
    let keys = server.store().keys(BUCKET);
    assert_eq!(keys, ["arrays.npz", "copy2", "model.pt", "table.parquet"]);
}

/// An archive with directories, and one of files alone, beside the source.
const ZIPPED: &str = "cd $S && python3 -m zipfile -c all.zip t/ && rm -f files.zip \
                      && python3 -m zipfile -c files.zip t/one t/sub/two t/script && cd - > /dev/null";

#[test]
fn archives_are_unpacked() {
    let source = source();
    let (_server, mounted) = mounted(&FLAGS);
    run_in(
        &mounted,
        &source,
        &format!(
            "{ZIPPED}; TZ=UTC unzip -q $S/all.zip 2> $S/said && test ! -s $S/said && diff -r $S/t t \
             && test $(stat -c %Y t/one) = $(stat -c %Y $S/t/one)"
        ),
    );
}

/// The program cannot set times, which it reports; only a directory's time makes it fail.
#[test]
fn archives_are_unpacked_without_times() {
    let source = source();
    let (_server, mounted) = mounted(&[]);
    run_in(
        &mounted,
        &source,
        &format!(
            "{ZIPPED}; unzip -q $S/files.zip -d f 2> $S/said && grep -q 'cannot set modif./access times' $S/said \
             && cmp $S/t/one f/one && cmp $S/t/two f/two && cmp $S/t/script f/script; \
             unzip -q $S/all.zip 2> $S/said && exit 9 || test $? = 1; \
             grep -q 'Operation not permitted' $S/said && diff -r $S/t t"
        ),
    );
}

/// In the place of a file, which is removed, `--allow-delete` is needed.
#[test]
fn files_are_compressed_in_their_place() {
    check_compression(
        &["--allow-delete"],
        "gzip small && test ! -e small && gunzip small.gz && cmp small $S/t/one && test ! -e small.gz",
    );
}

/// Beside the original file, which stays, no flag is needed.
#[test]
fn without_flags_files_are_compressed_beside_others() {
    let refused =
        "! gzip small 2> $S/said && grep -q 'Operation not permitted' $S/said && test -e small";
    check_compression(&[], refused);
}

fn check_compression(flags: &[&str], in_its_place: &str) {
    let source = source();
    let (server, mounted) = mounted(flags);
    run_in(
        &mounted,
        &source,
        &format!(
            "cp $S/t/sub/deep/large large && cp $S/t/one small && gzip -1 < large > stream.gz && gzip -1 -k large \
             && zcat stream.gz | cmp - large && zcat large.gz | cmp - large && tar -czf t.tar.gz -C $S t && tar -tzf t.tar.gz \
             && split -b 6000000 large piece. && cat piece.a[a-d] | cmp - large && {in_its_place}"
        ),
    );
    drop(mounted);
    let pieces = server.store().keys(BUCKET).into_iter();
    assert_eq!(pieces.filter(|key| key.starts_with("piece.")).count(), 4);
}

#[test]
fn rsync_copies_without_times_and_modes() {
    let source = source();
    let (_server, mounted) = mounted(&FLAGS[..3]);
    run_in(
        &mounted,
        &source,
        "R='rsync -r --chmod=D755,F644'; $R $S/t r 2> $S/said; diff -r --no-dereference -x link $S/t r/t \
         && echo changed > $S/t/one && $R --checksum -i $S/t r | grep '^>' > $S/log && grep -q t/one $S/log \
         && test $(wc -l < $S/log) = 1 && diff -r --no-dereference -x link $S/t r/t",
    );
}

/// Linkers, assemblers and archivers write at earlier offsets.
#[test]
fn compilers_linkers_and_archivers_work() {
    let source = source();
    let (server, mounted) = mounted(&FLAGS);
    run_in(
        &mounted,
        &source,
        "echo 'int f(void); int main(void) { return f(); }' > x.c && echo 'int f(void) { return 7; }' > f.c \
         && gcc -c -g -o x.o x.c && gcc -c -g f.c && ar rcs f.a f.o && ar t f.a | grep -qx f.o && gcc -o x x.o f.a \
         && (./x && exit 1 || test $? = 7) && ld -r -o both.o x.o f.o && gcc -o y both.o && strip y && (./y && exit 1 || test $? = 7) \
         && echo 'int f(void) { return 8; }' > f.c && gcc -c f.c && ar rcs f.a f.o && gcc -o x x.o f.a && (./x && exit 1 || test $? = 8)",
    );
    drop(mounted);
    let keys = server.store().keys(BUCKET);
    assert_eq!(
        keys,
        ["both.o", "f.a", "f.c", "f.o", "x", "x.c", "x.o", "y"]
    );
    let mounted = Mounted::new(&server, &FLAGS);
    run_in(
        &mounted,
        &source,
        "(./x && exit 1 || test $? = 8) && (./y && exit 1 || test $? = 7) && gcc -o $S/x x.o f.a && ($S/x && exit 1 || test $? = 8)",
    );
}

/// Programs that change small files where they are, with the flag that permits it alone.
#[test]
fn small_files_are_changed_where_they_are() {
    let source = source();
    let (server, mounted) = mounted(&["--allow-changes"]);
    run_in(
        &mounted,
        &source,
        "head -c 3000000 /dev/urandom > $S/f && cp $S/f inplace && cp $S/f append && printf changed | dd of=$S/f bs=1 seek=1000000 conv=notrunc status=none \
         && rsync --inplace --no-whole-file --ignore-times $S/f inplace && cmp $S/f inplace && cp $S/f append \
         && echo more >> $S/f && rsync --append $S/f append && cmp $S/f append && rsync --append-verify $S/f inplace && cmp $S/f inplace \
         && printf X | dd of=inplace bs=1 seek=5 conv=notrunc status=none && printf X | dd of=$S/f bs=1 seek=5 conv=notrunc status=none && cmp $S/f inplace \
         && exec 5<> append && printf Y >&5 && exec 5>&- && test \"$(head -c 1 append)\" = Y \
         && seq 1000 > a && seq 99 > b && zip -q z.zip a && zip -q z.zip b && zip -qd z.zip a && unzip -tq z.zip \
         && tar cf t.tar a && tar rf t.tar b && tar --delete -f t.tar a && tar tf t.tar | grep -qx b",
    );
    drop(mounted);
    let mounted = Mounted::new(&server, &["--allow-changes"]);
    run_in(
        &mounted,
        &source,
        "cmp $S/f inplace && unzip -tq z.zip && unzip -p z.zip b | cmp - b && test \"$(tar tf t.tar)\" = b && tail -c +2 append > $S/rest",
    );
}

/// A pack with deltas is read while it is written.
#[test]
fn git_clones_by_a_transport() {
    let source = source();
    shell(
        source.path(),
        "commit() { git -C $1 add -A && git -C $1 -c user.name=a -c user.email=a@b commit -qm \"$2\"; }
         mv t one && git init -q one && commit one first
         git init -q several && seq 2000 > several/f && commit several first && seq 2100 > several/f && commit several second
         cp -r several long && head -c 20000000 /dev/urandom > long/random && commit long random",
    );
    let (server, mounted) = mounted(&FLAGS);
    run_in(
        &mounted,
        &source,
        "git clone -q file://$S/one one && git -C one fsck && diff -r -x .git $S/one one && rm -r one \
         && git clone -q file://$S/several several && git -C several fsck && cmp $S/several/f several/f && rm -r several \
         && git clone -q file://$S/long long && git -C long fsck && cmp $S/long/random long/random && rm -r long \
         && git clone -q $S/long long && git -C long fsck && cmp $S/long/f long/f && rm -r long",
    );
    let keys = server.store().keys(BUCKET);
    assert!(keys.is_empty(), "{keys:?}");
}
