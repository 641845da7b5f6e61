//! The source of credentials, as a short text for a person.
//!
//! Derived from the marks that the SDK's providers leave on credentials. Holds no secret.

use aws_config::imds;
use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature as Mark;

/// Where the credentials of one cache can come from.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The profile that the user named.
    pub(super) profile: Option<String>,
    /// Knows the name of the instance's role.
    pub(super) metadata: Option<imds::Client>,
}

impl Sources {
    /// A short text: `environment`, `profile dev (SSO)`, `instance role web`.
    pub(super) async fn describe(&self, keys: &Credentials) -> String {
        let marks = keys
            .get_property::<Vec<Mark>>()
            .map_or(&[][..], Vec::as_slice);
        if marks.contains(&Mark::CredentialsProfile) {
            let profile = match &self.profile {
                Some(name) => name.clone(),
                None => selected_profile().await,
            };
            let how = of_profile(marks, keys.expiry().is_some());
            return format!("profile {profile} ({how})");
        }
        if marks.contains(&Mark::CredentialsImds) {
            return match self.role().await {
                Some(role) => format!("instance role {role}"),
                None => "instance role".to_owned(),
            };
        }
        let text = marks.iter().find_map(|mark| match mark {
            Mark::CredentialsEnvVars => Some("environment"),
            Mark::CredentialsHttp => Some("container credentials service"),
            Mark::CredentialsProfileStsWebIdToken
            | Mark::CredentialsEnvVarsStsWebIdToken
            | Mark::CredentialsStsAssumeRoleWebId => Some("web identity token"),
            _ => None,
        });
        text.unwrap_or("given keys").to_owned()
    }

    async fn role(&self) -> Option<String> {
        let answer = self.metadata.as_ref()?.get(ROLE_PATH).await.ok()?;
        let role = answer.as_ref().lines().next()?.trim();
        (!role.is_empty()).then(|| role.to_owned())
    }
}

/// How a profile comes by its credentials. A role that is assumed leaves no mark of its own, only
/// an end.
fn of_profile(marks: &[Mark], ends: bool) -> &'static str {
    let marked = marks.iter().find_map(|mark| match mark {
        Mark::CredentialsSso => Some("SSO"),
        Mark::CredentialsProcess => Some("credential_process"),
        Mark::CredentialsProfileStsWebIdToken => Some("web identity token"),
        Mark::CredentialsEnvVars => Some("environment"),
        Mark::CredentialsImds => Some("instance role"),
        Mark::CredentialsHttp => Some("container credentials service"),
        _ => None,
    });
    marked.unwrap_or(if ends { "assumed role" } else { "keys" })
}

/// The profile that the SDK's own settings select.
async fn selected_profile() -> String {
    // The real files and the real environment, both of which the SDK reads.
    let (files, environment, paths) = Default::default();
    let profiles = aws_config::profile::load(&files, &environment, &paths, None).await;
    profiles.map_or_else(
        |_| "default".to_owned(),
        |profiles| profiles.selected_profile().to_owned(),
    )
}

const ROLE_PATH: &str = "/latest/meta-data/iam/security-credentials/";
