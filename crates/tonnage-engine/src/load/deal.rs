//! Dealing: a block becomes pieces, each for one lane, its rows in slot order.
//!
//! The sequence of a slot within a block is: the block's rejects if they fall to this slot, then its rows, in source
//! order or sorted. It depends on the block and on what the run fixed at its start, on nothing else, so that a
//! position in it means the same in every attempt.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::{filter_record_batch, take, take_record_batch},
    datatypes::SchemaRef,
    row::{RowConverter, Rows, SortField},
};
use tonnage_core::{
    convert::{Conversion, refuse_partial_dates, shown_value},
    error::{Result, arrow_bug},
    parse::{Notes, NullHint, ParseContext},
    reader::BeyondArrow,
    reject::{Problem, Problems, Reject, RejectData, sqlstate},
    slot::{BlockMark, Position, SlotState},
    source::{Block, Origin, SourceSchema},
    table::Table,
    target::WriteColumn,
    types::ColumnType,
};

use super::run::QueuePermit;
use crate::plan::{OnError, Plan, SlotBy, Sort, schema_of};

/// Rows of one block for one lane.
#[derive(Debug)]
pub struct Piece {
    /// The block.
    pub block: u64,
    /// Where it begins.
    pub start: BlockMark,
    /// Where the next one begins.
    pub end: BlockMark,
    /// The rows, those of a slot together.
    pub rows: RecordBatch,
    /// Where each came from.
    pub origin: Origin,
    /// The slots, in the order of their rows.
    pub segments: VecDeque<Segment>,
    /// Memory that the rejects of its segments take, about.
    pub rejects_bytes: usize,
    /// Room in the queue, given back when the piece is done.
    pub room: Option<QueuePermit>,
    /// A bad row that ends the run once the rows before it have been tried.
    pub fatal_reject: Option<Arc<Reject>>,
}

/// The part of a block that falls to one slot.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The slot.
    pub slot: u16,
    /// The slot's position before it.
    pub from: Position,
    /// Rows of the slot's sequence in this block that were handled before.
    pub done: u64,
    /// Rejects that come first in the sequence.
    pub rejects: Vec<Reject>,
    /// Its rows in the piece.
    pub rows: Range<usize>,
    /// Whether the slot has more in this block that is left undone.
    pub cut: bool,
}

/// Turns blocks into pieces, as a plan says.
pub struct Dealer {
    plan: Arc<Plan>,
    /// The position of each slot once what has been dealt is committed.
    positions: Vec<Position>,
    convert: Convert,
    key: Option<RowConverter>,
    sort: Option<RowConverter>,
}

/// A dealt block.
pub struct Dealt {
    /// One piece a lane that has something to do.
    pub pieces: Vec<(Lane, Piece)>,
    /// Rows that earlier attempts handled.
    pub resumed: u64,
    /// Rows of this attempt that were found bad here.
    pub rejected: u64,
    /// The first of them, where it ends the run: only the rows before it were dealt.
    pub fatal_reject: Option<Arc<Reject>>,
}

/// Which lane a piece is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// This one: its slots belong to it.
    Fixed(usize),
    /// Any, as long as the slot's earlier pieces are done or there too.
    Free {
        /// The slot.
        slot: u16,
    },
}

/// What a slot has of a block: its sequence is the rejects, then the rows.
struct SlotRows {
    slot: u16,
    /// Rows of the block, in the order in which they are written.
    indices: Vec<u32>,
    rejects: Vec<Reject>,
}

/// What the lanes get of a block.
struct Shares {
    /// Of each lane, the rows in the order in which they are written.
    orders: Vec<Vec<u32>>,
    /// Of each lane, whose these rows are.
    segments: Vec<VecDeque<Segment>>,
    /// Rows and rejects that an earlier attempt has handled.
    resumed: u64,
    /// Rejects that it has not.
    rejected: u64,
}

impl Shares {
    fn new(lanes: usize) -> Self {
        Self {
            orders: vec![Vec::new(); lanes],
            segments: vec![VecDeque::new(); lanes],
            resumed: 0,
            rejected: 0,
        }
    }
}

