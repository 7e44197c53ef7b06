//! From rows as they were given to pieces that a lane writes.
//!
//! Invariants:
//! - Rows that name different columns go by plans of their own, so that a column that a row does not name takes its
//!   default. In an insert a column without a default counts as named: its default is null.
//! - The slot's sequence is the sequence of the rows: a row that cannot be read keeps its place among the good
//!   ones, so a position counts exactly the rows before it.
//! - A row that cannot be read, or for which there is no plan, costs itself alone.

use std::{ops::Range, sync::Arc, time::Duration};

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
    datatypes::{DataType, SchemaRef},
};
use tonnage_core::{
    convert::suggested,
    error::{Error, ErrorKind, Result, arrow_bug},
    operation::Mode,
    parse::ParseContext,
    preparation::{Preparation, PreparationEffects},
    reader::BeyondArrow,
    reject::{Problem, Reject, RejectData, sqlstate},
    slot::{BlockMark, Position},
    source::{Origin, ReadRequest, SourceColumn, SourceSchema},
    table::Table,
    target::{Routed, Target},
    types::ColumnType,
};
use tonnage_formats::sources::json::{Names, Objects, members};

use super::row::{Chunk, Rows};
use crate::{
    load::{Convert, Piece, Segment, reject},
    plan::{LoadOptions, Plan, PlanInputs, SlotBy, decide},
};

/// The most plans that are kept. More only means that they are made again.
const FORMS_MAX: usize = 64;
/// How long a database that is away is waited for: a century, which an [`std::time::Instant`] still has room for.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// The block of all of a buffer's rows: its positions count rows from the first one on.
const BLOCK: u64 = 0;

/// Decides how rows of given columns go to the table.
#[derive(Clone)]
pub(super) struct Planner {
    pub target: Arc<dyn Target>,
    pub table: Arc<Table>,
    pub options: Arc<LoadOptions>,
    pub context: ParseContext,
    /// Stands for the file in rejects and messages.
    pub shown: Arc<str>,
}

impl Planner {
    /// The plan for rows of these columns.
    fn plan(&self, source: &SourceSchema) -> Result<Plan> {
        let target = &*self.target;
        let plan = decide(&PlanInputs {
            capabilities: target.capabilities(),
            table: self.table.clone(),
            create: None,
            source,
            not_rereadable: None,
            statement: None,
            preparation: Preparation::Keep,
            effects: PreparationEffects::default(),
            routed: Routed::No,
            options: &self.options,
            other_unique_keys: &|key| target.other_unique_keys(&self.table, key),
            support: &|operation, method| target.support(&self.table, operation, method),
            statement_max: &|columns, method, split| {
                target.statement_max(&self.table, columns, method, split)
            },
            ledger_file: target.ledger_file(),
            settings: &|durability| target.settings(durability),
            processors: 1,
        })?;
        Ok(Plan {
            // One lane commits in order, so one slot says exactly how far the rows have come.
            jobs: 1,
            slots: 1,
            slot_by: SlotBy::One,
            // A database that is away is waited for.
            attempts_max: u32::MAX,
            attempts_time_max: FOREVER,
            ..plan
        })
    }

    /// The plan for objects that name the columns marked in `named`.
    pub fn for_objects(&self, named: &[bool]) -> Result<(Plan, SourceSchema)> {
        let columns = self.table.columns.iter().zip(named);
        let columns = columns
            .filter(|(_, named)| **named)
            .map(|(column, _)| SourceColumn {
                beyond_arrow: BeyondArrow::Refused,
                name: column.name.clone(),
                arrow: DataType::Utf8,
                suggested: Some(ColumnType::TEXT),
                nullable: true,
                null_word: None,
            });
        let source = SourceSchema {
            shown: self.shown.clone(),
            columns: columns.collect(),
            named: true,
            text: true,
            header: false,
            notes: Vec::new(),
        };
        Ok((self.plan(&source)?, source))
    }

