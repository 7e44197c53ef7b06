//! General-ledger lines, as in the published study of insert methods.
//!
//! A row is an id, the run's id, a scenario, a time and a JSON document of 25 flat fields, about 1,340 bytes
//! of values, which a database stores in about 1,360. Lines come in pairs, a debit and a credit of one
//! amount, so the sums of an even number of rows balance: a cheap check of a whole load.

use std::sync::Arc;

use arrow::array::{ArrayRef, TimestampMicrosecondArray};
use tonnage_core::{
    calendar::civil_from_days,
    digits::{DAY_MICROS, push_date, push_decimal, push_padded, push_timestamp_micros, push_unsigned},
    types::ColumnType,
};

use super::{
    Nullable, TextColumn, constant_text,
    random::{Random, base, below, hash},
};

pub(super) const COLUMNS: &[(&str, ColumnType, Nullable)] = &[
    ("id", ColumnType::Text { chars_max: Some(40) }, Nullable::No),
    ("run_id", ColumnType::Text { chars_max: Some(40) }, Nullable::No),
    ("scenario", ColumnType::Text { chars_max: Some(20) }, Nullable::No),
    ("ts", ColumnType::Timestamp, Nullable::No),
    ("payload", ColumnType::Json, Nullable::No),
];

/// The streams of random numbers that are this workload's own: lines, ids, pairs of lines, the run.
const STREAM_LINE: u64 = 0x6a6f_7572_6e61_6c31;
const STREAM_ID: u64 = 0x6a6f_7572_6e61_6c32;
const STREAM_PAIR: u64 = 0x6a6f_7572_6e61_6c33;
const STREAM_RUN: u64 = 0x6a6f_7572_6e61_6c34;

const CODE: &[u8; 36] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LETTERS: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const CODE_CHARS: usize = 20;
const DESCRIPTION_CHARS: usize = 50;

/// Lines of one journal: an even number, so that each journal balances.
const HEADER_LINES: u64 = 80;

/// 2024-01-01, and one line a millisecond.
const START_DAY: i64 = 19_723;
const LINE_MICROS: i64 = 1_000;

/// After so many lines, ten years, time begins again.
const LINES_OF_TIME: u64 = 3_652 * (DAY_MICROS / LINE_MICROS) as u64;

const CURRENCIES: [(&[u8; 3], u64); 4] = [
    (b"USD", 10_000),
    (b"EUR", 10_850),
    (b"GBP", 12_640),
    (b"CHF", 11_320),
];

pub(super) fn arrays(seed: u64, first_row: u64, rows: usize) -> Vec<ArrayRef> {
    let lines = base(seed, STREAM_LINE);
    let ids = base(seed, STREAM_ID);
    let pairs = base(seed, STREAM_PAIR);
    let mut id = TextColumn::with_capacity(rows, 36);
    let mut ts = Vec::with_capacity(rows);
    let mut payload = TextColumn::with_capacity(rows, 1_300);
    for row in first_row..first_row + rows as u64 {
        let mut random = Random::of_row(lines, row);
        push_uuid(&mut id.bytes, hash(ids, row), random.draw());
        id.end();
        let micros = START_DAY * DAY_MICROS
            + (row % LINES_OF_TIME) as i64 * LINE_MICROS
            + random.below(LINE_MICROS as u64) as i64;
        ts.push(micros);
        push_payload(&mut payload.bytes, row, micros, hash(pairs, row / 2), &mut random);
        payload.end();
    }
    let mut run = Vec::with_capacity(36);
    let run_base = base(seed, STREAM_RUN);
    push_uuid(&mut run, hash(run_base, 0), hash(run_base, 1));
    vec![
        id.finish(),
        constant_text(&String::from_utf8_lossy(&run), rows),
        constant_text("journal", rows),
        Arc::new(TimestampMicrosecondArray::from(ts)),
        payload.finish(),
    ]
}

/// Appends a version 4 UUID that holds all 64 bits of `unique`: where those differ, so do the UUIDs.
fn push_uuid(out: &mut Vec<u8>, unique: u64, random: u64) {
    // The version takes the place of four of those bits, which move to the other half, after the variant.
    let displaced = (unique >> 12) & 0xf;
    let high = (unique & !0xf000) | 0x4000;
    let low = (0b10 << 62) | (displaced << 58) | (random >> 6);
    let digits = (u128::from(high) << 64) | u128::from(low);
    let mut text = [b'-'; 36];
    let places = (0..36).filter(|place| !matches!(place, 8 | 13 | 18 | 23));
    for (digit, place) in places.enumerate() {
        text[place] = b"0123456789abcdef"[(digits >> (124 - 4 * digit)) as usize & 0xf];
    }
    out.extend_from_slice(&text);
}

