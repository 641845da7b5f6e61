//! Capabilities that servers are known to lack: one table, so that a gap is written down once and
//! seen in every report.

/// Something S3 does and a server may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// `If-Match` and `If-None-Match` on PutObject.
    ConditionalPut,
    /// `If-Match` and `If-None-Match` on CompleteMultipartUpload.
    ConditionalComplete,
    /// `If-Match` on DeleteObject.
    ConditionalDelete,
    /// The version of a copy's source is checked.
    CopySourceCondition,
    /// `If-None-Match` on CopyObject.
    CopyDestinationCondition,
    /// A copy with new headers has none of the source's.
    CopyDropsHeaders,
    /// A copy of an object to itself that changes nothing is refused.
    CopyToItselfRefused,
    /// A range of an object becomes a part.
    CopyPart,
    /// CRC-32C of a PutObject is verified.
    Crc32c,
    /// CRC-64/NVME of a PutObject is verified.
    Crc64Nvme,
    /// Checksums of parts are verified.
    PartChecksums,
    /// Parts below 5 MiB that are not the last are refused.
    SmallPartsRefused,
    /// Parts named out of order, or by a replaced part's ETag, are refused.
    PartListChecked,
    /// ListMultipartUploads with a prefix.
    ListUploads,
    /// Storage classes other than `STANDARD` are stored and told.
    StorageClasses,
    /// Keys with control characters.
    ControlCharacters,
    /// Keys with components `.` and `..`.
    DotComponents,
    /// Keys with `//`, or with `/` at the beginning of a component.
    EmptyComponents,
    /// Objects with bytes whose key ends with `/`.
    TrailingSlash,
    /// An object `a` beside an object `a/b`.
    ObjectAndPrefix,
    /// Components of more than 255 bytes.
    LongComponents,
    /// A listing in UTF-8 byte order.
    OrderedListing,
    /// `start-after`.
    StartAfter,
    /// A listing by any prefix, not only by whole directories, and with any delimiter.
    AnyPrefix,
    /// `max-keys=0`.
    MaxKeysZero,
    /// RenameObject.
    Rename,
    /// PutObject behind the end of an object.
    Append,
}

/// One thing that is lacking, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The capability that the server lacks.
    pub capability: Capability,
    /// Since when, or why; for the report.
    pub reason: &'static str,
}

/// Capabilities of a server: all, but for the gaps.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    gaps: Vec<Gap>,
}

impl Capabilities {
    /// No gaps at all, not even the ones of a general purpose bucket.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// The capabilities that `server` is known to have.
    #[must_use]
    pub fn of(server: Server) -> Self {
        Self {
            gaps: server.gaps().to_vec(),
        }
    }

    /// Adds a gap.
    #[must_use]
    pub fn without(mut self, capability: Capability, reason: &'static str) -> Self {
        self.gaps.push(Gap { capability, reason });
        self
    }

    /// The gap, if the server lacks `capability`.
    #[must_use]
    pub fn gap(&self, capability: Capability) -> Option<Gap> {
        self.gaps
            .iter()
            .find(|gap| gap.capability == capability)
            .copied()
    }

    /// Whether the server can do it.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.gap(capability).is_none()
    }
}

/// Servers the suite is run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// `SimClient`, a general purpose bucket.
    Sim,
    /// `SimClient`, a directory bucket.
    SimDirectory,
    /// The embedded server of this crate.
    Embedded,
    /// A directory bucket of the embedded server.
    EmbeddedDirectory,
    /// minio.
    Minio,
    /// versitygw on a POSIX directory.
    Versitygw,
    /// garage.
    Garage,
    /// gofakes3.
    Gofakes3,
}

impl Server {
    fn gaps(self) -> &'static [Gap] {
        match self {
            Self::Sim | Self::Embedded => &GENERAL_PURPOSE,
            Self::SimDirectory | Self::EmbeddedDirectory => &DIRECTORY,
            Self::Minio => &MINIO,
            Self::Versitygw => &VERSITYGW,
            Self::Garage => &GARAGE,
            Self::Gofakes3 => &GOFAKES3,
        }
    }
}

const fn gap(capability: Capability, reason: &'static str) -> Gap {
    Gap { capability, reason }
}

const NO_RENAMING: Gap = gap(Capability::Rename, "only directory buckets rename");

const NO_APPENDING: Gap = gap(Capability::Append, "only directory buckets append");

const GENERAL_PURPOSE: [Gap; 2] = [NO_RENAMING, NO_APPENDING];