    /// The plan for batches of this schema, and what brings their columns to its types.
    pub fn for_batches(&self, schema: &SchemaRef) -> Result<(Plan, Convert)> {
        let columns = schema.fields().iter().map(|field| SourceColumn {
            beyond_arrow: BeyondArrow::Refused,
            name: field.name().clone(),
            arrow: field.data_type().clone(),
            suggested: suggested(field),
            nullable: true,
            null_word: None,
        });
        let source = SourceSchema {
            shown: self.shown.clone(),
            columns: columns.collect(),
            named: true,
            text: false,
            header: false,
            notes: Vec::new(),
        };
        let plan = self.plan(&source)?;
        let convert = Convert::new(&plan, &source, &self.context)?;
        Ok((plan, convert))
    }

    /// Columns that count as named by every object.
    pub fn always(&self) -> Vec<bool> {
        let is_insert = matches!(self.options.mode, Mode::Insert | Mode::Ignore);
        let columns = self.table.columns.iter();
        columns
            .map(|c| is_insert && !c.has_default && !c.generated && c.ty.is_some())
            .collect()
    }
}

/// What tells forms apart.
#[derive(PartialEq)]
enum ShapeKey {
    /// The columns that objects name, in table order.
    Objects(Vec<bool>),
    Batches(SchemaRef),
}

enum Reader {
    Objects(Box<Objects>, Convert),
    Batches(Convert),
    /// There is no plan for such rows.
    None(Problem),
}

/// Rows that go by one plan.
struct RowShape {
    named: ShapeKey,
    plan: Arc<Plan>,
    reader: Reader,
}

/// Pieces of one plan, in order.
pub(super) struct Batch {
    pub plan: Arc<Plan>,
    pub pieces: Vec<Piece>,
}

/// Reads rows, with the plans that were needed so far.
pub(super) struct Forms {
    planner: Planner,
    names: Names,
    always: Vec<bool>,
    /// Whether objects may differ in the columns that they name.
    differ: bool,
    /// The plan for all columns that are always named: also that of rows which have none.
    plan: Arc<Plan>,
    forms: Vec<RowShape>,
    /// The slot's position once what was read is committed.
    position: u64,
}

impl Forms {
    /// Of a buffer whose rows up to `position` are done with. Refuses what no row could mend.
    pub fn new(planner: Planner, position: u64) -> Result<Self> {
        let table = &planner.table;
        let always = planner.always();
        let writable: Vec<bool> = table
            .columns
            .iter()
            .map(|c| !c.generated && c.ty.is_some())
            .collect();
        let (plan, _) = planner.for_objects(&writable)?;
        Ok(Self {
            names: Names::new(table.columns.iter().map(|c| Arc::from(c.name.as_str())).collect()),
            differ: always.contains(&false),
            always,
            plan: Arc::new(plan),
            forms: Vec::new(),
            position,
            planner,
        })
    }

    /// A plan of this buffer, for what all of them have in common.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The same of a table that has another shape by now.
    pub fn anew(&self, planner: Planner) -> Result<Self> {
        Self::new(planner, self.position)
    }

    /// Reads rows.
    pub fn read(&mut self, chunks: &[Chunk]) -> Result<Vec<Batch>> {
        let mut batches: Vec<Batch> = Vec::new();
        for chunk in chunks {
            match &chunk.rows {
                Rows::Arrow(batch) => {
                    let form = self.form(ShapeKey::Batches(batch.schema()))?;
                    self.read_batch(form, chunk.first, batch, &mut batches)?;
                }
                Rows::Json { text, ends } => {
                    for (rows, named) in self.runs(text, ends) {
                        let form = self.form(ShapeKey::Objects(named))?;
                        let start = if rows.start == 0 {
                            0
                        } else {
                            ends[rows.start - 1] as usize
                        };
                        let first = chunk.first + rows.start as u64;
                        self.read_objects(form, first, text, start, &ends[rows], &mut batches)?;
                    }
                }
            }
        }
        Ok(batches)
    }

    /// Runs of objects that name the same columns. What is no object goes with those before it.
    fn runs(&self, text: &[u8], ends: &[u32]) -> Vec<(Range<usize>, Vec<bool>)> {
        if !self.differ {
            return vec![(0..ends.len(), self.always.clone())];
        }
        let mut runs: Vec<(Range<usize>, Vec<bool>)> = Vec::new();
        let mut start = 0;
        let mut named = self.always.clone();
        for (row, end) in ends.iter().enumerate() {
            named.clone_from(&self.always);
            let is_object = members(&text[start..*end as usize], |key, _| {
                if let Some(at) = self.names.find(key) {
                    named[at] = true;
                }
            });
            start = *end as usize;
            match runs.last_mut() {
                Some((rows, of_run)) if !is_object || *of_run == named => rows.end = row + 1,
                _ => runs.push((row..row + 1, named.clone())),
            }
        }
        runs
    }

