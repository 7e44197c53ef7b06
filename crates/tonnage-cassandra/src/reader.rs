//! Reading: pages of token ranges, each range a split.
//!
//! There is no state that several reads could see: a row that is written meanwhile comes or does not, in its old form or
//! its new one. What was there before and stays there comes exactly once, since the ranges are disjoint and together are
//! the ring.

use std::{sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use scylla::{
    client::session::Session,
    cluster::metadata::{ColumnType as Cql, NativeType},
    response::{PagingState, PagingStateResponse, query_result::QueryRowsResult},
    serialize::row::SerializeRow,
    statement::prepared::PreparedStatement,
};
use tonnage_core::{
    error::{Error, Result},
    reader::{BatchBounds, ReadColumn, Reader, Relation, ScanRequest, Snapshot, no_table, wanted},
    retry::Attempts,
    statement::{self, Dialect},
};

use super::{
    batches::Ring,
    catalog::{self, Described},
    decode::{ColumnDecoder, Decoder, Fields},
    encode::Given,
    errors::{self, Doing},
    types::{Kind, quote},
};

/// Rows of a page: more make a read slower than its timeout before they make it faster.
const PAGE_ROWS: usize = 5_000;

/// Splits at least, so that no reader is left with a large one at the end.
const SPLITS_MIN: usize = 16;

/// Attempts at a page, which may be read again and again.
const ATTEMPTS: (u32, Duration) = (6, Duration::from_secs(120));

/// Rows of the first page, before anything is known of how large they are.
const FIRST_PAGE_ROWS: usize = 16;

/// A page has at most so many times the rows of the one before: a few small rows say little of many.
const GROWTH_MAX: usize = 16;

/// How many rows to ask for at once. The server counts a page in rows; what they take in bytes is learnt from page to
/// page.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageSize {
    rows: usize,
    /// What a row takes, by the last page that had any.
    row_bytes: Option<usize>,
    bounds: BatchBounds,
}

impl PageSize {
    /// Of pages that are about as large as `bounds` say, by what they will have been.
    pub fn of(bounds: BatchBounds) -> Self {
        let bounds = BatchBounds {
            rows_max: bounds.rows_max.clamp(1, PAGE_ROWS),
            ..bounds
        };
        Self {
            rows: bounds.rows_max.min(FIRST_PAGE_ROWS),
            row_bytes: None,
            bounds,
        }
    }

    /// Takes notice of a page.
    pub fn learn(&mut self, rows: usize, bytes: usize) {
        if rows > 0 {
            let fit = self.bounds.bytes_max.saturating_mul(rows) / bytes.max(1);
            let most = self.rows.saturating_mul(GROWTH_MAX);
            self.rows = fit.clamp(1, self.bounds.rows_max.min(most));
            self.row_bytes = Some(bytes.div_ceil(rows));
        }
    }

    /// How many pages of this size take `bytes` together, at least one; none before any row was seen.
    pub fn pages_of(&self, bytes: usize) -> Option<usize> {
        let page = self.row_bytes?.saturating_mul(self.rows);
        Some((bytes / page.max(1)).max(1))
    }
}

