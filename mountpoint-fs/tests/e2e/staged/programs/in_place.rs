//! Real programs that write in place. Each does on the mount what it does on the local disk.

use crate::harness::put;

use super::{BOTH, Make, on_both, stored};
use crate::harness::server;

#[test]
fn git_makes_commits_clones_and_pushes() {
    BOTH.into_iter().for_each(check_git);
}

fn check_git(make: Make) {
    let server = server();
    let staged = make(&server, &[]);
    staged.run(
        "git config --global user.email a@b && git config --global user.name n && git config --global gc.auto 0
         git init -q -b main $L/origin && cd $L/origin && mkdir d && for i in 1 2 3 4 5; do seq 1 $((i * 1000)) > d/$i; done
         git add . && git commit -qm first && git tag t && cd - > /dev/null
         git clone -q $L/origin work && cd work && git status --porcelain | wc -l | grep -qx 0
         seq 1 50000 > d/new && git add d/new && git commit -qm second && git mv d/1 d/one && git commit -qm third
         git branch b && git checkout -q b && echo x >> d/2 && git commit -qam fourth && git checkout -q main && git merge -q b
         git checkout -q -b c HEAD~1 && echo z > d/z && git add d/z && git commit -qm c && git rebase -q main && git checkout -q main && git merge -q c
         cd .. && git clone -q --bare work bare.git && cd work && git remote add up file://$PWD/../bare.git
         echo y >> d/3 && git commit -qam fifth && git push -q up main && git gc -q && git fsck --strict
         cd .. && git clone -q bare.git again && diff -r work/d again/d",
    );
    drop(staged);
    // Another mount has what the first one stored.
    let again = make(&server, &[]);
    again.run("cd work && git config --global --add safe.directory '*' && git fsck --strict && git status --porcelain | wc -l | grep -qx 0");
}