impl Dealer {
    /// Refuses, before the first row, columns whose source type cannot be carried exactly.
    pub fn new(plan: Arc<Plan>, source: &SourceSchema, context: &ParseContext) -> Result<Self> {
        let rows_of = |columns: &[usize]| -> Result<Option<RowConverter>> {
            if columns.is_empty() {
                return Ok(None);
            }
            let fields = columns
                .iter()
                .map(|at| SortField::new(plan.columns[*at].ty.arrow()))
                .collect();
            RowConverter::new(fields).map(Some).map_err(arrow_bug)
        };
        Ok(Self {
            key: if plan.slot_by == SlotBy::Key {
                rows_of(&plan.key_at)?
            } else {
                None
            },
            sort: if plan.sort == Sort::Block {
                rows_of(&plan.sort_by)?
            } else {
                None
            },
            positions: vec![Position::default(); usize::from(plan.slots)],
            convert: Convert::new(&plan, source, context)?,
            plan,
        })
    }

    /// Goes on from the slots' positions.
    pub fn resume(&mut self, slots: &[SlotState]) {
        self.positions = slots.iter().map(|s| s.position).collect();
    }

    /// Deals one block.
    pub fn deal(&mut self, block: Block) -> Result<Dealt> {
        let Block {
            index,
            rows,
            origin,
            mut rejects,
            start,
            end,
            ..
        } = block;
        let (rows, origin) = self.convert.apply(rows, origin, &mut rejects)?;
        rejects.sort_by_key(|r| r.row);
        let home = match self.plan.slot_by {
            SlotBy::One => 0,
            _ => (index % u64::from(self.plan.slots)) as u16,
        };
        let by_slot = self.rows_by_slot(&rows, index, home)?;
        let ranks = self.ranks(&rows)?;
        let handled = handled_of(self.positions[usize::from(home)], index).min(rejects.len() as u64) as usize;
        let fatal_reject = match self.plan.on_error {
            OnError::Stop => rejects.get(handled).cloned().map(Arc::new),
            OnError::Reject => None,
        };

        let mut shares = Shares::new(self.lanes());
        for (slot, mut indices) in by_slot {
            let rejects = match slot == home {
                true => std::mem::take(&mut rejects),
                false => Vec::new(),
            };
            if let Some(ranks) = &ranks {
                indices.sort_by_key(|row| ranks[*row as usize]);
            }
            let wanted = |row: &u32| {
                let fatal = fatal_reject.as_deref();
                fatal.is_none_or(|fatal| origin.row(*row as usize) < fatal.row)
            };
            self.share(
                &mut shares,
                index,
                SlotRows {
                    slot,
                    indices,
                    rejects,
                },
                wanted,
            );
        }

        let mut pieces = Vec::new();
        for (lane, (order, segments)) in shares.orders.into_iter().zip(shares.segments).enumerate() {
            if segments.is_empty() {
                continue;
            }
            let (rows, origin) = pick(&rows, &origin, order)?;
            let rejects_bytes = segments.iter().flat_map(|s| &s.rejects).map(Reject::bytes).sum();
            let piece = Piece {
                block: index,
                start,
                end,
                rows,
                origin,
                segments,
                rejects_bytes,
                room: None,
                fatal_reject: fatal_reject.clone(),
            };
            let lane = match self.lanes_are_fixed() {
                true => Lane::Fixed(lane),
                false => Lane::Free { slot: home },
            };
            pieces.push((lane, piece));
        }
        Ok(Dealt {
            pieces,
            resumed: shares.resumed,
            rejected: shares.rejected,
            fatal_reject,
        })
    }

    /// Whether each slot belongs to a fixed lane, so that a block is cut into a piece a lane.
    fn lanes_are_fixed(&self) -> bool {
        match self.plan.slot_by {
            SlotBy::Key | SlotBy::Shard => true,
            SlotBy::One => self.plan.databases() > 1,
            SlotBy::Block => false,
        }
    }

    /// The lanes that a block is cut for.
    fn lanes(&self) -> usize {
        match self.lanes_are_fixed() {
            true => self.plan.jobs,
            false => 1,
        }
    }

