//! Folders stay small, comments narrow, neither imports nor a type's methods go in circles among
//! files, and a type's name has one meaning.
//!
//! Each rule has a list of known exceptions, which may only shrink: an unused exception fails the
//! test as well.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most source files of one folder, of tests too.
const FILES_PER_FOLDER_MAX: usize = 12;

/// Columns of a line that is a comment.
const COMMENT_COLUMNS_MAX: usize = 100;

/// Most public or crate-wide types of one name in the workspace.
const TYPES_PER_NAME_MAX: usize = 2;

/// Folders that have more files than [`FILES_PER_FOLDER_MAX`].
const LARGE_FOLDERS: &[&str] = &[];

/// Files and folders of one folder that import each other in circles.
const CYCLES: &[(&str, &[&str])] = &[];

/// Most files with methods of one type.
const FILES_PER_TYPE_MAX: usize = 4;

/// Types with methods in other numbers of files: the façade of the file system, and those that
/// have more than [`FILES_PER_TYPE_MAX`]. The numbers may only become smaller.
const FILES_OF_TYPES: &[(&str, usize)] = &[
    ("FileSystem", 3),
    ("InodeTable", 6),
    ("Mutator", 6),
    ("Namespace", 7),
    ("Store", 10),
    ("Table", 5),
];

/// Names of more types than [`TYPES_PER_NAME_MAX`].
const SHARED_NAMES: &[&str] = &[];

/// Policies: values in, values out. They know no lock, no clock and no client.
const PURE: &[&str] = &[
    "mountpoint-fs/src/cache/eviction/count.rs",
    "mountpoint-fs/src/cache/eviction/ghosts.rs",
    "mountpoint-fs/src/cache/eviction/policy.rs",
    "mountpoint-fs/src/cache/eviction/room_limits.rs",
    "mountpoint-fs/src/cache/storage/usage.rs",
    "mountpoint-fs/src/cache/index/extents.rs",
    "mountpoint-fs/src/cache/index/record.rs",
    "mountpoint-fs/src/index/coding.rs",
    "mountpoint-fs/src/index/footer.rs",
    "mountpoint-fs/src/index/header.rs",
    "mountpoint-fs/src/namespace/known/facts.rs",
    "mountpoint-fs/src/namespace/listing/walk/credit.rs",
    "mountpoint-fs/src/namespace/listing/walk/mod.rs",
    "mountpoint-fs/src/namespace/listing/walk/pace.rs",
    "mountpoint-fs/src/namespace/listing/walk/request.rs",
    "mountpoint-fs/src/namespace/listing/walk/seen.rs",
    "mountpoint-fs/src/namespace/listing/walk/subtrees.rs",
    "mountpoint-fs/src/namespace/listing/walk/upcoming.rs",
    "mountpoint-fs/src/namespace/resolve/strategy.rs",
    "mountpoint-fs/src/read/layout/prefetch.rs",
    "mountpoint-fs/src/read/plan/",
    "mountpoint-fs/src/file/journal/filling.rs",
    "mountpoint-fs/src/file/journal/format.rs",
    "mountpoint-fs/src/file/journal/index.rs",
    "mountpoint-fs/src/file/queue/schedule.rs",
    "mountpoint-fs/src/memory/admission/mod.rs",
    "mountpoint-fs/src/memory/budget/ledger.rs",
    "mountpoint-fs/src/memory/writer_queue.rs",
    "mountpoint-fs/src/write/send/parts/part_sizes.rs",
];

/// Modules that a policy must not import.
const IMPURE: [&str; 3] = ["crate::sync", "crate::clock", "mountpoint_client::"];

const CRATES: [&str; 4] = [
    "mountpoint-crt-sys",
    "mountpoint-client",
    "mountpoint-fs",
    "benchmark",
];

/// The crates of the program, without its benchmark.
const PRODUCT: [&str; 3] = ["mountpoint-crt-sys", "mountpoint-client", "mountpoint-fs"];

