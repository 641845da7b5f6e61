//! The endpoint of S3 that `~/.aws/config` names, as the SDKs of AWS find it.

use aws_config::profile::ProfileSet;
use aws_runtime::env_config::property::PropertiesKey;

/// The profile's settings about endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSettings {
    /// `endpoint_url`: that of `s3` in the profile's `[services …]`, else the profile's own.
    pub url: Option<String>,
    /// `ignore_configured_endpoint_urls`: neither files nor variables count.
    pub ignores_urls: bool,
}

impl EndpointSettings {
    /// The settings of a profile; of the selected one without a name. None if the files cannot be
    /// read, which the search for credentials reports.
    #[must_use]
    pub fn of_profile(profile: Option<&str>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let Ok(runtime) = runtime else {
            return Self::default();
        };
        // The real files and the real environment, both of which the SDK reads.
        let (files, environment, paths) = Default::default();
        let name = profile.map(|name| name.to_owned().into());
        let loaded = aws_config::profile::load(&files, &environment, &paths, name);
        runtime
            .block_on(loaded)
            .map_or_else(|_| Self::default(), |profiles| Self::of(&profiles))
    }

    /// The settings of the selected profile.
    pub(crate) fn of(profiles: &ProfileSet) -> Self {
        let text = |name| profiles.get(name).filter(|value: &&str| !value.is_empty());
        let of_service = || {
            let key = PropertiesKey::builder()
                .section_key("services")
                .section_name(text("services")?)
                .property_name("s3")
                .sub_property_name("endpoint_url")
                .build();
            let url = profiles.other_sections().get(&key.ok()?);
            url.filter(|url| !url.is_empty()).cloned()
        };
        let ignores = text("ignore_configured_endpoint_urls");
        Self {
            url: of_service().or_else(|| text("endpoint_url").map(str::to_owned)),
            ignores_urls: ignores.is_some_and(|value| value.eq_ignore_ascii_case("true")),
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};

    use super::*;

    /// The settings of the profile `chosen` in a configuration file.
    async fn settings(text: &str) -> EndpointSettings {
        let files = EnvConfigFiles::builder()
            .with_contents(EnvConfigFileKind::Config, text)
            .build();
        let (disk, environment) = Default::default();
        let name = Some("chosen".into());
        let loaded = aws_config::profile::load(&disk, &environment, &files, name);
        EndpointSettings::of(&loaded.await.unwrap())
    }

    #[tokio::test]
    async fn the_service_wins_over_the_profile_and_other_profiles_do_not_count() {
        let url = |text: &str| Some(text.to_owned());
        for (text, expected) in [
            ("[profile chosen]\nregion = r", None),
            ("[profile chosen]\nendpoint_url =", None),
            ("[default]\nendpoint_url = http://d", None),
            ("[profile chosen]\nendpoint_url = http://p", url("http://p")),
            (
                "[profile chosen]\nservices = mine\nendpoint_url = http://p\n\
                 [services mine]\ns3 =\n  endpoint_url = http://s",
                url("http://s"),
            ),
            (
                "[profile chosen]\nservices = mine\nendpoint_url = http://p\n\
                 [services mine]\ndynamodb =\n  endpoint_url = http://s",
                url("http://p"),
            ),
            (
                "[profile chosen]\nservices = none\n[services mine]\ns3 =\n  endpoint_url = http://s",
                None,
            ),
        ] {
            let found = settings(text).await;
            assert_eq!((found.url, found.ignores_urls), (expected, false), "{text}");
        }
        let text =
            "[profile chosen]\nendpoint_url = http://p\nignore_configured_endpoint_urls = TRUE";
        assert!(settings(text).await.ignores_urls);
    }
}
