//! Files of an inventory in Parquet, which name their columns themselves.
//!
//! Rows are read a few thousand at a time, and a page of each column: memory does not grow with the
//! file. Keys are not URL-encoded here, unlike in CSV.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{
    ChunkReader, FileReader as _, Length, RowGroupReader, SerializedFileReader,
};
use parquet::schema::types::SchemaDescriptor;

use super::RowError;
use super::object::RowObject;
use crate::index::IndexEntry;

/// The first bytes of a file in Parquet.
pub(super) const MAGIC: &[u8] = b"PAR1";

/// Whether the file at `path` is in Parquet.
pub(super) fn is_parquet(path: &Path) -> bool {
    let mut magic = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4).read_to_end(&mut magic));
    read.is_ok() && magic == MAGIC
}

/// Hands out every object under `prefix` of the file at `path`.
pub(super) fn read(
    path: &Path,
    prefix: &str,
    take_in: &mut impl FnMut(IndexEntry) -> Result<(), String>,
) -> Result<(), RowError> {
    // The crate asserts some of what a damaged file may break. Nothing of it is used after that.
    let read = catch_unwind(AssertUnwindSafe(|| read_rows(path, prefix, take_in)));
    read.unwrap_or_else(|_| Err(RowError::File(DAMAGED.to_owned())))
}

fn read_rows(
    path: &Path,
    prefix: &str,
    take_in: &mut impl FnMut(IndexEntry) -> Result<(), String>,
) -> Result<(), RowError> {
    let broken = |error: ParquetError| RowError::File(broken(&error));
    let file = File::open(path).map_err(|error| RowError::File(error.to_string()))?;
    let file_len = Length::len(&file);
    let reader = SerializedFileReader::new(BoundedFile(file)).map_err(broken)?;
    let columns = ParquetColumns::of(reader.metadata().file_metadata().schema_descr());
    let columns = columns.map_err(RowError::File)?;
    for group in reader.metadata().row_groups() {
        check_places(group, file_len).map_err(RowError::File)?;
    }
    let mut before = 0;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(broken)?;
        let rows = group.metadata().num_rows();
        let rows = u64::try_from(rows).map_err(|_| RowError::File(DAMAGED.to_owned()))?;
        let mut open = OpenColumns::of(&*group, &columns).map_err(RowError::File)?;
        let mut done = 0;
        while done < rows {
            let count = usize::try_from(rows - done).unwrap_or(usize::MAX);
            let batch = open.next(count.min(BATCH_ROWS)).map_err(RowError::File)?;
            for row in batch {
                done += 1;
                let at = |what: &str| RowError::Row(before + done, what.to_owned());
                let entry = row.entry(columns.tick).map_err(at)?;
                if let Some(entry) = entry.filter(|entry| entry.key.starts_with(prefix)) {
                    take_in(entry).map_err(RowError::Outside)?;
                }
            }
        }
        before += rows;
    }
    Ok(())
}

/// Checks that the columns of a row group are in the file.
fn check_places(group: &RowGroupMetaData, file_len: u64) -> Result<(), String> {
    for column in group.columns() {
        let data = u64::try_from(column.data_page_offset());
        let dictionary = u64::try_from(column.dictionary_page_offset().unwrap_or_default());
        let len = u64::try_from(column.compressed_size());
        let (Ok(data), Ok(_), Ok(len)) = (data, dictionary, len) else {
            return Err(DAMAGED.to_owned());
        };
        if data > file_len || len > file_len {
            return Err(DAMAGED.to_owned());
        }
    }
    Ok(())
}

/// The defect of a file, for the user.
fn broken(error: &ParquetError) -> String {
    match error {
        ParquetError::NYI(what) | ParquetError::General(what)
            if what.contains("Disabled feature") =>
        {
            "its pages are compressed by another method than Snappy, which S3 uses".to_owned()
        }
        error => format!("{DAMAGED}: {error}"),
    }
}