/// One page, tried again while that may help.
pub(super) async fn page(
    session: &Session,
    statement: &PreparedStatement,
    size: PageSize,
    values: &impl SerializeRow,
    from: PagingState,
) -> Result<(QueryRowsResult, Option<PagingState>)> {
    let mut statement = statement.clone();
    statement.set_page_size(size.rows as i32);
    let mut attempts = Attempts::of(ATTEMPTS.0, ATTEMPTS.1);
    loop {
        let read = session
            .execute_single_page(&statement, values, from.clone())
            .await;
        match read {
            Ok((found, next)) => {
                let rows = found.into_rows_result();
                let rows = rows.map_err(|cause| Error::bug(format!("a query without rows: {cause}")))?;
                return Ok((
                    rows,
                    match next {
                        PagingStateResponse::HasMorePages { state } => Some(state),
                        PagingStateResponse::NoMorePages => None,
                    },
                ));
            }
            Err(error) => {
                let error = errors::execution(error, Doing::Else);
                if !error.is_transient() {
                    return Err(error);
                }
                let Some(pause) = attempts.pause() else {
                    return Err(error);
                };
                attempts.warn(&error);
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// How a column is read; a counter is a number to who reads it.
pub(super) fn readable(ty: &Cql<'_>) -> Option<Kind> {
    match ty {
        Cql::Native(NativeType::Counter) => Some(Kind::Scalar(NativeType::BigInt)),
        ty => Kind::of(ty),
    }
}

/// The columns that `statement` returns first, as they are read: of each whether it comes as text.
pub(super) fn columns(
    statement: &PreparedStatement,
    texts: &[bool],
    nullable: impl Fn(&str) -> bool,
) -> Result<(Vec<ReadColumn>, Vec<ColumnDecoder>)> {
    let specs = statement.get_current_result_set_col_specs();
    let specs = specs.get();
    let read = specs.iter().zip(texts).enumerate().map(|(at, (spec, text))| {
        let kind = readable(spec.typ()).ok_or_else(|| {
            Error::schema(format!(
                "column '{}' is of a type that cannot be read yet",
                spec.name()
            ))
            .hint("--columns names those that are wanted")
        })?;
        let decoder = ColumnDecoder {
            at,
            kind,
            text: *text,
        };
        let column = ReadColumn {
            element: None,
            name: spec.name().to_owned(),
            ty: decoder.column_type(),
            declared: format!("{:?}", spec.typ()),
            nullable: nullable(spec.name()),
        };
        Ok((column, decoder))
    });
    let read: Vec<_> = read.collect::<Result<_>>()?;
    Ok(read.into_iter().unzip())
}

/// The columns of a table that are wanted, in CQL, and whether each comes as text.
pub(super) fn select(described: &Described, request: &ScanRequest) -> Result<(Vec<String>, Vec<bool>)> {
    let columns = &described.table.columns;
    let names = columns.iter().map(|column| column.name.as_str());
    let place = format!("table {}", described.table.name);
    let wanted = wanted(request, &place, names, 0..columns.len())?;
    Ok(wanted
        .into_iter()
        .map(|(at, text)| (quote(&columns[at].name), text))
        .unzip())
}

/// The columns of the key among those that are read.
pub(super) fn naming(
    described: &Described,
    read: &[ReadColumn],
    decoders: &[ColumnDecoder],
) -> Vec<(String, usize, Kind)> {
    let key = described.table.primary_key().map(|key| key.columns.as_slice());
    let places = key.unwrap_or_default().iter().filter_map(|name| {
        let at = read.iter().position(|column| column.name == *name)?;
        Some((name.clone(), at, decoders[at].kind.clone()))
    });
    places.collect()
}

/// How CQL is written.
const DIALECT: Dialect = Dialect {
    dollars: false,
    brackets: false,
    backticks: false,
    hashes: false,
    backslashes: false,
    slashes: true,
    keeps_case: false,
    own_parameters: &[],
};

pub(super) async fn scan(session: &Arc<Session>, keyspace: &str, request: &ScanRequest) -> Result<Snapshot> {
    if let Some(column) = &request.split_by {
        return Err(Error::config(format!("--split-by {column} has no effect here"))
            .hint("leave it out: the work is cut by token ranges"));
    }
    let Selected {
        cql,
        described,
        texts,
        ranges,
    } = match &request.relation {
        Relation::Query(query) => of_query(query, request)?,
        Relation::Table(name) => {
            let Some(found) = catalog::describe(session, keyspace, name).await? else {
                return Err(no_table(name, &catalog::names(session, keyspace).await?));
            };
            of_table(session, found, request)?
        }
    };
    let mut statement = super::prepare(session, cql).await?;
    let unbound = statement.get_variable_col_specs().len() - 2 * usize::from(!ranges.is_empty());
    if unbound > 0 {
        return Err(
            Error::config("the query has parameters (?), and there is nothing to fill them with")
                .hint("write the values into the query"),
        );
    }
    statement.set_is_idempotent(true);
    let texts = match texts {
        Some(texts) => texts,
        None => {
            let specs = statement.get_current_result_set_col_specs();
            let names: Vec<&str> = specs.get().iter().map(|spec| spec.name()).collect();
            if names.is_empty() {
                return Err(Error::config("the query returns no rows").hint("write a query that only reads"));
            }
            let found = wanted(request, "the query", names.iter().copied(), 0..names.len())?;
            found.into_iter().map(|(_, text)| text).collect()
        }
    };
    let may_lack = |name: &str| described.as_ref().is_none_or(|found| found.may_lack(name));
    let (columns, decoders) = columns(&statement, &texts, may_lack)?;
    let naming = described
        .as_ref()
        .map(|found| naming(found, &columns, &decoders))
        .unwrap_or_default();
    let whole_key = described
        .as_ref()
        .and_then(|found| found.table.primary_key())
        .filter(|key| key.columns.len() == naming.len());
    let key = whole_key.map(|key| key.columns.clone()).unwrap_or_default();
    let splits = match request.limit {
        Some(0) => 0,
        _ => ranges.len().max(1),
    };
    let shared = Arc::new(ScanContext {
        decoder: Decoder::new(decoders, &columns, naming),
        session: session.clone(),
        statement,
        ranges,
        columns: columns.len(),
    });
    let readers = request.readers.clamp(1, splits.max(1));
    let reader = |_| -> Box<dyn Reader> {
        Box::new(CassandraReader {
            shared: shared.clone(),
            split: 0,
            next: None,
            page: PageSize::of(request.batch),
        })
    };
    Ok(Snapshot {
        table: described.map(|found| found.table.name),
        columns,
        key,
        splits,
        readers: (0..readers).map(reader).collect(),
        consistency: "none: each page shows what is there when it is read",
        settings_changed: Vec::new(),
        notes: vec![
            "there is no one state to read: of rows that are written meanwhile some come as they were and some as they \
             are then"
                .to_owned(),
        ],
    })
}

/// What is read.
struct Selected {
    cql: String,
    /// The table; none of a query.
    described: Option<catalog::Described>,
    /// Which columns come as text; not known yet of a query.
    texts: Option<Vec<bool>>,
    /// The token ranges that the statement is run for; none where it is run once.
    ranges: Vec<(i64, i64)>,
}

fn of_query(query: &str, request: &ScanRequest) -> Result<Selected> {
    let query = statement::query(query, DIALECT)?;
    if request.columns.is_some() || request.filter.is_some() || request.limit.is_some() {
        return Err(
            Error::config("a query says itself which columns and rows are wanted, and how many")
                .hint("leave --columns, --where and --limit out"),
        );
    }
    Ok(Selected {
        cql: query.to_owned(),
        described: None,
        texts: None,
        ranges: Vec::new(),
    })
}

fn of_table(session: &Session, found: catalog::Described, request: &ScanRequest) -> Result<Selected> {
    let (names, texts) = select(&found, request)?;
    let token = format!("token({})", found.partition_quoted());
    let mut cql = format!("SELECT {} FROM {}", names.join(", "), found.quoted());
    let mut ranges = Vec::new();
    let filter = request.filter.as_deref();
    if let Some(filter) = filter {
        statement::condition(filter, DIALECT)?;
    }
    if request.limit.is_none() {
        ranges = split(&Ring::of(session, &found), SPLITS_MIN.max(4 * request.readers));
        cql.push_str(&format!(" WHERE {token} > ? AND {token} <= ?"));
    }
    if let Some(filter) = filter {
        let word = if ranges.is_empty() { "WHERE" } else { "AND" };
        // A line of its own, as a comment may end it.
        cql.push_str(&format!(" {word} {filter}\n"));
    }
    if let Some(limit) = request.limit {
        let limit = i32::try_from(limit).map_err(|_| {
            Error::config(format!(
                "a limit of {limit} rows is more than Cassandra counts to"
            ))
            .hint(format!("it is {} at most", i32::MAX))
        })?;
        cql.push_str(&format!(" LIMIT {}", limit.max(1)));
    }
    if filter.is_some() {
        cql.push_str(" ALLOW FILTERING");
    }
    Ok(Selected {
        cql,
        described: Some(found),
        texts: Some(texts),
        ranges,
    })
}

/// The ring as at least `least` ranges, each without its first token and with its last.
fn split(ring: &Ring, least: usize) -> Vec<(i64, i64)> {
    let mut ends: Vec<i64> = ring.ends().filter(|end| *end != i64::MIN).collect();
    ends.push(i64::MAX);
    ends.dedup();
    let parts = least.div_ceil(ends.len()).max(1);
    let mut ranges = Vec::new();
    let mut from = i64::MIN;
    for end in ends {
        let width = i128::from(end) - i128::from(from);
        let first = from;
        for part in 1..=parts {
            // Within the range, as it is a share of it.
            let to = (i128::from(first) + width * part as i128 / parts as i128) as i64;
            if to > from {
                ranges.push((from, to));
                from = to;
            }
        }
    }
    ranges
}

struct ScanContext {
    session: Arc<Session>,
    statement: PreparedStatement,
    decoder: Decoder,
    /// None where all is one split.
    ranges: Vec<(i64, i64)>,
    columns: usize,
}

struct CassandraReader {
    shared: Arc<ScanContext>,
    split: usize,
    /// From where the split goes on; none at its end.
    next: Option<PagingState>,
    page: PageSize,
}

#[async_trait]
impl Reader for CassandraReader {
    async fn open(&mut self, split: usize) -> Result<()> {
        self.split = split;
        self.next = Some(PagingState::start());
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let shared = self.shared.clone();
        let bounds = shared.ranges.get(self.split);
        let bounds = bounds.map(|(from, to)| [from.to_be_bytes(), to.to_be_bytes()]);
        let values = Given(bounds.iter().flatten().map(<[u8; 8]>::as_slice).collect());
        while let Some(from) = self.next.take() {
            let (rows, next) = page(&shared.session, &shared.statement, self.page, &values, from).await?;
            self.next = next;
            self.page.learn(rows.rows_num(), rows.rows_bytes_size());
            if rows.rows_num() > 0 {
                let fields = Fields::of(&rows, shared.columns)?;
                return shared.decoder.decode(&fields).map(Some);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_large_as_their_bounds() {
        let mut page = PageSize::of(BatchBounds {
            rows_max: 16_384,
            bytes_max: 1 << 20,
        });
        assert_eq!(page.rows, FIRST_PAGE_ROWS);
        assert_eq!(page.pages_of(1 << 20), None);
        page.learn(10, 100);
        assert_eq!(page.rows, FIRST_PAGE_ROWS * GROWTH_MAX);
        page.learn(256, 2_560);
        assert_eq!(page.rows, 4_096);
        page.learn(4_096, 40_960);
        assert_eq!(page.rows, PAGE_ROWS);
        page.learn(5_000, 5_000 << 10);
        assert_eq!(page.rows, 1_024);
        assert_eq!(page.pages_of(4 << 20), Some(4));
        page.learn(0, 0);
        page.learn(4, 40 << 20);
        assert_eq!(page.rows, 1);
        assert_eq!(page.pages_of(4 << 20), Some(1));
    }

    #[test]
    fn splits_are_the_whole_ring_once() {
        for ends in [vec![], vec![0], vec![-5, 7, i64::MAX], vec![i64::MIN, 3]] {
            for least in [1, 3, 16] {
                let ranges = split(&Ring::with_ends(&ends), least);
                assert!(ranges.len() >= least, "{ends:?}");
                assert_eq!(ranges.first().map(|range| range.0), Some(i64::MIN));
                assert_eq!(ranges.last().map(|range| range.1), Some(i64::MAX));
                for pair in ranges.windows(2) {
                    assert_eq!(pair[0].1, pair[1].0);
                    assert!(pair[0].0 < pair[0].1);
                }
            }
        }
    }
}
