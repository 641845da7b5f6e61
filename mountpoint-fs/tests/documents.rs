//! Documents and sources keep what they promise: every flag and variable has its row, layers import
//! downwards only, and each edge has its one place.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use mountpoint_fs::cli::CliArgs;
use mountpoint_fs::metrics::METRICS;
use mountpoint_fs::mount::{Environment, prometheus_name};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn document(name: &str) -> String {
    let path = workspace().join("doc").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts in backquotes in the first cells of a table's rows.
fn first_cells(document: &str) -> BTreeSet<String> {
    let cells = document
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

/// The rows of the tables of flags in doc/CONFIGURATION.md: long name, short name, default.
fn documented_flags() -> BTreeMap<String, (Option<char>, String)> {
    let text = document("CONFIGURATION.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let rows = rows.filter_map(|line| {
        let mut cells = line.split('|').map(str::trim);
        let names: Vec<&str> = cells.next()?.split('`').skip(1).step_by(2).collect();
        let long = names.last()?.strip_prefix("--")?.split(' ').next()?;
        let short =
            (names.len() == 2).then(|| names[0].strip_prefix('-').unwrap().chars().next().unwrap());
        Some((long.to_owned(), (short, cells.next()?.to_owned())))
    });
    rows.collect()
}

fn command() -> clap::Command {
    let mut command = CliArgs::command();
    command.build();
    command
}

#[test]
fn every_flag_has_its_row_and_every_row_its_flag() {
    let command = command();
    let flags: BTreeMap<String, Option<char>> = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_long()?.to_owned(), arg.get_short())))
        .collect();
    let documented: BTreeMap<String, Option<char>> = documented_flags()
        .into_iter()
        .map(|(long, (short, _))| (long, short))
        .collect();
    assert_eq!(documented, flags);
}

/// mountpoint-s3 1.24's flags: long name, short name, whether it takes a value, its default as the
/// document has it.
const REFERENCE: [(&str, Option<char>, bool, &str); 52] = [
    ("foreground", Some('f'), false, "off"),
    ("prefix", None, true, "the whole bucket"),
    (
        "region",
        None,
        true,
        "`AWS_REGION`, the profile's, `us-east-1`",
    ),
    (
        "endpoint-url",
        None,
        true,
        "`AWS_ENDPOINT_URL`, the profile's, the region's",
    ),
    ("force-path-style", None, false, "off"),
    ("transfer-acceleration", None, false, "off"),
    ("dual-stack", None, false, "off"),
    ("requester-pays", None, false, "off"),
    ("bucket-type", None, true, "by the name"),
    ("storage-class", None, true, "none"),
    ("expected-bucket-owner", None, true, "none"),
    ("sse", None, true, "none"),
    ("sse-kms-key-id", None, true, "none"),
    ("upload-checksums", None, true, "`crc32c`"),
    ("infer-content-type", None, false, "off"),
    ("no-sign-request", None, false, "off"),
    ("profile", None, true, "`AWS_PROFILE`, `default`"),
    ("read-only", None, false, "off"),
    ("allow-delete", None, false, "off"),
    ("allow-overwrite", None, false, "off"),
    ("incremental-upload", None, false, "off"),
    ("auto-unmount", None, false, "off"),
    ("allow-root", None, false, "off"),
    ("allow-other", None, false, "off"),
    ("uid", None, true, "the current user"),
    ("gid", None, true, "the current group"),
    ("dir-mode", None, true, "`0755`"),
    ("file-mode", None, true, "`0644`"),
    (
        "maximum-throughput-gbps",
        None,
        true,
        "the EC2 instance's, `10`",
    ),
    ("max-threads", None, true, "`16`"),
    (
        "memory-target",
        None,
        true,
        "a quarter of the machine's or cgroup's, 256 MiB (at most half) to 8 GiB, or to a 16th above 128 GiB, up to 32 GiB; the reference takes up to 95 %",
    ),
    ("part-size", None, true, "`8388608`"),
    ("read-part-size", None, true, "`8388608`"),
    ("write-part-size", None, true, "`8388608`"),
    ("ca-bundle", None, true, "`AWS_CA_BUNDLE`, the system's"),
    ("bind", None, true, "the kernel's choice"),
    ("log-directory", Some('l'), true, "syslog"),
    ("log-metrics", None, false, "off"),
    ("otlp-endpoint", None, true, "none"),
    ("otlp-export-interval", None, true, "`60`"),
    ("debug", Some('d'), false, "off"),
    ("debug-crt", None, false, "off"),
    ("no-log", None, false, "off"),
    ("cache", None, true, "none"),
    ("metadata-ttl", None, true, "`minimal`"),
    (
        "negative-metadata-ttl",
        None,
        true,
        "that of `--metadata-ttl`",
    ),
    (
        "max-cache-size",
        None,
        true,
        "all but 5 % of the file system",
    ),
    ("cache-xz", None, true, "none"),
    ("cache-block-size", None, true, "`1024`"),
    ("user-agent-prefix", None, true, "none"),
    ("help", Some('h'), false, ""),
    ("version", Some('V'), false, ""),
];