#[test]
fn folders_have_few_files() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in CRATES {
        for place in ["src", "tests"] {
            for path in rust_files(&root.join(name).join(place), &|_| true) {
                let folder = path.parent().unwrap().strip_prefix(root).unwrap();
                let folder = folder.to_str().unwrap().to_owned();
                *counts.entry(folder).or_default() += 1;
            }
        }
    }
    let large = counts
        .iter()
        .filter(|(_, count)| **count > FILES_PER_FOLDER_MAX);
    let large: Vec<&str> = large.map(|(folder, _)| folder.as_str()).collect();
    assert_eq!(large, LARGE_FOLDERS, "folders of too many files");
}

#[test]
fn comments_are_not_wide() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for source in CRATES.iter().flat_map(|name| Crate::read(name).sources) {
        let text = std::fs::read_to_string(root.join(&source.path)).unwrap();
        for (line, number) in text.lines().zip(1..) {
            let columns = line.chars().count();
            let is_wide = line.trim_start().starts_with("//") && columns > COMMENT_COLUMNS_MAX;
            assert!(!is_wide, "{}:{number}: {columns} columns", source.path);
        }
    }
}

#[test]
fn files_of_a_folder_do_not_import_each_other_in_circles() {
    let mut found = BTreeSet::new();
    for name in CRATES {
        let edges = Crate::read(name).imports();
        for (folder, edges) in edges {
            for cycle in cycles(&edges) {
                found.insert((folder.clone(), cycle));
            }
        }
    }
    let known = CYCLES.iter().map(|(folder, members)| {
        let members = members.iter().copied().map(str::to_owned);
        ((*folder).to_owned(), members.collect())
    });
    assert_eq!(found, known.collect(), "circles of imports");
}

#[test]
fn methods_of_a_type_do_not_call_each_other_in_circles_among_files() {
    let mut found = Vec::new();
    for methods in PRODUCT.iter().flat_map(|name| Crate::read(name).methods()) {
        let circles = cycles(&methods.calls());
        found.extend(
            circles
                .into_iter()
                .map(|files| (methods.name.clone(), files)),
        );
    }
    assert!(found.is_empty(), "circles of calls: {found:#?}");
}

#[test]
fn methods_of_a_type_stand_in_few_files() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for methods in PRODUCT.iter().flat_map(|name| Crate::read(name).methods()) {
        let count = counts.entry(methods.name).or_default();
        *count = methods.bodies.len().max(*count);
    }
    let known: BTreeMap<&str, usize> = FILES_OF_TYPES.iter().copied().collect();
    counts.retain(|name, files| known.contains_key(&**name) || *files > FILES_PER_TYPE_MAX);
    let found: Vec<_> = counts
        .iter()
        .map(|(name, files)| (&**name, *files))
        .collect();
    assert_eq!(found, FILES_OF_TYPES, "files with methods of a type");
}

#[test]
fn a_type_name_has_one_meaning() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for source in CRATES.iter().flat_map(|name| Crate::read(name).sources) {
        for name in source.code.lines().filter_map(type_name) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts.retain(|_, count| *count > TYPES_PER_NAME_MAX);
    let shared: Vec<&str> = counts.keys().map(String::as_str).collect();
    assert_eq!(shared, SHARED_NAMES, "names of too many types");
}

#[test]
fn policies_know_no_lock_no_clock_and_no_client() {
    let sources = Crate::read("mountpoint-fs").sources;
    for place in PURE {
        let files = sources.iter().filter(|file| file.path.starts_with(place));
        assert!(files.clone().count() > 0, "no source in {place}");
        for file in files {
            let found = IMPURE.iter().find(|impure| file.code.contains(*impure));
            assert_eq!(found, None, "{}", file.path);
        }
    }
}