/// Places of the columns.
#[derive(Debug)]
struct ParquetColumns {
    key: usize,
    size: usize,
    last_modified: usize,
    etag: usize,
    storage_class: Option<usize>,
    is_latest: Option<usize>,
    is_delete_marker: Option<usize>,
    /// The unit of times.
    tick: TimeTick,
}

#[derive(Clone, Copy, Debug)]
enum TimeTick {
    Millisecond,
    Microsecond,
}

impl ParquetColumns {
    fn of(schema: &SchemaDescriptor) -> Result<Self, String> {
        let place = |name: &str| {
            let mut columns = schema.columns().iter();
            columns.position(|column| column.path().string().eq_ignore_ascii_case(name))
        };
        let needed = |name: &str| {
            place(name).ok_or_else(|| {
                format!("the inventory has no column {name}: it needs key, size, last_modified_date and e_tag")
            })
        };
        let last_modified = needed("last_modified_date")?;
        let column = schema.column(last_modified);
        let tick = match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::Timestamp(time)), _) if time.unit == TimeUnit::MILLIS => {
                TimeTick::Millisecond
            }
            (Some(LogicalType::Timestamp(time)), _) if time.unit == TimeUnit::MICROS => {
                TimeTick::Microsecond
            }
            (None, ConvertedType::TIMESTAMP_MILLIS) => TimeTick::Millisecond,
            (None, ConvertedType::TIMESTAMP_MICROS) => TimeTick::Microsecond,
            _ => {
                return Err("the column last_modified_date has no times in milliseconds".to_owned());
            }
        };
        Ok(Self {
            key: needed("key")?,
            size: needed("size")?,
            last_modified,
            etag: needed("e_tag")?,
            storage_class: place("storage_class"),
            is_latest: place("is_latest"),
            is_delete_marker: place("is_delete_marker"),
            tick,
        })
    }
}

/// The columns of a row group.
struct OpenColumns {
    key: ColumnValues<ByteArrayType>,
    size: ColumnValues<Int64Type>,
    last_modified: ColumnValues<Int64Type>,
    etag: ColumnValues<ByteArrayType>,
    storage_class: Option<ColumnValues<ByteArrayType>>,
    is_latest: Option<ColumnValues<BoolType>>,
    is_delete_marker: Option<ColumnValues<BoolType>>,
}

impl OpenColumns {
    fn of(group: &dyn RowGroupReader, columns: &ParquetColumns) -> Result<Self, String> {
        let optional = |place: Option<usize>| {
            let column = place.map(|place| ColumnValues::open(group, place));
            column.transpose()
        };
        Ok(Self {
            key: ColumnValues::open(group, columns.key)?,
            size: ColumnValues::open(group, columns.size)?,
            last_modified: ColumnValues::open(group, columns.last_modified)?,
            etag: ColumnValues::open(group, columns.etag)?,
            storage_class: columns
                .storage_class
                .map(|place| ColumnValues::open(group, place))
                .transpose()?,
            is_latest: optional(columns.is_latest)?,
            is_delete_marker: optional(columns.is_delete_marker)?,
        })
    }

    /// The next `count` rows.
    fn next(&mut self, count: usize) -> Result<impl Iterator<Item = InventoryRow>, String> {
        let none = |count: usize| std::iter::repeat_n(None, count).collect();
        let flags = |column: &mut Option<ColumnValues<BoolType>>| match column {
            Some(column) => column.next(count),
            None => Ok(none(count)),
        };
        let (is_latest, is_delete_marker) = (
            flags(&mut self.is_latest)?,
            flags(&mut self.is_delete_marker)?,
        );
        let classes = match &mut self.storage_class {
            Some(column) => column.next(count)?,
            None => std::iter::repeat_n(None, count).collect(),
        };
        let times = self.last_modified.next(count)?;
        let rows = self.key.next(count)?.into_iter();
        let rows = rows.zip(self.size.next(count)?).zip(times);
        let rows = rows.zip(self.etag.next(count)?).zip(classes);
        let rows = rows.zip(is_latest).zip(is_delete_marker);
        Ok(rows.map(
            |((((((key, size), time), etag), class), is_latest), is_delete_marker)| InventoryRow {
                key,
                size,
                time,
                etag,
                class,
                is_latest,
                is_delete_marker,
            },
        ))
    }
}