    /// The rows of each slot, in source order. Where rejects go to `home`, it is among them.
    fn rows_by_slot(&self, rows: &RecordBatch, block: u64, home: u16) -> Result<Vec<(u16, Vec<u32>)>> {
        let slots = u64::from(self.plan.slots);
        let keys = self.keys(rows)?;
        let by_slot = match (&keys, &self.plan.routing) {
            (None, Some(routing)) if self.plan.slot_by == SlotBy::Shard => {
                let shards = routing.shards();
                let mut indices = vec![Vec::new(); shards];
                for (row, shard) in routing.route(rows)?.into_iter().enumerate() {
                    indices[usize::from(shard)].push(row as u32);
                }
                // A shard has a slot of every `shards` slots, and blocks take these in turn.
                let first = block % (slots / shards as u64) * shards as u64;
                let slots = (0..shards).map(|shard| (first + shard as u64) as u16);
                let mut by_slot: Vec<_> = slots.zip(indices).collect();
                if !by_slot.iter().any(|(slot, _)| *slot == home) {
                    by_slot.push((home, Vec::new()));
                }
                by_slot
            }
            (keys, Some(routing)) if routing.separate_databases() => {
                let shards = routing.shards();
                // A shard has a slot of every `shards` slots; where one keeps the order, it is the first of them.
                let of_shard = if keys.is_some() { slots / shards as u64 } else { 1 };
                let mut indices = vec![Vec::new(); shards * of_shard as usize];
                for (row, shard) in routing.route(rows)?.into_iter().enumerate() {
                    let turn = keys.as_ref().map_or(0, |keys| {
                        xxhash_rust::xxh3::xxh3_64(keys.row(row).as_ref()) % of_shard
                    });
                    indices[usize::from(shard) + shards * turn as usize].push(row as u32);
                }
                (0..).zip(indices).collect()
            }
            (Some(keys), _) => {
                let mut indices = vec![Vec::new(); usize::from(self.plan.slots)];
                for (row, key) in keys.iter().enumerate() {
                    let slot = xxhash_rust::xxh3::xxh3_64(key.as_ref()) % slots;
                    indices[slot as usize].push(row as u32);
                }
                (0..self.plan.slots).zip(indices).collect()
            }
            (None, _) => vec![(home, (0..rows.num_rows() as u32).collect())],
        };
        Ok(by_slot)
    }

    /// The keys of the rows, in a form that equal keys share; none where slots do not go by them.
    fn keys(&self, rows: &RecordBatch) -> Result<Option<Rows>> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        let columns = self.plan.key_at.iter();
        let columns: Vec<ArrayRef> = columns.map(|at| rows.column(*at).clone()).collect();
        key.convert_columns(&columns).map(Some).map_err(arrow_bug)
    }

    /// Gives what a slot has of a block to the slot's lane, but for what an earlier attempt has handled and for rows that
    /// are not `wanted`; the slot's position moves to behind the block.
    fn share(&mut self, shares: &mut Shares, block: u64, of: SlotRows, wanted: impl Fn(&u32) -> bool) {
        let SlotRows {
            slot,
            indices,
            rejects,
        } = of;
        let all = (rejects.len() + indices.len()) as u64;
        let from = self.positions[usize::from(slot)];
        let done = handled_of(from, block).min(all);
        shares.resumed += done;
        if done == all {
            return;
        }
        let skipped_rejects = rejects.len().min(done as usize);
        let skipped_rows = done as usize - skipped_rejects;
        let lanes = shares.orders.len();
        let lane = match &self.plan.routing {
            // A shard belongs to one lane, where there are enough of them.
            Some(routing) if routing.shards() >= lanes => usize::from(slot) % routing.shards() % lanes,
            _ => usize::from(slot) % lanes,
        };
        let order = &mut shares.orders[lane];
        let first = order.len();
        order.extend(indices[skipped_rows..].iter().copied().filter(wanted));
        shares.rejected += (rejects.len() - skipped_rejects) as u64;
        self.positions[usize::from(slot)] = Position {
            block: block + 1,
            rows: 0,
        };
        shares.segments[lane].push_back(Segment {
            slot,
            from,
            done,
            rejects: rejects.into_iter().skip(skipped_rejects).collect(),
            rows: first..order.len(),
            cut: false,
        });
    }

    /// The rank of each row in sort order, ties in source order; none where the rows are in that order already.
    fn ranks(&mut self, rows: &RecordBatch) -> Result<Option<Vec<u32>>> {
        let Some(sort) = &mut self.sort else {
            return Ok(None);
        };
        let columns: Vec<ArrayRef> = self
            .plan
            .sort_by
            .iter()
            .map(|at| rows.column(*at).clone())
            .collect();
        let keys = sort.convert_columns(&columns).map_err(arrow_bug)?;
        if (1..keys.num_rows()).all(|row| keys.row(row - 1) <= keys.row(row)) {
            return Ok(None);
        }
        let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
        order.sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
        let mut ranks = vec![0; order.len()];
        for (rank, row) in order.into_iter().enumerate() {
            ranks[row as usize] = rank as u32;
        }
        Ok(Some(ranks))
    }
}