/// The Rust files in `folder` and below it that `is_included` admits; none without the folder.
fn rust_files(folder: &Path, is_included: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut to_visit = vec![folder.to_owned()];
    while let Some(folder) = to_visit.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if !is_included(&path) {
                continue;
            } else if path.is_dir() {
                to_visit.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The public or crate-wide type that a line of source begins.
fn type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let item = line
        .strip_prefix("pub ")
        .or_else(|| line.strip_prefix("pub(crate) "))?;
    let (kind, rest) = item.split_once(' ')?;
    let is_type = ["struct", "enum", "union", "trait", "type"].contains(&kind);
    is_type.then(|| rest.split(|it: char| !it.is_alphanumeric()).next())?
}

/// A source file of a crate, tests aside.
struct Source {
    /// From the workspace, as `mountpoint-fs/src/read/mod.rs`.
    path: String,
    /// Without comments and without the tests in it.
    code: String,
}

struct Crate {
    /// Folder of its sources, from the workspace.
    root: String,
    sources: Vec<Source>,
}

/// The methods of one type.
#[derive(Default)]
struct Methods {
    name: String,
    /// The `impl` blocks of each file.
    bodies: BTreeMap<String, String>,
}

impl Methods {
    /// Calls between the files: the caller, and the file that defines what it calls on `self`.
    fn calls(&self) -> BTreeSet<(String, String)> {
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for (file, body) in &self.bodies {
            owners.extend(
                body.lines()
                    .filter_map(method_name)
                    .map(|name| (name, &**file)),
            );
        }
        let mut calls = BTreeSet::new();
        for (file, body) in &self.bodies {
            for receiver in ["self", "Self"] {
                for rest in body.split(receiver).skip(1) {
                    let called = ["::", "."]
                        .iter()
                        .find_map(|it| rest.trim_start().strip_prefix(it));
                    let name = called.and_then(|name| name.split(|it| !is_in_name(it)).next());
                    let owner = name.and_then(|name| owners.get(name));
                    if let Some(owner) = owner.filter(|owner| **owner != file) {
                        calls.insert((file.clone(), (*owner).to_owned()));
                    }
                }
            }
        }
        calls
    }
}

/// Imports between the members of each folder: the importer, and the imported member.
type Imports = BTreeMap<String, BTreeSet<(String, String)>>;

impl Crate {
    fn read(name: &str) -> Self {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let root = format!("{name}/src");
        let mut sources = Vec::new();
        for path in rust_files(&workspace.join(&root), &|path| !is_test(path)) {
            let code = code(&std::fs::read_to_string(&path).unwrap());
            let path = path.strip_prefix(workspace).unwrap();
            let path = path.to_str().unwrap().to_owned();
            sources.push(Source { path, code });
        }
        assert!(!sources.is_empty(), "no source in {root}");
        Self { root, sources }
    }

    /// The file of the module at `path`, as `["read", "plan"]`.
    fn file_of(&self, path: &[String]) -> Option<&Source> {
        let place = [std::slice::from_ref(&self.root), path].concat().join("/");
        let names = match path {
            [] => vec![format!("{place}/lib.rs"), format!("{place}/main.rs")],
            _ => vec![format!("{place}.rs"), format!("{place}/mod.rs")],
        };
        self.sources
            .iter()
            .find(|source| names.contains(&source.path))
    }

    /// The module that `source` is.
    fn module_of(&self, source: &Source) -> Vec<String> {
        let path = source.path.strip_prefix(&self.root).unwrap();
        let path = path.trim_end_matches(".rs").split('/').skip(1);
        let mut module: Vec<String> = path.map(str::to_owned).collect();
        if ["mod", "lib", "main"].contains(&module.last().unwrap().as_str()) {
            module.pop();
        }
        module
    }

    /// The methods of each type that has some in several files.
    fn methods(&self) -> Vec<Methods> {
        let mut homes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for source in &self.sources {
            for name in source.code.lines().filter_map(defined_type) {
                homes.entry(name).or_default().push(&source.path);
            }
        }
        let mut types: BTreeMap<(&str, &str), Methods> = BTreeMap::new();
        for source in &self.sources {
            for (name, body) in impl_blocks(&source.code) {
                // Of two types of one name it is the next one in the tree.
                let common = |home: &&&str| {
                    let pairs = home.split('/').zip(source.path.split('/'));
                    pairs.take_while(|(a, b)| a == b).count()
                };
                let home = homes
                    .get(name)
                    .and_then(|all| all.iter().max_by_key(common));
                let methods = types.entry((name, home.unwrap())).or_default();
                name.clone_into(&mut methods.name);
                let body_of_file = methods.bodies.entry(source.path.clone()).or_default();
                body_of_file.push_str(body);
            }
        }
        let types = types.into_values();
        types.filter(|methods| methods.bodies.len() > 1).collect()
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for source in &self.sources {
            let module = self.module_of(source);
            for import in uses(&source.code) {
                let children = import.is_public && !import.path.starts_with(&["crate".to_owned()]);
                let target = self.resolve(&module, &import.path, 0);
                let Some(target) = target.filter(|target| target.path != source.path) else {
                    continue;
                };
                let (folder, from, to) = members(&source.path, &target.path);
                // A folder's own module names what its files define.
                if children && from == "mod" {
                    continue;
                }
                imports.entry(folder).or_default().insert((from, to));
            }
        }
        imports
    }

    /// The file that defines what `module` imports as `path`; nothing if that is of another crate.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<&Source> {
        let mut at = module.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => at = Vec::new(),
            "self" => {}
            "super" => {
                at.pop()?;
            }
            _ => {
                at.push(path[0].clone());
                self.file_of(&at)?;
            }
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|name| name == "super") {
            at.pop()?;
            rest = &rest[1..];
        }
        while let Some(name) = rest.first() {
            at.push(name.clone());
            if self.file_of(&at).is_none() {
                at.pop();
                break;
            }
            rest = &rest[1..];
        }
        let file = self.file_of(&at)?;
        let Some(item) = rest.first().filter(|_| depth < 8) else {
            return Some(file);
        };
        let exported = uses(&file.code)
            .into_iter()
            .find(|export| export.is_public && export.path.last() == Some(item));
        exported
            .and_then(|export| self.resolve(&at, &export.path, depth + 1))
            .or(Some(file))
    }
}