/// Appends the JSON document. Nothing in it needs an escape.
fn push_payload(out: &mut Vec<u8>, row: u64, micros: i64, pair: u64, random: &mut Random) {
    let day = micros.div_euclid(DAY_MICROS);
    let (year, month, _) = civil_from_days(day);
    let bits = random.draw();
    // Amounts and currency belong to the pair; between 1.00 and 100,000.00, in cents.
    let amount = below(pair, 9_999_901) + 100;
    let (currency, rate) = CURRENCIES[(pair & 3) as usize];
    let accounted = (amount * rate + 5_000) / 10_000;
    let debit = row.is_multiple_of(2);
    let reversed = bits & 0x1f == 0;

    out.extend_from_slice(b"{\"ledgerJournalHeaderSourceApplicationCode\":\"");
    random.push_letters(out, CODE, CODE_CHARS);
    out.extend_from_slice(b"\",\"ledgerJournalHeaderExternalReference\":\"");
    random.push_letters(out, CODE, CODE_CHARS);
    out.extend_from_slice(b"\",\"ledgerJournalHeaderDescription\":\"");
    random.push_letters(out, LETTERS, DESCRIPTION_CHARS);
    out.extend_from_slice(b"\",\"ledgerAccountingPeriodCode\":\"");
    push_padded::<4>(out, year as u64);
    push_padded::<2>(out, month as u64);
    out.extend_from_slice(b"\",\"ledgerAccountingPeriodDate\":\"");
    push_padded::<4>(out, year as u64);
    out.push(b'-');
    push_padded::<2>(out, month as u64);
    out.extend_from_slice(b"-01\",\"ledgerEnteredCurrencyCode\":\"");
    out.extend_from_slice(currency);
    out.extend_from_slice(b"\",\"ledgerJournalCategoryCode\":\"");
    random.push_letters(out, CODE, CODE_CHARS);
    out.extend_from_slice(b"\",\"ledgerJournalHeaderPostedDate\":\"");
    push_date(out, day + 1);
    out.extend_from_slice(b"\",\"ledgerJournalHeaderCreatedDate\":\"");
    push_date(out, day);
    out.extend_from_slice(b"\",\"ledgerJournalHeaderCreatedTimestamp\":\"");
    push_timestamp_micros(out, micros);
    out.extend_from_slice(b"\",\"ledgerActualBalanceFlag\":\"");
    out.push(if bits & 0x20 == 0 { b'A' } else { b'B' });
    out.extend_from_slice(b"\",\"ledgerJournalHeaderStatusCode\":\"");
    out.push(if bits & 0xc0 == 0 { b'U' } else { b'P' });
    out.extend_from_slice(b"\",\"ledgerJournalHeaderName\":\"");
    random.push_letters(out, CODE, CODE_CHARS);
    out.extend_from_slice(b"\",\"ledgerJournalReversalFlag\":\"");
    out.push(if reversed { b'Y' } else { b'N' });
    out.extend_from_slice(b"\",\"ledgerJournalReversalSourceReference\":\"");
    random.push_letters(out, CODE, CODE_CHARS);
    out.extend_from_slice(b"\",\"ledgerJournalLineNumber\":");
    push_unsigned(out, row % HEADER_LINES + 1);
    out.extend_from_slice(b",\"ledgerGeneralAccountSegmentCode\":\"");
    random.push_letters(out, CODE, CODE_CHARS);
    out.extend_from_slice(b"\",\"ledgerResponsibleOrganizationCode\":\"");
    random.push_letters(out, CODE, CODE_CHARS);
    out.extend_from_slice(b"\",\"ledgerResponsibleProjectCode\":\"");
    random.push_letters(out, CODE, CODE_CHARS);
    out.extend_from_slice(b"\",\"ledgerJournalLineTypeCode\":\"");
    out.extend_from_slice(if debit { b"DR" } else { b"CR" });
    let amounts = [
        (&b"\",\"ledgerJournalLineEnteredDebitAmount\":"[..], amount, debit),
        (b",\"ledgerJournalLineEnteredCreditAmount\":", amount, !debit),
        (b",\"ledgerJournalLineAccountedDebitAmount\":", accounted, debit),
        (b",\"ledgerJournalLineAccountedCreditAmount\":", accounted, !debit),
    ];
    for (name, amount, applies) in amounts {
        out.extend_from_slice(name);
        push_decimal(out, if applies { i128::from(amount) } else { 0 }, 2);
    }
    out.extend_from_slice(b",\"ledgerJournalLineDescription\":\"");
    random.push_letters(out, LETTERS, DESCRIPTION_CHARS);
    out.extend_from_slice(b"\"}");
}