    /// The form's place in the list.
    fn form(&mut self, named: ShapeKey) -> Result<usize> {
        if let Some(at) = self.forms.iter().position(|form| form.named == named) {
            return Ok(at);
        }
        if self.forms.len() >= FORMS_MAX {
            self.forms.clear();
        }
        let form = match self.decide(&named) {
            Ok((plan, reader)) => (Arc::new(plan), reader),
            Err(error) if error.kind() == ErrorKind::Bug => return Err(error),
            Err(error) => (self.plan.clone(), Reader::None(problem(&error))),
        };
        let (plan, reader) = form;
        self.forms.push(RowShape { named, plan, reader });
        Ok(self.forms.len() - 1)
    }

    fn decide(&self, named: &ShapeKey) -> Result<(Plan, Reader)> {
        match named {
            ShapeKey::Batches(schema) => {
                let (plan, convert) = self.planner.for_batches(schema)?;
                Ok((plan, Reader::Batches(convert)))
            }
            ShapeKey::Objects(named) => {
                let (plan, source) = self.planner.for_objects(named)?;
                let convert = Convert::new(&plan, &source, &self.planner.context)?;
                let request = ReadRequest {
                    columns: plan.columns.iter().map(|c| (c.source, c.ty)).collect(),
                    block_rows: usize::MAX,
                    block_bytes: usize::MAX,
                };
                let names = Names::new(
                    source
                        .columns
                        .iter()
                        .map(|c| Arc::from(c.name.as_str()))
                        .collect(),
                );
                let (shown, context) = (self.planner.shown.clone(), self.planner.context.clone());
                let objects = Objects::new(shown, names, request, context)?;
                Ok((plan, Reader::Objects(Box::new(objects), convert)))
            }
        }
    }

    fn read_objects(
        &mut self,
        form: usize,
        first: u64,
        text: &[u8],
        start: usize,
        ends: &[u32],
        batches: &mut Vec<Batch>,
    ) -> Result<()> {
        let shown = self.planner.shown.clone();
        let form = &mut self.forms[form];
        let (rows, origin, rejects) = match &mut form.reader {
            Reader::Objects(objects, convert) => {
                let mut parts = objects.read(text, start, ends, first)?;
                let (rows, origin) = convert.apply(parts.rows, parts.origin, &mut parts.rejects)?;
                (rows, origin, parts.rejects)
            }
            Reader::Batches(_) => return Err(Error::bug("objects read as a batch")),
            Reader::None(problem) => {
                let mut from = start;
                let mut raw = |(row, end): (usize, &u32)| {
                    let bytes = text[from..*end as usize].to_vec();
                    from = *end as usize;
                    let data = RejectData::Raw(bytes);
                    refused(&shown, first + row as u64, problem.clone(), data)
                };
                let rejects = ends.iter().enumerate().map(&mut raw).collect();
                let none = RecordBatch::new_empty(form.plan.schema());
                (none, origin(&shown, first, 0), rejects)
            }
        };
        let plan = form.plan.clone();
        self.add(plan, first, rows, &origin, rejects, batches)
    }

    fn read_batch(
        &mut self,
        form: usize,
        first: u64,
        batch: &RecordBatch,
        batches: &mut Vec<Batch>,
    ) -> Result<()> {
        let shown = self.planner.shown.clone();
        let form = &self.forms[form];
        let count = batch.num_rows();
        let mut rejects = Vec::new();
        let (rows, origin) = match &form.reader {
            Reader::Batches(convert) => {
                let columns: Vec<usize> = form.plan.columns.iter().map(|c| c.source).collect();
                let picked = batch.project(&columns).map_err(arrow_bug)?;
                convert.apply(picked, origin(&shown, first, count as u32), &mut rejects)?
            }
            Reader::Objects(..) => return Err(Error::bug("a batch read as objects")),
            Reader::None(problem) => {
                // Checked when it was put, if the database answered; the table may have been altered since.
                let fields = batch.schema_ref().fields().iter();
                let names: Vec<Arc<str>> = fields.map(|field| Arc::from(field.name().as_str())).collect();
                let given = origin(&shown, first, count as u32);
                rejects.extend((0..count).map(|row| reject(batch, &names, &given, row, problem.clone())));
                (
                    RecordBatch::new_empty(form.plan.schema()),
                    origin(&shown, first, 0),
                )
            }
        };
        let plan = form.plan.clone();
        self.add(plan, first, rows, &origin, rejects, batches)
    }