#[test]
fn every_flag_of_the_reference_is_here_with_its_default() {
    let (command, documented) = (command(), documented_flags());
    for (long, short, takes_value, default) in REFERENCE {
        let found = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(long));
        let arg = found.unwrap_or_else(|| panic!("there is no --{long}"));
        assert_eq!(arg.get_short(), short, "--{long}");
        assert_eq!(arg.get_action().takes_values(), takes_value, "--{long}");
        assert_eq!(documented[long].1, default, "--{long}");
    }
    let ours: Vec<&str> = command
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .filter(|long| !REFERENCE.iter().any(|row| row.0 == *long))
        .collect();
    assert_eq!(
        ours,
        [
            "fips",
            "sse-customer-key-file",
            "read-mode",
            "index",
            "cache-cleanup",
            "cache-bucket",
            "cache-endpoint-url",
            "cache-passthrough",
            "staging",
            "on-conflict",
            "write-back",
            "write-back-exclusive",
            "write-back-delay",
            "drain-timeout",
            "allow-changes",
            "allow-append",
            "allow-rename",
            "directory-markers",
            "posix-metadata",
            "state-directory",
            "metrics-listen",
            "log-slow",
            "no-metrics"
        ]
    );
}

#[test]
fn every_metric_has_its_row_with_kind_unit_and_labels() {
    let text = document("METRICS.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: BTreeMap<&str, Vec<&str>> = rows
        .filter_map(|row| {
            let (name, rest) = row.split_once("` | ")?;
            let cells = rest.trim_end_matches(" |").split(" | ").collect();
            name.contains('.').then_some((name, cells))
        })
        .collect();
    let known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(rows.keys().copied().collect::<BTreeSet<_>>(), known);
    for metric in METRICS {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        let unit = format!("{:?}", metric.unit).to_lowercase();
        let labels: Vec<String> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
        let labels = labels.join(", ");
        let expected = [
            kind.as_str(),
            unit.as_str(),
            labels.as_str(),
            metric.meaning,
        ];
        assert_eq!(rows[metric.name], expected, "{}", metric.name);
    }
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    let text = document("dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let mut shown = 0;
    for target in targets.flatten() {
        let query = target["expr"].as_str().unwrap();
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let words = query
            .split(|it| !is_name(it))
            .filter(|word| word.contains('_'));
        let labels: Vec<&str> = METRICS
            .iter()
            .flat_map(|metric| metric.labels)
            .copied()
            .collect();
        for word in words.filter(|word| !labels.contains(word)) {
            let is_function = ["histogram_quantile", "__rate_interval"].contains(&word);
            let ends = ["", "_bucket", "_sum", "_count"];
            let is_metric = METRICS.iter().any(|metric| {
                let name = prometheus_name(metric);
                ends.iter().any(|end| format!("{name}{end}") == word)
            });
            assert!(is_metric || is_function, "{word} in {query}");
            shown += usize::from(is_metric);
        }
    }
    assert!(shown > 10, "{shown} metrics in the dashboard");
}

#[test]
fn every_flag_says_what_it_does() {
    for arg in command().get_arguments() {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.len() > 5, "{} has no help", arg.get_id());
    }
}

#[test]
fn every_variable_has_its_row() {
    let documented = first_cells(&document("CONFIGURATION.md"));
    for name in Environment::names().chain(REFERENCE_VARIABLES) {
        assert!(
            documented.contains(name),
            "{name} is not in doc/CONFIGURATION.md"
        );
    }
}

/// mountpoint-s3 1.24's variables, but for those of its build.
const REFERENCE_VARIABLES: [&str; 46] = [
    "UNSTABLE_MOUNTPOINT_MAX_BACKGROUND",
    "UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD",
    "UNSTABLE_MOUNTPOINT_CLONE_FUSE_FD",
    "UNSTABLE_MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE",
    "UNSTABLE_MOUNTPOINT_DISABLE_CACHE_CLEANUP",
    "UNSTABLE_MOUNTPOINT_CACHE_KEY",
    "UNSTABLE_MOUNTPOINT_PID_FILE",
    "UNSTABLE_CRT_EVENTLOOP_THREADS",
    "EXPERIMENTAL_MOUNTPOINT_NO_DOWNLOAD_INTEGRITY_VALIDATION",
    "EXPERIMENTAL_MOUNTPOINT_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "MOUNTPOINT_LOG",
    "AWS_MAX_ATTEMPTS",
    "AWS_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_CA_BUNDLE",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ACCOUNT_ID",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
    "AWS_DEFAULT_REGION",
    "AWS_LOGIN_CACHE_DIRECTORY",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "AWS_PROXY_NO_VERIFY_PEER",
    "AWS_CRT_S3_MEMORY_LIMIT_IN_GIB",
    "AWS_CRT_S3_MAX_PARTS_PENDING_READ",
    "AWS_CRT_USE_NON_FIPS_TLS_13",
    "AWS_COMMON_AVX2",
    "_RJEM_MALLOC_CONF",
];

/// The map and the pages of doc/internals, as paths below doc.
fn maps() -> Vec<String> {
    let folder = workspace().join("doc/internals");
    let pages = std::fs::read_dir(&folder).unwrap();
    let names = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
    let pages = names.filter(|name| name.ends_with(".md"));
    let mut maps: Vec<_> = pages.map(|name| format!("internals/{name}")).collect();
    assert!(!maps.is_empty(), "no page in {}", folder.display());
    maps.sort();
    maps.insert(0, "ARCHITECTURE.md".to_owned());
    maps
}

/// The text without its blocks of code and drawings.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The anchors that a document's headings have in GitHub's view.
fn anchors(text: &str) -> BTreeSet<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let letters = heading
            .chars()
            .filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        letters.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let all = ["README.md", "CHANGELOG.md"].map(str::to_owned).into_iter();
    let all = all.chain(committed("doc")).chain(committed("benchmark"));
    let mut checked = 0;
    for name in all.filter(|name| name.ends_with(".md")) {
        let path = workspace().join(&name);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let links = text.split("](").skip(1);
        for target in links.filter_map(|rest| rest.split(')').next()) {
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => path.clone(),
                file => path.with_file_name(file),
            };
            assert!(file.exists(), "{name} links to {target}");
            if !anchor.is_empty() {
                let there = anchors(&std::fs::read_to_string(&file).unwrap());
                assert!(there.contains(anchor), "{name}: no section {target}");
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked} links");
}

/// The texts in backquotes in a document, but for its blocks of code and drawings.
fn quoted(document: &str) -> Vec<String> {
    let text = prose(document);
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

/// Where the map and the pages may leave out the beginning of a path.
const SOURCE_ROOTS: [&str; 4] = [
    "",
    "mountpoint-fs/src",
    "mountpoint-client/src",
    "mountpoint-crt-sys/src",
];

#[test]
fn paths_in_the_map_exist() {
    for name in maps() {
        for path in quoted(&document(&name)) {
            let is_word = !path.is_empty() && !path.contains(char::is_whitespace);
            let is_plain = path
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "_-./".contains(it));
            let is_folder = path.trim_end_matches('/').contains('/') && path.ends_with('/');
            let is_path = path.ends_with(".rs") || is_folder;
            if is_word && is_plain && is_path && !path.starts_with(['/', '-']) {
                let mut places = SOURCE_ROOTS.iter().map(|root| workspace().join(root));
                let is_there = places.any(|root| root.join(&path).exists());
                assert!(is_there, "doc/{name}: there is no {path}");
            }
        }
    }
}

#[test]
fn constants_in_the_map_exist() {
    let files = ["mountpoint-fs", "mountpoint-client", "mountpoint-crt-sys"];
    let files = files.into_iter().flat_map(committed);
    let mut words = BTreeSet::new();
    for file in files.filter(|file| file.ends_with(".rs")) {
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        // One that was moved away and not committed yet has its words elsewhere.
        let text = std::fs::read_to_string(workspace().join(file)).unwrap_or_default();
        let code: String = text.lines().filter(is_code).collect::<Vec<_>>().join("\n");
        let all = code.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        words.extend(all.filter(|word| is_constant(word)).map(str::to_owned));
    }
    for name in maps() {
        let named = quoted(&document(&name));
        for constant in named.iter().filter(|word| is_constant(word)) {
            assert!(
                words.contains(constant),
                "doc/{name}: there is no {constant}"
            );
        }
    }
}

/// Whether a word is written as constants are.
fn is_constant(word: &str) -> bool {
    let is_capital = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
    word.len() > 2
        && word.starts_with(|it: char| it.is_ascii_uppercase())
        && word.chars().all(is_capital)
}

/// Bytes of measured results that the repository may hold: every clone fetches them.
const RESULTS_BYTES_MAX: u64 = 2_000_000;

/// Files below `folder` that the repository holds; what a run of one's own left there does not
/// count.
fn committed(folder: &str) -> Vec<String> {
    let git = std::process::Command::new("git")
        .args(["ls-files", "-z", folder])
        .current_dir(workspace())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&git.stderr);
    assert!(git.status.success(), "git ls-files: {said}");
    let names = String::from_utf8(git.stdout).unwrap();
    let names = names.split_terminator('\0').map(str::to_owned);
    names.collect()
}