const DIRECTORY: [Gap; 3] = [
    gap(
        Capability::OrderedListing,
        "directory buckets list in no order",
    ),
    gap(
        Capability::StartAfter,
        "directory buckets have no start-after",
    ),
    gap(
        Capability::AnyPrefix,
        "directory buckets list by whole directories",
    ),
];

const MINIO: [Gap; 12] = [
    NO_RENAMING,
    NO_APPENDING,
    gap(
        Capability::StorageClasses,
        "minio knows STANDARD and REDUCED_REDUNDANCY only",
    ),
    gap(
        Capability::ObjectAndPrefix,
        "minio hides what is below an object's name in listings",
    ),
    gap(
        Capability::TrailingSlash,
        "minio ends a listing after a page that ends with such a name",
    ),
    gap(
        Capability::LongComponents,
        "a component is a file name of at most 255 bytes",
    ),
    gap(
        Capability::ListUploads,
        "minio takes the prefix of ListMultipartUploads for a whole key",
    ),
    gap(
        Capability::ConditionalDelete,
        "minio ignores If-Match on DELETE",
    ),
    gap(
        Capability::CopyDestinationCondition,
        "minio ignores If-None-Match on copies",
    ),
    gap(
        Capability::ControlCharacters,
        "minio refuses some control characters in names",
    ),
    gap(
        Capability::DotComponents,
        "minio refuses names with . and .. components",
    ),
    gap(Capability::EmptyComponents, "minio refuses names with //"),
];

const VERSITYGW: [Gap; 12] = [
    gap(
        Capability::CopyDropsHeaders,
        "versitygw 1.8 keeps the source's Cache-Control where the request names none",
    ),
    NO_RENAMING,
    NO_APPENDING,
    gap(
        Capability::CopyDestinationCondition,
        "versitygw ignores If-None-Match on copies",
    ),
    gap(
        Capability::StorageClasses,
        "versitygw stores no storage classes",
    ),
    gap(
        Capability::ControlCharacters,
        "names are files of a POSIX file system",
    ),
    gap(
        Capability::DotComponents,
        "names are files of a POSIX file system",
    ),
    gap(
        Capability::EmptyComponents,
        "names are files of a POSIX file system",
    ),
    gap(
        Capability::TrailingSlash,
        "a name that ends with / is a directory and has no bytes",
    ),
    gap(
        Capability::ObjectAndPrefix,
        "a name is a file or a directory",
    ),
    gap(
        Capability::LongComponents,
        "a component is a file name of at most 255 bytes",
    ),
    gap(
        Capability::CopyToItselfRefused,
        "versitygw copies an object to itself",
    ),
];

const GARAGE: [Gap; 8] = [
    NO_RENAMING,
    NO_APPENDING,
    gap(
        Capability::ConditionalPut,
        "garage 2 ignores conditions of PutObject",
    ),
    gap(
        Capability::ConditionalComplete,
        "garage 2 ignores conditions of writes",
    ),
    gap(
        Capability::ConditionalDelete,
        "garage 2 ignores conditions of DELETE",
    ),
    gap(
        Capability::CopyDestinationCondition,
        "garage 2 ignores conditions of writes",
    ),
    gap(Capability::StorageClasses, "garage has one storage class"),
    gap(Capability::Crc64Nvme, "garage 2 knows no CRC-64/NVME"),
];

const GOFAKES3: [Gap; 12] = [
    NO_RENAMING,
    NO_APPENDING,
    gap(
        Capability::ConditionalPut,
        "gofakes3 ignores If-Match of PutObject",
    ),
    gap(
        Capability::ConditionalComplete,
        "gofakes3 ignores conditions of writes",
    ),
    gap(
        Capability::ConditionalDelete,
        "gofakes3 ignores conditions of DELETE",
    ),
    gap(
        Capability::CopySourceCondition,
        "gofakes3 ignores conditions of copies",
    ),
    gap(
        Capability::CopyDestinationCondition,
        "gofakes3 ignores conditions of copies",
    ),
    gap(
        Capability::CopyToItselfRefused,
        "gofakes3 copies an object to itself",
    ),
    gap(Capability::Crc32c, "gofakes3 verifies no checksums"),
    gap(Capability::Crc64Nvme, "gofakes3 verifies no checksums"),
    gap(Capability::PartChecksums, "gofakes3 verifies no checksums"),
    gap(Capability::StorageClasses, "gofakes3 has one storage class"),
];