/// The columns of a table that a source's go to, with the types that they have there.
pub(crate) struct Kept<'a> {
    /// The table.
    pub table: &'a Table,
    /// The columns.
    pub columns: &'a [WriteColumn],
    /// Whether dates may have a zero for their year, month or day.
    pub partial_dates: bool,
}

/// Brings the columns of a source to the plan's types.
pub struct Convert {
    schema: SchemaRef,
    names: Vec<Arc<str>>,
    /// None where the source yields the plan's type itself.
    conversions: Vec<Option<Conversion>>,
    /// Columns without whose value nothing says where a row belongs, with the names that messages have for them.
    required: Vec<(usize, String)>,
    /// Columns of dates of a table that has none with a zero in them, with their types and names.
    whole_dates: Vec<(usize, ColumnType, String)>,
}

impl Convert {
    /// Refuses, before the first row, columns whose source type cannot be carried exactly.
    pub fn new(plan: &Plan, source: &SourceSchema, context: &ParseContext) -> Result<Self> {
        let kept = Kept {
            table: &plan.table,
            columns: &plan.columns,
            partial_dates: plan.partial_dates,
        };
        let separate_databases = plan.routing.iter().filter(|routing| routing.separate_databases());
        let required = separate_databases.flat_map(|routing| &routing.at);
        Ok(Self {
            required: required.map(|at| (*at, plan.columns[*at].name.clone())).collect(),
            ..Self::kept(&kept, source, context)?
        })
    }

    /// What a table keeps of a source, whatever is done with its rows. `Schema` where a column cannot be carried exactly.
    pub(crate) fn kept(kept: &Kept<'_>, source: &SourceSchema, context: &ParseContext) -> Result<Self> {
        let mut conversions = Vec::new();
        for column in kept.columns {
            let from = &source.columns[column.source];
            let to = &kept.table.columns[column.target];
            conversions.push(match source.text {
                // A text source has been asked for these types and has parsed them.
                true => None,
                false => Some(Conversion::plan(from, to, column.ty, context)?),
            });
        }
        let columns = kept.columns.iter();
        let names = columns.map(|column| Arc::from(column.source_name.as_str()));
        Ok(Self {
            schema: schema_of(kept.columns),
            names: names.collect(),
            conversions,
            required: Vec::new(),
            whole_dates: match kept.partial_dates {
                true => Vec::new(),
                false => whole_dates(kept.columns),
            },
        })
    }

