//! Whether this machine is an EC2 instance, and of which type.
//!
//! The firmware tells at once on Nitro instances: it names EC2 as the maker and the type as the
//! product. The metadata service is asked only where the firmware leaves it open.

use std::path::Path;
use std::time::Duration;

use aws_config::imds;

/// Whether the metadata service is asked for what a start can do without: region and instance type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataUse {
    /// Unless the machine is certainly no EC2 instance.
    #[default]
    Auto,
    /// In any case: the user has named the service's address.
    Always,
    /// Not at all.
    Never,
}

/// The kind of machine that the firmware names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Firmware {
    /// An EC2 instance, with its type if it is told.
    Ec2(Option<String>),
    /// Another machine.
    Other,
    /// Nothing: a container or a small virtual machine.
    Silent,
}

impl MetadataUse {
    /// Whether to ask, on this machine.
    pub(crate) fn asks(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => Firmware::read(Path::new(FIRMWARE)) != Firmware::Other,
        }
    }
}

/// The type of this instance, as `m5.large`; `None` elsewhere, or if nobody tells within a moment.
pub(crate) async fn instance_type(
    metadata_use: MetadataUse,
    metadata: &imds::Client,
) -> Option<String> {
    let firmware = Firmware::read(Path::new(FIRMWARE));
    let patience = match (metadata_use, firmware) {
        (MetadataUse::Never, _) => return None,
        (MetadataUse::Auto, Firmware::Ec2(Some(instance_type))) => return Some(instance_type),
        (MetadataUse::Auto, Firmware::Other) => return None,
        (MetadataUse::Auto, Firmware::Silent) => DOUBTFUL_MAX,
        (MetadataUse::Always, _) | (MetadataUse::Auto, Firmware::Ec2(None)) => CERTAIN_MAX,
    };
    let answer = tokio::time::timeout(patience, metadata.get(TYPE_PATH)).await;
    let answer = answer.ok()?.ok()?;
    Some(answer.as_ref().trim().to_owned())
}

impl Firmware {
    fn read(folder: &Path) -> Self {
        let text = |name: &str| {
            let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        let maker = text("sys_vendor");
        if maker == "Amazon EC2" {
            let product = text("product_name");
            return Self::Ec2(looks_like_type(&product).then_some(product));
        }
        // The older instances run on Xen, and only the version of its firmware names Amazon.
        if text("bios_version").to_ascii_lowercase().contains("amazon") {
            return Self::Ec2(None);
        }
        if maker.is_empty() {
            Self::Silent
        } else {
            Self::Other
        }
    }
}

fn looks_like_type(product: &str) -> bool {
    product
        .split_once('.')
        .is_some_and(|(family, size)| !family.is_empty() && !size.is_empty())
}

const FIRMWARE: &str = "/sys/class/dmi/id";
const TYPE_PATH: &str = "/latest/meta-data/instance-type";
/// On EC2 the answer comes within milliseconds; this is for a machine under load.
const CERTAIN_MAX: Duration = Duration::from_secs(1);
/// Where it is not known whether there is anybody to answer. A start must not take longer than 0.2
/// s for it.
const DOUBTFUL_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_firmware_tells() {
        for (files, expected) in [
            (
                &[
                    ("sys_vendor", "Amazon EC2\n"),
                    ("product_name", "m5.large\n"),
                ][..],
                Firmware::Ec2(Some("m5.large".to_owned())),
            ),
            (
                &[("sys_vendor", "Amazon EC2"), ("product_name", "")],
                Firmware::Ec2(None),
            ),
            (
                &[("sys_vendor", "Xen"), ("bios_version", "4.11.amazon")],
                Firmware::Ec2(None),
            ),
            (
                &[("sys_vendor", "Dell Inc."), ("product_name", "PowerEdge")],
                Firmware::Other,
            ),
            (&[("sys_vendor", "QEMU")], Firmware::Other),
            (&[], Firmware::Silent),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            assert_eq!(Firmware::read(folder.path()), expected, "{files:?}");
        }
    }

    #[test]
    fn words_of_the_user_win() {
        assert!(MetadataUse::Always.asks());
        assert!(!MetadataUse::Never.asks());
    }
}