/// One row; a field without a value is `None`.
struct InventoryRow {
    key: Option<ByteArray>,
    size: Option<i64>,
    time: Option<i64>,
    etag: Option<ByteArray>,
    class: Option<ByteArray>,
    is_latest: Option<bool>,
    is_delete_marker: Option<bool>,
}

impl InventoryRow {
    /// The object of the row; `None` of an older version or a deletion.
    ///
    /// # Errors
    /// The error of the row.
    fn entry(self, tick: TimeTick) -> Result<Option<IndexEntry>, &'static str> {
        if self.is_latest == Some(false) || self.is_delete_marker == Some(true) {
            return Ok(None);
        }
        let key = self.key.ok_or("it has no key")?;
        let key = key.as_utf8().map_err(|_| "its key is no text")?;
        let etag = match &self.etag {
            Some(etag) => etag.as_utf8().map_err(|_| "its e_tag is no text")?,
            None => "",
        };
        let object = RowObject::parse(key.to_owned(), etag)?;
        let size = self.size.and_then(|size| u64::try_from(size).ok());
        let size = size.ok_or("its size is no number")?;
        let time = self.time.and_then(|time| time_of(time, tick));
        let time = time.ok_or("its last_modified_date is no time")?;
        let class = self.class.as_ref().map(ByteArray::data);
        Ok(Some(object.entry(size, time, class)))
    }
}

fn time_of(count: i64, tick: TimeTick) -> Option<SystemTime> {
    let since = |count: u64| match tick {
        TimeTick::Millisecond => Duration::from_millis(count),
        TimeTick::Microsecond => Duration::from_micros(count),
    };
    let distance = since(count.unsigned_abs());
    match count {
        0.. => UNIX_EPOCH.checked_add(distance),
        ..0 => UNIX_EPOCH.checked_sub(distance),
    }
}

/// One column of a row group.
struct ColumnValues<T: DataType> {
    reader: ColumnReaderImpl<T>,
    name: String,
    /// Whether a row may have no value.
    is_optional: bool,
}

impl<T: DataType> ColumnValues<T> {
    fn open(group: &dyn RowGroupReader, place: usize) -> Result<Self, String> {
        let description = group.metadata().schema_descr().column(place);
        let name = description.path().string();
        if description.physical_type() != T::get_physical_type()
            || description.max_rep_level() > 0
            || description.max_def_level() > 1
        {
            return Err(format!(
                "the column {name} is not of the type that inventories have"
            ));
        }
        let reader = group.get_column_reader(place);
        let reader = reader.map_err(|error| broken(&error))?;
        Ok(Self {
            reader: T::get_column_reader(reader).ok_or(DAMAGED)?,
            is_optional: description.max_def_level() > 0,
            name,
        })
    }

    /// The next `count` values.
    fn next(&mut self, count: usize) -> Result<Vec<Option<T::T>>, String> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < count {
            let read = self
                .reader
                .read_records(count - done, Some(&mut levels), None, &mut values);
            let (records, ..) = read.map_err(|error| broken(&error))?;
            if records == 0 {
                return Err(format!("{DAMAGED}: the column {} is too short", self.name));
            }
            done += records;
        }
        if !self.is_optional {
            return Ok(values.into_iter().map(Some).collect());
        }
        let mut values = values.into_iter();
        let values = levels.iter().map(|level| match level {
            0 => None,
            _ => values.next(),
        });
        Ok(values.collect())
    }
}

/// A file of which no more is read at once than it has: lengths in a damaged file are not trusted.
struct BoundedFile(File);

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for BoundedFile {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let end = start.saturating_add(length as u64);
        if end > self.len() {
            return Err(ParquetError::EOF(format!("it ends before byte {end}")));
        }
        self.0.get_bytes(start, length)
    }
}

/// Rows that are read at once.
const BATCH_ROWS: usize = 4_096;

const DAMAGED: &str = "it is damaged, or no file in Parquet";
