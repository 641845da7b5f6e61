//! Values of variables, each parsed as what it is to be.

use std::fmt;
use std::str::FromStr;

use mountpoint_client::network::ProxySettings;

use super::names::{
    ENDPOINT_URL, HTTP_PROXY, HTTPS_PROXY, NO_PROXY, Names, OTLP_TEMPORALITY, WITHOUT_EFFECT,
};
use crate::cli::parse_endpoint;

/// A view of the environment that collects warnings.
pub(super) struct Variables<'a> {
    pub(super) find: &'a dyn Fn(&str) -> Option<String>,
    pub(super) warnings: Vec<String>,
}

impl Variables<'_> {
    /// The value of the first name that is set, with that name.
    fn named(&self, names: &'static Names) -> Option<(&'static str, String)> {
        names
            .iter()
            .find_map(|name| Some((*name, (self.find)(name)?)))
    }

    pub(super) fn text(&self, names: &'static Names) -> Option<String> {
        self.named(names).map(|(_, value)| value)
    }

    /// The name in use, for a message.
    pub(super) fn used(&self, names: &'static Names) -> &'static str {
        self.named(names).map_or(names[0], |(name, _)| name)
    }

    /// A setting whose name changed; two names with two values cause a warning.
    fn renamed(&mut self, names: &'static Names) -> Option<(&'static str, String)> {
        let (name, value) = self.named(names)?;
        for other in names.iter().filter(|other| **other != name) {
            if (self.find)(other).is_some_and(|other| other != value) {
                self.warnings.push(format!(
                    "{name}={value} is used and {other}, its old name, is not: set one of them"
                ));
            }
        }
        Some((name, value))
    }

    pub(super) fn renamed_text(&mut self, names: &'static Names) -> Option<String> {
        self.renamed(names).map(|(_, value)| value)
    }

    pub(super) fn number<T: FromStr + PartialOrd + fmt::Display>(
        &mut self,
        names: &'static Names,
        min: T,
        max: T,
    ) -> Result<Option<T>, String> {
        let Some((name, value)) = self.renamed(names) else {
            return Ok(None);
        };
        match value.parse::<T>() {
            Ok(number) if number >= min && number <= max => Ok(Some(number)),
            _ => Err(format!(
                "{name}={value} is not a number from {min} to {max}"
            )),
        }
    }

    pub(super) fn choice<T: FromStr<Err = String> + Default>(
        &self,
        names: &'static Names,
    ) -> Result<T, String> {
        let Some((name, value)) = self.named(names) else {
            return Ok(T::default());
        };
        value
            .parse()
            .map_err(|why| format!("{name}={value} cannot be used: {why}"))
    }

    pub(super) fn flag(&mut self, names: &'static Names) -> Result<Option<bool>, String> {
        match self.renamed(names) {
            None => Ok(None),
            Some((name, value)) => match value.to_ascii_lowercase().as_str() {
                "0" | "false" => Ok(Some(false)),
                "1" | "true" => Ok(Some(true)),
                _ => Err(format!("{name}={value} is neither true nor false")),
            },
        }
    }

    pub(super) fn is_cumulative(&mut self) -> Result<Option<bool>, String> {
        let Some((name, value)) = self.renamed(&OTLP_TEMPORALITY) else {
            return Ok(None);
        };
        match value.to_ascii_lowercase().as_str() {
            "cumulative" => Ok(Some(true)),
            "delta" => Ok(Some(false)),
            _ => Err(format!("{name}={value} is neither cumulative nor delta")),
        }
    }

    /// No message contains the value: it may hold a password.
    pub(super) fn endpoint_url(&self) -> Option<Result<String, String>> {
        let (name, value) = self.named(&ENDPOINT_URL)?;
        Some(parse_endpoint(&value).map_err(|why| format!("{name}: {why}")))
    }

    pub(super) fn proxy(&self) -> Result<ProxySettings, String> {
        let (http, https) = (self.text(&HTTP_PROXY), self.text(&HTTPS_PROXY));
        let no_proxy = self.text(&NO_PROXY);
        ProxySettings::parse(http.as_deref(), https.as_deref(), no_proxy.as_deref())
    }

    pub(super) fn warn_of_those_without_effect(&mut self) {
        for (name, why) in WITHOUT_EFFECT {
            if (self.find)(name).is_some() {
                self.warnings.push(format!("{name} has no effect: {why}"));
            }
        }
    }
}