const SQLITE: &str = "
import sqlite3
def work(mode, name):
    db = sqlite3.connect(name)
    assert db.execute(f'pragma journal_mode={mode}').fetchone()[0] == mode
    db.execute('create table t (a integer primary key, b text)')
    for batch in range(5):
        with db: db.executemany('insert into t(b) values (?)', [(f'{batch}-{i}' * 5,) for i in range(500)])
    with db: db.execute(\"update t set b = 'changed' where a % 7 = 0\")
    try:
        with db:
            db.execute('delete from t'); raise ValueError
    except ValueError: pass
    other = sqlite3.connect(name)
    assert other.execute('select count(*) from t').fetchone()[0] == 2500
    other.close()
    db.execute('vacuum'); db.close()
    db = sqlite3.connect(name)
    assert db.execute('pragma integrity_check').fetchone()[0] == 'ok'
    assert db.execute(\"select count(*) from t where b = 'changed'\").fetchone()[0] == 357
    db.close()
";

#[test]
fn sqlite_works_with_each_journal() {
    on_both(|server, staged| {
        for mode in ["delete", "truncate", "persist", "wal"] {
            staged.python(&format!("{SQLITE}\nwork('{mode}', '{mode}.db')"));
            let name = format!("{mode}.db");
            std::fs::write(staged.local.path().join(&name), stored(server, &name)).unwrap();
            let checked = staged.run(&format!(
                "sqlite3 $L/{name} 'pragma integrity_check; select count(*) from t'"
            ));
            assert_eq!(checked, "ok\n2500\n", "{mode}");
        }
    });
}

#[test]
fn archives_are_updated() {
    on_both(|server, staged| {
        staged.run(
        "seq 1 100000 > a && seq 1 1000 > b && zip -q z.zip a && zip -q z.zip b && echo c > c && zip -qu z.zip c && zip -qd z.zip a
         unzip -tq z.zip && unzip -p z.zip b | cmp - b
         tar cf t.tar a && tar rf t.tar b && tar uf t.tar c && tar --delete -f t.tar a && tar tf t.tar | xargs | grep -qx 'b c'",
    );
        staged.python(
            "
import zipfile
with zipfile.ZipFile('p.zip', 'w') as z: z.writestr('one', 'x' * 1000)
with zipfile.ZipFile('p.zip', 'a') as z: z.writestr('two', 'y' * 1000)
assert zipfile.ZipFile('p.zip').testzip() is None and len(zipfile.ZipFile('p.zip').namelist()) == 2
",
        );
        std::fs::write(staged.local.path().join("z.zip"), stored(server, "z.zip")).unwrap();
        staged.run("unzip -tq $L/z.zip");
    });
}

/// Objects have times of whole seconds, which `make` compares.
#[test]
fn a_project_is_built_and_run() {
    on_both(|server, staged| {
        staged.run(
        r#"mkdir src && for i in 1 2 3 4 5 6; do echo "int f$i(int x) { return x + $i; }" > src/f$i.c; done
           { for i in 1 2 3 4 5 6; do echo "int f$i(int);"; done; echo '#include <stdio.h>'
             echo 'int main(void) { printf("%d\n", f1(f2(f3(f4(f5(f6(0))))))); return 0; }'; } > src/main.c
           printf 'OBJ = $(patsubst %%.c,%%.o,$(wildcard src/*.c))\nprog: lib.a src/main.o\n\t$(CC) -g -o $@ src/main.o lib.a\nlib.a: $(filter-out src/main.o,$(OBJ))\n\tar rcs $@ $^\n' > Makefile
           make -s -j4 && ./prog | grep -qx 21 && strip prog && ./prog | grep -qx 21
           sleep 1.1; echo 'int f6(int x) { return x + 60; }' > src/f6.c && make -s && ./prog | grep -qx 75"#,
    );
        let program = staged.local.path().join("prog");
        std::fs::write(&program, stored(server, "prog")).unwrap();
        staged.run("chmod +x $L/prog && $L/prog | grep -qx 75");
    });
}

#[test]
fn editors_write_files() {
    on_both(|server, staged| {
        put(server, "text", "one\ntwo\nthree\n");
        staged.run("sed -i 's/two/TWO/' text");
        assert_eq!(stored(server, "text"), b"one\nTWO\nthree\n");
        for (swap, word) in [("-n", "first"), ("", "second")] {
            staged.run(&format!(
                "vim {swap} -u NONE -es -c '%s/^one.*/one {word}/' -c wq text"
            ));
            let expected = format!("one {word}\nTWO\nthree\n");
            assert_eq!(stored(server, "text"), expected.as_bytes());
        }
        staged.run("vim -u NONE -es --cmd 'set backup writebackup backupcopy=yes' -c '$d' -c wq text && perl -pi -e 's/TWO/2/' text");
        assert_eq!(stored(server, "text"), b"one second\n2\n");
        staged.run("echo more >> text && printf 2 | dd of=text bs=1 seek=4 conv=notrunc status=none && truncate -s 6 text");
        assert_eq!(stored(server, "text"), b"one 2e");
        staged.run("! ls -a | grep swp");
    });
}

#[test]
fn trees_are_copied() {
    on_both(|server, staged| {
        // rsync takes files of one size and of the same second for equal, unless times are ignored.
        staged.run(
        "mkdir -p $L/t/d/e && for i in $(seq 1 150); do seq 1 $((i * 11)) > $L/t/d/e/$i; done && head -c 9000000 /dev/urandom > $L/t/big
         chmod 755 $L/t/d/e/7 && ln -s big $L/t/link && tar -C $L -cf $L/t.tar t
         tar xf $L/t.tar && diff -r --no-dereference $L/t t
         printf changed | dd of=$L/t/big bs=1 seek=4000000 conv=notrunc status=none && echo x >> $L/t/d/e/9
         rsync -a --ignore-times --inplace --no-whole-file $L/t/ t/ && diff -r --no-dereference $L/t t
         rsync -a $L/t/ u/ && cp -a t v && cp -a --sparse=always t/big w && diff -r --no-dereference $L/t u && diff -r --no-dereference t v && cmp t/big w
         rm -r u && mv v u && diff -r --no-dereference t u && test $(stat -c %a u/d/e/7) = 755 && rm -r u",
    );
        let big = std::fs::read(staged.local.path().join("t/big")).unwrap();
        assert!(stored(server, "t/big") == big);
        let keys = server.store().keys("test-bucket");
        assert!(
            keys.iter().all(|key| key.starts_with("t/") || key == "w"),
            "{keys:?}"
        );
    });
}

/// Programs that look whether a file was changed by somebody else compare its time.
#[test]
fn times_do_not_change_when_a_file_is_stored() {
    on_both(|server, staged| {
        put(server, "old", "content");
        staged.run(
        "echo x >> old; echo y > new; stat -c %y old new > $L/at-once; sleep 1.5; stat -c %y old new | diff $L/at-once -",
    );
    });
}

/// The redirections of shells, with duplicated and inherited descriptors.
#[test]
fn shells_redirect() {
    on_both(|server, staged| {
        staged.run(
        "{ echo a; bash -c 'echo b'; (echo c) & wait; } > f && exec 5<> f && echo X >&5 && exec 5>&- && cat f | xargs | grep -qx 'X b c'
         for i in 1 2 3; do echo $i >> log; done; echo z > f; : > empty; set -o noclobber; ! echo y > f 2> /dev/null",
    );
        assert_eq!(stored(server, "f"), b"z\n");
        assert_eq!(stored(server, "log"), b"1\n2\n3\n");
        assert_eq!(stored(server, "empty"), b"");
    });
}
