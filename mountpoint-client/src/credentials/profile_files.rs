//! The fault of a profile, for the text of an error: the SDK's texts name neither the files nor the
//! profiles in them.
//!
//! Reads the files of profiles, nothing else. Never shows the value of a key.

use std::path::PathBuf;

use aws_config::profile::ProfileSet;

use super::error_text::chain_text;

/// What keeps a profile from giving credentials, if the files tell: that of `profile`, or of
/// `AWS_PROFILE` without one. `None` if nobody has named a profile and the default one has nothing.
pub(super) async fn problem_of(profile: Option<&str>) -> Option<String> {
    // The real files and the real environment, both of which the SDK reads.
    let (disk, environment, files) = Default::default();
    let name = profile.map(|name| name.to_owned().into());
    let loaded = aws_config::profile::load(&disk, &environment, &files, name).await;
    match loaded {
        Ok(profiles) => problem(&profiles, &paths()),
        Err(error) => Some(chain_text(&error)),
    }
}

/// The files that were read.
fn paths() -> String {
    let path = |variable, default: &str| {
        #[expect(
            clippy::disallowed_methods,
            reason = "the SDK reads these variables itself; here they are shown"
        )]
        let named = std::env::var_os(variable).map(PathBuf::from);
        named.map_or_else(|| default.to_owned(), |path| path.display().to_string())
    };
    let config = path("AWS_CONFIG_FILE", "~/.aws/config");
    let credentials = path("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials");
    format!("{config} and {credentials}")
}

/// What keeps the selected profile from giving credentials.
pub(crate) fn problem(profiles: &ProfileSet, files: &str) -> Option<String> {
    let selected = profiles.selected_profile();
    let mut name = selected;
    let mut role = None;
    for _ in 0..ROLES_MAX {
        let Some(profile) = profiles.get_profile(name) else {
            let there = names(profiles);
            return match role {
                Some(role) => Some(format!(
                    "profile \"{role}\" has the source_profile \"{name}\", which is not in {files} ({there})"
                )),
                None if name == DEFAULT => None,
                None => Some(format!("profile \"{name}\" is not in {files} ({there})")),
            };
        };
        let has = |property| profile.get(property).is_some_and(|value| !value.is_empty());
        let has_key = has("aws_access_key_id");
        if has_key != has("aws_secret_access_key") {
            let (found, other) = match has_key {
                true => ("aws_access_key_id", "aws_secret_access_key"),
                false => ("aws_secret_access_key", "aws_access_key_id"),
            };
            return Some(format!(
                "profile \"{name}\" has an {found} and no {other} in {files}"
            ));
        }
        match profile.get("sso_session") {
            Some(session) if profiles.sso_session(session).is_none() => {
                return Some(format!(
                    "profile \"{name}\" has the sso_session \"{session}\", of which {files} have no section"
                ));
            }
            _ => (),
        }
        let source = profile.get("source_profile").filter(|_| has("role_arn"));
        match source {
            Some(source) if source != name => (role, name) = (Some(name), source),
            _ if SOURCES.iter().any(|property| has(property)) => return None,
            _ if name == DEFAULT && role.is_none() => return None,
            _ => {
                let what = match has("role_arn") {
                    true => "a role_arn and no source_profile, credential_source or keys",
                    false => "no keys, no role_arn, no sso_session and no credential_process",
                };
                return Some(format!("profile \"{name}\" has {what} in {files}"));
            }
        }
    }
    Some(format!(
        "profile \"{selected}\" has a source_profile that leads to no keys in {files}"
    ))
}

/// The profiles that are there, not too many.
fn names(profiles: &ProfileSet) -> String {
    let mut names: Vec<&str> = profiles.profiles().collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMES_SHOWN);
    names.truncate(NAMES_SHOWN);
    match (names.is_empty(), more) {
        (true, _) => "which have no profiles".to_owned(),
        (false, 0) => format!("which have: {}", names.join(", ")),
        (false, more) => format!("which have: {} and {more} more", names.join(", ")),
    }
}

/// The profile of a user who names none.
const DEFAULT: &str = "default";

/// Properties with which a profile may have credentials of its own.
const SOURCES: [&str; 7] = [
    "aws_access_key_id",
    "credential_process",
    "credential_source",
    "login_session",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
];

/// Most profiles that take their keys from each other, as far as they are looked at.
const ROLES_MAX: usize = 16;

/// Most names of profiles in an error.
const NAMES_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};

    use super::*;

    async fn problem_in(text: &str, name: &str) -> Option<String> {
        let files = EnvConfigFiles::builder()
            .with_contents(EnvConfigFileKind::Config, text)
            .build();
        let (disk, environment) = Default::default();
        let name = Some(name.to_owned().into());
        let loaded = aws_config::profile::load(&disk, &environment, &files, name).await;
        problem(&loaded.unwrap(), "FILES")
    }

    const CONFIG: &str = "[default]\nregion = r\n\
         [profile keys]\naws_access_key_id = AK\naws_secret_access_key = hush\n\
         [profile region]\nregion = r\n\
         [profile half]\naws_access_key_id = AK\n\
         [profile role]\nrole_arn = r\nsource_profile = keys\n\
         [profile lost]\nrole_arn = r\nsource_profile = gone\n\
         [profile poor]\nrole_arn = r\nsource_profile = region\n\
         [profile bare]\nrole_arn = r\n\
         [profile one]\nrole_arn = r\nsource_profile = other\n\
         [profile other]\nrole_arn = r\nsource_profile = one\n\
         [profile sso]\nsso_session = corp\n\
         [profile nosso]\nsso_session = none\n\
         [sso-session corp]\nsso_region = r\n";

    #[tokio::test]
    async fn what_a_profile_lacks_is_named_with_the_files_and_the_profiles_that_are_there() {
        const THERE: &str =
            "(which have: bare, default, half, keys, lost, nosso, one, other and 4 more)";
        let nothing = "\"region\" has no keys, no role_arn, no sso_session and no credential_process in FILES";
        for (name, expected) in [
            ("keys", None),
            ("role", None),
            ("sso", None),
            ("default", None),
            ("nope", Some(format!("\"nope\" is not in FILES {THERE}"))),
            ("region", Some(nothing.to_owned())),
            ("poor", Some(nothing.to_owned())),
            (
                "lost",
                Some(format!(
                    "\"lost\" has the source_profile \"gone\", which is not in FILES {THERE}"
                )),
            ),
        ] {
            let found = problem_in(CONFIG, name).await;
            let expected = expected.map(|text| format!("profile {text}"));
            assert_eq!(found, expected, "{name}");
        }
        let found = problem_in("", "nope").await;
        let expected = "profile \"nope\" is not in FILES (which have no profiles)";
        assert_eq!(found.as_deref(), Some(expected));
    }

    #[tokio::test]
    async fn a_profile_that_is_incomplete_is_told_what_it_lacks() {
        for (name, expected) in [
            ("half", "an aws_access_key_id and no aws_secret_access_key"),
            (
                "bare",
                "a role_arn and no source_profile, credential_source or keys",
            ),
            ("one", "a source_profile that leads to no keys"),
        ] {
            let found = problem_in(CONFIG, name).await;
            let expected = format!("profile \"{name}\" has {expected} in FILES");
            assert_eq!(found, Some(expected));
        }
        let found = problem_in(CONFIG, "nosso").await;
        let expected =
            "profile \"nosso\" has the sso_session \"none\", of which FILES have no section";
        assert_eq!(found.as_deref(), Some(expected));
    }
}