    /// Cuts rows into pieces, so that each bad row keeps its place.
    fn add(
        &mut self,
        plan: Arc<Plan>,
        first: u64,
        rows: RecordBatch,
        origin: &Origin,
        mut rejects: Vec<Reject>,
        batches: &mut Vec<Batch>,
    ) -> Result<()> {
        rejects.sort_by_key(|reject| reject.row);
        let mut pieces = Vec::new();
        let mut before = first - 1;
        let mut held: Vec<Reject> = Vec::new();
        let mut at = 0;
        let whole = rejects.is_empty();
        let mut rejects = rejects.into_iter().peekable();
        loop {
            let next = rejects.peek().map(|reject| reject.row);
            let mut end = at;
            while end < rows.num_rows() && next.is_none_or(|next| origin.row(end) < next) {
                end += 1;
            }
            if end > at || (next.is_none() && !held.is_empty()) {
                let (rows, origin) = match whole {
                    true => (rows.clone(), origin.clone()),
                    false => part(&rows, origin, at..end)?,
                };
                let held = std::mem::take(&mut held);
                let count = (held.len() + rows.num_rows()) as u64;
                pieces.push(self.piece(before, rows, origin, held));
                before += count;
                at = end;
            }
            match rejects.next() {
                Some(reject) => held.push(reject),
                None => break,
            }
        }
        match batches.last_mut() {
            Some(batch) if Arc::ptr_eq(&batch.plan, &plan) => batch.pieces.extend(pieces),
            _ => batches.push(Batch { plan, pieces }),
        }
        Ok(())
    }

    /// The rows after row `before`: first those that cannot be read, then good ones.
    fn piece(&mut self, before: u64, rows: RecordBatch, origin: Origin, rejects: Vec<Reject>) -> Piece {
        let from = Position {
            block: BLOCK,
            rows: self.position,
        };
        self.position = before + (rejects.len() + rows.num_rows()) as u64;
        Piece {
            block: BLOCK,
            start: BlockMark::default(),
            end: BlockMark::default(),
            rejects_bytes: rejects.iter().map(Reject::bytes).sum(),
            segments: [Segment {
                slot: 0,
                from,
                done: before,
                rejects,
                rows: 0..rows.num_rows(),
                // There is always more to come in the only block there is.
                cut: true,
            }]
            .into(),
            rows,
            origin,
            room: None,
            fatal_reject: None,
        }
    }
}

fn origin(shown: &Arc<str>, first_row: u64, rows: u32) -> Origin {
    Origin {
        file: shown.clone(),
        first_row,
        first_offset: None,
        rows: (0..rows).collect::<Vec<_>>().into(),
        offsets: None,
        places: None,
    }
}

/// A copy of some rows: a slice would count as much memory as the whole.
fn part(rows: &RecordBatch, origin: &Origin, range: Range<usize>) -> Result<(RecordBatch, Origin)> {
    let indices = UInt32Array::from_iter_values(range.start as u32..range.end as u32);
    let mut origin = origin.clone();
    origin.rows = origin.rows.slice(range.start, range.len());
    Ok((take_record_batch(rows, &indices).map_err(arrow_bug)?, origin))
}

fn problem(error: &Error) -> Problem {
    Problem {
        column: None,
        code: sqlstate::BAD_FORMAT.to_owned(),
        message: error.to_string(),
        hint: error.hint_text().map(str::to_owned),
    }
}

fn refused(shown: &Arc<str>, row: u64, problem: Problem, data: RejectData) -> Reject {
    Reject {
        file: shown.clone(),
        row,
        offset: None,
        problem,
        data,
    }
}