/// The type that a line of source defines, at whatever visibility.
fn defined_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().take(5);
    words.find(|word| ["struct", "enum", "union", "trait"].contains(word))?;
    words.next()?.split(|it| !is_in_name(it)).next()
}

/// The `impl` blocks of a source that are of no trait: the type's name, and what is in the block.
fn impl_blocks(code: &str) -> Vec<(&str, &str)> {
    let blocks = code.split("\nimpl").skip(1);
    let blocks = blocks.filter_map(|block| {
        let (head, body) = block.split_once(" {\n")?;
        let head = match head.strip_prefix('<') {
            Some(generic) => generic.split_once("> ")?.1,
            None => head.trim_start(),
        };
        let name = head.split(|it| !is_in_name(it)).next()?;
        let is_of_trait = head.contains(" for ");
        (!is_of_trait).then_some((name, body.split("\n}").next()?))
    });
    blocks.collect()
}

/// The name of the method that a line of an `impl` block begins.
fn method_name(line: &str) -> Option<&str> {
    let item = line
        .strip_prefix("    ")
        .filter(|item| !item.starts_with(' '))?;
    let (words, rest) = item.split_once("fn ")?;
    let is_item = words.is_empty() || words.ends_with(' ');
    let name = rest.split(|it| !is_in_name(it)).next();
    name.filter(|_| is_item)
}