    /// Converts; rows that cannot be carried exactly become rejects.
    pub fn apply(
        &self,
        batch: RecordBatch,
        origin: Origin,
        rejects: &mut Vec<Reject>,
    ) -> Result<(RecordBatch, Origin)> {
        let mut problems = Problems::default();
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (array, conversion) in batch.columns().iter().zip(&self.conversions) {
            columns.push(match conversion {
                Some(conversion) => conversion.apply(array, &mut problems)?,
                None => array.clone(),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let converted =
            RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(arrow_bug)?;
        for (at, name) in &self.required {
            refuse_nulls(converted.column(*at), name, &mut problems);
        }
        for (at, ty, name) in &self.whole_dates {
            let mut notes = Notes {
                column: name,
                problems: &mut problems,
                null_hint: NullHint::Withheld,
            };
            refuse_partial_dates(converted.column(*at), ty, &mut notes);
        }
        if problems.is_empty() {
            return Ok((converted, origin));
        }
        for (row, problem) in problems.iter() {
            let beyond_arrow = self.conversions.iter().map(|conversion| match conversion {
                Some(conversion) => conversion.beyond_arrow(),
                None => BeyondArrow::Carried,
            });
            let fields = fields(&batch, &self.names, row, beyond_arrow);
            rejects.push(rejected(&origin, row, problem.clone(), fields));
        }
        let keep: BooleanArray = (0..batch.num_rows())
            .map(|row| Some(!problems.contains(row)))
            .collect();
        let rows = filter_record_batch(&converted, &keep).map_err(arrow_bug)?;
        let kept: Vec<u32> = (0..batch.num_rows() as u32)
            .filter(|row| keep.value(*row as usize))
            .collect();
        let origin = pick_origin(&origin, &UInt32Array::from(kept))?;
        Ok((rows, origin))
    }
}

fn whole_dates(columns: &[WriteColumn]) -> Vec<(usize, ColumnType, String)> {
    let of_dates = |ty: ColumnType| {
        matches!(
            ty,
            ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz
        )
    };
    columns
        .iter()
        .enumerate()
        .filter(|(_, column)| of_dates(column.ty))
        .map(|(at, column)| (at, column.ty, column.name.clone()))
        .collect()
}

fn refuse_nulls(column: &ArrayRef, name: &str, problems: &mut Problems) {
    let nulls = column
        .nulls()
        .into_iter()
        .flat_map(|nulls| nulls.iter().enumerate());
    for (row, _) in nulls.filter(|(_, valid)| !valid) {
        problems.add(
            row,
            Problem {
                column: Some(name.to_owned()),
                code: sqlstate::NOT_NULL.to_owned(),
                message: "null in the shard key, so nothing says which database the row belongs to"
                    .to_owned(),
                hint: None,
            },
        );
    }
}

/// Rows of a slot's sequence in block `index` that were handled by the time it stood at `position`.
fn handled_of(position: Position, index: u64) -> u64 {
    match position.block.cmp(&index) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => position.rows,
        std::cmp::Ordering::Greater => u64::MAX,
    }
}

/// The rows at `order`, with their origins.
pub(crate) fn pick(rows: &RecordBatch, origin: &Origin, order: Vec<u32>) -> Result<(RecordBatch, Origin)> {
    let whole =
        order.len() == rows.num_rows() && order.iter().enumerate().all(|(at, row)| at == *row as usize);
    if whole {
        return Ok((rows.clone(), origin.clone()));
    }
    let order = UInt32Array::from(order);
    let picked = take_record_batch(rows, &order).map_err(arrow_bug)?;
    Ok((picked, pick_origin(origin, &order)?))
}

fn pick_origin(origin: &Origin, order: &UInt32Array) -> Result<Origin> {
    let pick = |values: &UInt32Array| -> Result<UInt32Array> {
        let picked = take(values, order, None).map_err(arrow_bug)?;
        Ok(UInt32Array::from(picked.to_data()))
    };
    Ok(Origin {
        file: origin.file.clone(),
        first_row: origin.first_row,
        first_offset: origin.first_offset,
        rows: pick(&origin.rows)?,
        offsets: origin.offsets.as_ref().map(pick).transpose()?,
        places: origin.places.clone(),
    })
}

/// Row `row` of `batch`, whose columns have the plan's types, as a reject.
pub fn reject(
    batch: &RecordBatch,
    names: &[Arc<str>],
    origin: &Origin,
    row: usize,
    problem: Problem,
) -> Reject {
    let fields = fields(batch, names, row, std::iter::repeat(BeyondArrow::Carried));
    rejected(origin, row, problem, fields)
}

fn rejected(origin: &Origin, row: usize, problem: Problem, data: RejectData) -> Reject {
    Reject {
        file: origin.file(row),
        row: origin.row(row),
        offset: origin.offset(row),
        problem,
        data,
    }
}

fn fields(
    batch: &RecordBatch,
    names: &[Arc<str>],
    row: usize,
    beyond_arrow: impl Iterator<Item = BeyondArrow>,
) -> RejectData {
    let columns = batch.columns().iter().zip(names).zip(beyond_arrow);
    let fields =
        columns.map(|((array, name), beyond_arrow)| (name.clone(), shown_value(array, row, beyond_arrow)));
    RejectData::Fields(fields.collect())
}