/// Whether the report in the file's folder shows it; the report itself has to be linked.
fn is_in_report(file: &str) -> bool {
    let path = workspace().join(file);
    let name = path.file_name().unwrap().to_str().unwrap();
    let report = std::fs::read_to_string(path.with_file_name("report.md"));
    name != "report.md" && report.is_ok_and(|report| report.contains(&format!("]({name})")))
}

#[test]
fn results_are_those_that_documents_show() {
    let shown = document("BENCHMARKING.md");
    let files = committed("benchmark/results");
    let bytes = |file: &String| {
        workspace()
            .join(file)
            .metadata()
            .map_or(0, |file| file.len())
    };
    let total: u64 = files.iter().map(bytes).sum();
    assert!(
        total <= RESULTS_BYTES_MAX,
        "benchmark/results: {total} bytes"
    );
    let runs = files.iter().filter(|file| file.ends_with("/results.json"));
    assert_eq!(runs.count(), 1, "the newest run's figures, and no others");
    for file in &files {
        let kept = file.ends_with("/results.json") || file.ends_with("/latest.md");
        assert!(
            kept || shown.contains(file.as_str()) || is_in_report(file),
            "no document shows {file}"
        );
    }
}

/// Modules of `mountpoint-fs` from the top layer to the bottom; those of one row do not know each
/// other.
const LAYERS: [&[&str]; 13] = [
    &[
        "doctor",
        "indexer",
        "cache_command",
        "staged_command",
        "stats_command",
        "warmer",
    ],
    &["mount"],
    &["cli", "fuse"],
    &["fs"],
    &["namespace", "handle"],
    &["file"],
    &["read", "write"],
    &["mutate"],
    &["journal", "index", "cache"],
    &["memory"],
    &["disk_threads", "local_disk", "metrics", "operation"],
    &["config", "clock", "executor"],
    &["sync"],
];

