//! Measurements of a fleet of devices.
//!
//! Rows go round the fleet: each device reports once a round, and a round is ten seconds. Place and character
//! belong to a device; temperature and humidity follow the time of day and drift; a battery runs down over
//! some weeks and is replaced. Floats come from whole hundredths by one division, which is exact to the last
//! bit on every platform; there is no sine and no logarithm, which are not. Some values are missing, and some
//! notes hold commas and quotes.

use std::{num::NonZeroU32, sync::Arc};

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int16Array, StringBuilder, TimestampMicrosecondArray,
};
use tonnage_core::{digits::push_padded, types::ColumnType};

use super::{
    Nullable, TextColumn,
    random::{Random, base, below, hash},
};

pub(super) const COLUMNS: &[(&str, ColumnType, Nullable)] = &[
    ("device", ColumnType::Text { chars_max: Some(20) }, Nullable::No),
    ("ts", ColumnType::TimestampTz, Nullable::No),
    ("site", ColumnType::Text { chars_max: Some(20) }, Nullable::No),
    ("latitude", ColumnType::Float64, Nullable::No),
    ("longitude", ColumnType::Float64, Nullable::No),
    ("temperature", ColumnType::Float64, Nullable::Yes),
    ("humidity", ColumnType::Float64, Nullable::Yes),
    (
        "voltage",
        ColumnType::Decimal {
            precision: VOLTAGE_PRECISION,
            scale: VOLTAGE_SCALE as u8,
        },
        Nullable::Yes,
    ),
    ("status", ColumnType::Int16, Nullable::No),
    ("note", ColumnType::TEXT, Nullable::Yes),
];

const VOLTAGE_PRECISION: u8 = 6;
const VOLTAGE_SCALE: i8 = 3;

/// The devices of a fleet, where nothing else is said.
pub const FLEET_DEVICES: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

/// Rows of the default fleet until the year 2106: time must stay one that every database takes.
pub(super) const ROWS_MAX: u64 = ROUNDS_MAX * FLEET_DEVICES.get() as u64;
const ROUNDS_MAX: u64 = 82 * 365 * ROUNDS_OF_DAY;

/// 2024-01-01 00:00:00 UTC.
const START_MICROS: i64 = 1_704_067_200_000_000;
const ROUND_MICROS: u64 = 10_000_000;
const ROUNDS_OF_DAY: u64 = 8_640;

/// A drifting value wanders from one random level to the next over so many rounds, an hour.
const DRIFT_ROUNDS: u64 = 360;

/// A battery lasts so many rounds, thirty days.
const BATTERY_ROUNDS: u64 = 30 * ROUNDS_OF_DAY;

const SITES: [&str; 8] = [
    "Reykjavík",
    "Rotterdam",
    "São Paulo",
    "Nairobi",
    "Osaka",
    "Vancouver",
    "Perth",
    "Tallinn",
];

/// Latitude and longitude of the sites, in hundred-thousandths of a degree.
const PLACES: [(i64, i64); 8] = [
    (6_414_660, -2_194_260),
    (5_192_440, 447_770),
    (-2_355_050, -4_663_330),
    (-129_210, 3_682_190),
    (3_469_370, 13_550_230),
    (4_928_270, -12_312_070),
    (-3_195_050, 11_586_050),
    (5_943_700, 2_475_360),
];

const NOTES: [&str; 6] = [
    "battery replaced",
    "sensor cleaned, recalibrated",
    "reads \"high\" after rain",
    "",
    "moved 3 m to the north; see ticket",
    "door open\nclosed again at noon",
];

const STREAM_DEVICE: u64 = 0x7265_6164_696e_6731;
const STREAM_ROW: u64 = 0x7265_6164_696e_6732;
const STREAM_TEMPERATURE: u64 = 0x7265_6164_696e_6733;
const STREAM_HUMIDITY: u64 = 0x7265_6164_696e_6734;

/// What stays the same for a device.
struct Device {
    site: usize,
    latitude: i64,
    longitude: i64,
    /// Its own mean temperature, in hundredths of a degree.
    temperature: i64,
    /// Where in its battery's life the first round found it.
    battery_round: u64,
    /// Microseconds into a round at which it reports.
    report_micros: u64,
}

impl Device {
    fn new(base: u64, number: u64) -> Self {
        let mut random = Random::of_row(base, number);
        let site = random.below(SITES.len() as u64) as usize;
        let (latitude, longitude) = PLACES[site];
        Self {
            site,
            // Within about ten kilometres.
            latitude: latitude + random.below(20_001) as i64 - 10_000,
            longitude: longitude + random.below(20_001) as i64 - 10_000,
            // The nearer the equator, the warmer.
            temperature: 2_600 - latitude.abs() / 2_600 + random.below(401) as i64 - 200,
            battery_round: random.below(BATTERY_ROUNDS),
            report_micros: random.below(ROUND_MICROS - 1_000_000),
        }
    }
}