fn is_in_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The folder that two files have in common, and which members of it they are or are in.
fn members(from: &str, to: &str) -> (String, String, String) {
    let (from, to): (Vec<_>, Vec<_>) = (from.split('/').collect(), to.split('/').collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let name = |path: &[&str]| path[common].trim_end_matches(".rs").to_owned();
    (from[..common].join("/"), name(&from), name(&to))
}

struct Use {
    path: Vec<String>,
    is_public: bool,
}

/// The imports of a source, one path for each name.
fn uses(code: &str) -> Vec<Use> {
    let mut uses = Vec::new();
    let mut rest = code;
    while let Some(place) = rest.find("use ") {
        let line = rest[..place].rsplit('\n').next().unwrap_or_default();
        let begins = line.trim_start();
        rest = &rest[place + 4..];
        let is_public = begins.starts_with("pub");
        if begins.is_empty() || (is_public && begins.ends_with(' ') && !begins.contains("fn")) {
            let tree = rest.split(';').next().unwrap_or_default();
            let tree: String = tree.split_whitespace().collect::<Vec<_>>().join(" ");
            expand(&tree, &[], is_public, &mut uses);
        }
    }
    uses
}

/// The paths of a tree of imports behind `prefix`.
fn expand(tree: &str, prefix: &[String], is_public: bool, uses: &mut Vec<Use>) {
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let head = head.split("::").map(str::trim);
        let head = head.filter(|name| !name.is_empty()).map(str::to_owned);
        let prefix: Vec<String> = prefix.iter().cloned().chain(head).collect();
        let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
        // A comma may end the group.
        for part in parts(group)
            .into_iter()
            .filter(|part| !part.trim().is_empty())
        {
            expand(part, &prefix, is_public, uses);
        }
        return;
    }
    let name = tree.split(" as ").next().unwrap_or_default();
    let names = name.split("::").map(|name| name.trim().to_owned());
    let names = names.filter(|name| !name.is_empty() && name != "*");
    let path: Vec<String> = prefix.iter().cloned().chain(names).collect();
    if !path.is_empty() {
        uses.push(Use { path, is_public });
    }
}

/// The parts between commas, groups in braces left whole.
fn parts(group: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (place, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[from..place]);
                from = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[from..]);
    parts
}

#[test]
fn a_circle_of_calls_is_found() {
    let source = |path: &str, code: &str| Source {
        path: format!("a/src/{path}"),
        code: code.to_owned(),
    };
    let files = |sources| Crate {
        root: "a/src".to_owned(),
        sources,
    };
    let one = "struct Tree;\n\nimpl<'a> Tree {\n    pub fn up(&self) {\n        self\n            .down()\n    }\n}\n";
    let two = "\nimpl Tree {\n    fn down(&self) {\n        Self::up(self)\n    }\n}\n";
    let other =
        "struct Tree;\n\nimpl Tree {\n    fn down(&self) {}\n}\n\nimpl Drop for Tree {\n}\n";
    let circle = files(vec![source("one.rs", one), source("two.rs", two)]).methods();
    assert_eq!(cycles(&circle[0].calls()).len(), 1);
    let other = files(vec![source("one.rs", one), source("other.rs", other)]);
    assert!(other.methods().is_empty(), "two types of one name");
}

/// Sets of members that can each be reached from each other.
fn cycles(edges: &BTreeSet<(String, String)>) -> BTreeSet<BTreeSet<String>> {
    let reach = |from: &String| {
        let (mut seen, mut to_visit) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = to_visit.pop() {
            for (_, to) in edges.iter().filter(|(from, _)| *from == at) {
                if seen.insert(to.clone()) {
                    to_visit.push(to.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        edges.iter().map(|(from, _)| (from, reach(from))).collect();
    let in_cycles = reached.iter().filter(|(from, seen)| seen.contains(**from));
    in_cycles
        .map(|(from, seen)| {
            let back = |it: &&String| reached.get(it).is_some_and(|seen| seen.contains(*from));
            seen.iter().filter(back).cloned().collect()
        })
        .collect()
}

fn is_test(path: &Path) -> bool {
    let name = path.file_name().unwrap();
    name == "tests" || name == "tests.rs" || path.to_str().unwrap().ends_with("_tests.rs")
}

/// Source without comments and without the tests at its end.
fn code(text: &str) -> String {
    let production = text.split("\nmod tests {").next().unwrap_or_default();
    let lines = production.lines();
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}