fn sources(module: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![root.join(format!("{module}.rs"))];
    let mut to_visit = vec![root.join(module)];
    while let Some(directory) = to_visit.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                to_visit.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.retain(|path| path.exists());
    files
}

/// Source without comments and without the tests at its end.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let production = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    production
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_test(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.starts_with("test_")
        || path
            .components()
            .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

#[test]
fn layers_import_downwards_only() {
    for (level, modules) in LAYERS.iter().enumerate() {
        for module in *modules {
            let files = sources(module);
            assert!(!files.is_empty(), "no source for {module}");
            for path in files.iter().filter(|path| !is_test(path)) {
                let code = code(path);
                for above in LAYERS[..=level]
                    .iter()
                    .flat_map(|row| row.iter())
                    .filter(|above| *above != module)
                {
                    let upward = format!("crate::{above}::");
                    assert!(
                        !code.contains(&upward),
                        "{} imports {upward} from above",
                        path.display()
                    );
                }
            }
        }
    }
}

#[test]
fn each_edge_has_one_place() {
    let places: [(&str, &[&str]); 2] = [
        ("libc::E", &["fuse"]),
        ("env::var", &["mount/environment/"]),
    ];
    let all = LAYERS
        .iter()
        .flat_map(|row| row.iter())
        .flat_map(|module| sources(module));
    for path in all.filter(|path| !is_test(path)) {
        let code = code(&path);
        for (text, allowed) in places {
            let here = allowed
                .iter()
                .any(|place| path.to_str().unwrap().contains(&format!("src/{place}")));
            assert!(here || !code.contains(text), "{text} in {}", path.display());
        }
    }
}