/// A level between -`reach` and `reach` that wanders from hour to hour.
fn drift(base: u64, device: u64, round: u64, reach: u64) -> i64 {
    let hour = round / DRIFT_ROUNDS;
    // A device's hours lie 2^32 apart from another's, so none shares a number.
    let level = |hour: u64| below(hash(base, (device << 32) + hour), 2 * reach + 1) as i64 - reach as i64;
    let into = (round % DRIFT_ROUNDS) as i64;
    let all = DRIFT_ROUNDS as i64;
    (level(hour) * (all - into) + level(hour + 1) * into) / all
}

/// From -`reach` at midnight to `reach` at noon and back, in straight lines.
fn time_of_day(round: u64, reach: i64) -> i64 {
    let half = (ROUNDS_OF_DAY / 2) as i64;
    let of_day = (round % ROUNDS_OF_DAY) as i64;
    reach - 2 * reach * (half - of_day).abs() / half
}

pub(super) fn arrays(seed: u64, first_row: u64, rows: usize) -> Vec<ArrayRef> {
    fleet_arrays(FLEET_DEVICES, seed, first_row, rows)
}

/// The columns of the workload `readings` for a fleet of any size; with [`FLEET_DEVICES`] they are those of
/// [`super::Workload::batch`]. `first_row + rows` is at most 700 million times `devices`.
pub fn fleet_arrays(devices: NonZeroU32, seed: u64, first_row: u64, rows: usize) -> Vec<ArrayRef> {
    let devices = u64::from(devices.get());
    let of_device = base(seed, STREAM_DEVICE);
    let of_row = base(seed, STREAM_ROW);
    let of_temperature = base(seed, STREAM_TEMPERATURE);
    let of_humidity = base(seed, STREAM_HUMIDITY);

    let mut device_name = TextColumn::with_capacity(rows, 12);
    let mut ts = Vec::with_capacity(rows);
    let mut site = StringBuilder::with_capacity(rows, rows * 10);
    let mut latitude = Vec::with_capacity(rows);
    let mut longitude = Vec::with_capacity(rows);
    let mut temperature = Vec::with_capacity(rows);
    let mut humidity = Vec::with_capacity(rows);
    let mut voltage = Vec::with_capacity(rows);
    let mut status = Vec::with_capacity(rows);
    let mut note = StringBuilder::with_capacity(rows, rows);
    for row in first_row..first_row.saturating_add(rows as u64) {
        let (round, number) = (row / devices, row % devices);
        let device = Device::new(of_device, number);
        let mut random = Random::of_row(of_row, row);
        let bits = random.draw();

        device_name.bytes.extend_from_slice(b"device-");
        match devices {
            0..=100_000 => push_padded::<5>(&mut device_name.bytes, number),
            _ => push_padded::<10>(&mut device_name.bytes, number),
        }
        device_name.end();
        // A jitter of up to a second cannot carry a report into the next round, so device and time are
        // unique.
        let since_start = round * ROUND_MICROS + device.report_micros + random.below(1_000_000);
        ts.push(START_MICROS + since_start as i64);
        site.append_value(SITES[device.site]);
        latitude.push(device.latitude as f64 / 100_000.0);
        longitude.push(device.longitude as f64 / 100_000.0);

        let noise = (bits & 0xf) as i64 - 8;
        let warmth = time_of_day(round, 450) + drift(of_temperature, number, round, 300);
        let hundredths = device.temperature + warmth + noise;
        temperature.push(((bits >> 8) & 0x7f != 0).then(|| hundredths as f64 / 100.0));
        // Warm air is drier; the reach is such that humidity stays between 20 and 90 per cent.
        let moisture = 5_500 - 2 * warmth + drift(of_humidity, number, round, 1_800) + noise;
        humidity.push(((bits >> 16) & 0x7f != 0).then(|| moisture as f64 / 100.0));

        let of_battery = (device.battery_round + round) % BATTERY_ROUNDS;
        let millivolts = 4_200 - (of_battery * 900 / BATTERY_ROUNDS) as i128 + i128::from((bits >> 4) & 3);
        voltage.push(((bits >> 24) & 0xff != 0).then_some(millivolts));
        status.push(match (bits >> 32) & 0x3ff {
            0..=7 => 1_i16,
            8..=9 => 2,
            10 => -1,
            _ if millivolts < 3_390 => 3,
            _ => 0,
        });
        // Which note it is comes from the bits above those that say whether there is one.
        match (bits >> 44) & 0x3f {
            0 => note.append_value(NOTES[below(bits, NOTES.len() as u64) as usize]),
            _ => note.append_null(),
        }
    }
    let voltage = Decimal128Array::from(voltage)
        .with_precision_and_scale(VOLTAGE_PRECISION, VOLTAGE_SCALE)
        .expect("a scale of 3 is within a precision of 6");
    vec![
        device_name.finish(),
        Arc::new(TimestampMicrosecondArray::from(ts).with_timezone("UTC")),
        Arc::new(site.finish()),
        Arc::new(Float64Array::from(latitude)),
        Arc::new(Float64Array::from(longitude)),
        Arc::new(Float64Array::from(temperature)),
        Arc::new(Float64Array::from(humidity)),
        Arc::new(voltage),
        Arc::new(Int16Array::from(status)),
        Arc::new(note.finish()),
    ]
}
