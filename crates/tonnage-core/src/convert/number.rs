//! Integers, floats and decimals.

use std::fmt::Write;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray},
    datatypes::{
        Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, i256,
    },
};

use super::{
    boxed,
    values::{map, texts},
};
use crate::{
    parse::{Decimal, Fault, Notes, POWERS_OF_TEN, Parsed, float32, float64, numeric},
    reject::sqlstate,
    types::ColumnType,
};

/// The scale of a whole number.
const WHOLE: Decimal = Decimal {
    precision: 38,
    scale: 0,
};

/// From 64 bits to any number or text. None for other types.
pub(super) fn from_int(
    array: &PrimitiveArray<Int64Type>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let (values, nulls) = (array.values(), array.nulls());
    match ty {
        ColumnType::Int16 => boxed(map::<_, Int16Type>(values, nulls, ty, notes, |n| fit(n, ty))),
        ColumnType::Int32 => boxed(map::<_, Int32Type>(values, nulls, ty, notes, |n| fit(n, ty))),
        ColumnType::Int64 => boxed(array.clone()),
        ColumnType::Float32 => boxed(map::<_, Float32Type>(values, nulls, ty, notes, |n| {
            let float = n as f32;
            // Through 128 bits, because 2^63, to which the largest rounds, is not one of the 64-bit integers.
            if float as i128 == i128::from(n) {
                return Ok(float);
            }
            Err(would_become(n, float as i128, ty))
        })),
        ColumnType::Float64 => boxed(map::<_, Float64Type>(values, nulls, ty, notes, |n| {
            let float = n as f64;
            if float as i128 == i128::from(n) {
                return Ok(float);
            }
            Err(would_become(n, float as i128, ty))
        })),
        ColumnType::Decimal { precision, scale } => {
            let to = Decimal {
                precision: *precision,
                scale: *scale,
            };
            boxed(map::<_, Decimal128Type>(values, nulls, ty, notes, |n| {
                rescale(i128::from(n), 0, to)
            }))
        }
        ColumnType::Numeric | ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(values, nulls, ty, notes, |n, text| {
                // Writing to a string does not fail.
                let _ = write!(text, "{n}");
                Ok(())
            }))
        }
        _ => None,
    }
}

/// A narrower integer.
#[inline]
fn fit<N: TryFrom<i64>>(number: i64, ty: &ColumnType) -> Parsed<N> {
    N::try_from(number).map_err(|_| Fault::out_of_range(number.to_string().as_bytes(), ty))
}

/// `9007199254740993 would become 9007199254740992 as float64`.
#[cold]
fn would_become(from: impl ToString, to: impl ToString, ty: &ColumnType) -> Box<Fault> {
    Fault::new(
        sqlstate::WOULD_CHANGE,
        format!("{} would become {} as {ty}", from.to_string(), to.to_string()),
    )
}

/// From single precision to any float, decimal or text. None for other types.
pub(super) fn from_float32(
    array: &PrimitiveArray<Float32Type>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    match ty {
        ColumnType::Float32 => boxed(array.clone()),
        ColumnType::Float64 => boxed(map::<_, Float64Type>(
            array.values(),
            array.nulls(),
            ty,
            notes,
            |float| Ok(f64::from(float)),
        )),
        _ => from_float(array, ty, notes, |float, text| {
            write_float(text, float.is_infinite(), &float)
        }),
    }
}

/// From double precision to any float, decimal or text. None for other types.
pub(super) fn from_float64(
    array: &PrimitiveArray<Float64Type>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    match ty {
        ColumnType::Float64 => boxed(array.clone()),
        ColumnType::Float32 => boxed(map::<_, Float32Type>(
            array.values(),
            array.nulls(),
            ty,
            notes,
            |double| {
                let single = double as f32;
                if f64::from(single) == double || double.is_nan() {
                    Ok(single)
                } else if single.is_infinite() {
                    Err(Fault::out_of_range(double.to_string().as_bytes(), ty))
                } else {
                    Err(would_become(double, f64::from(single), ty))
                }
            },
        )),
        _ => from_float(array, ty, notes, |double, text| {
            write_float(text, double.is_infinite(), &double);
        }),
    }
}

/// From a float to what holds decimal digits: the fewest that read back as the same float.
fn from_float<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
    write: impl Fn(T::Native, &mut String),
) -> Option<ArrayRef> {
    let (values, nulls) = (array.values(), array.nulls());
    match ty {
        ColumnType::Decimal { precision, scale } => {
            let to = Decimal {
                precision: *precision,
                scale: *scale,
            };
            boxed(map::<_, Decimal128Type>(values, nulls, ty, notes, |float| {
                let mut text = String::new();
                write(float, &mut text);
                to.read(text.as_bytes())
            }))
        }
        ColumnType::Numeric => boxed(texts(values, nulls, ty, notes, |float, text| {
            let mut digits = String::new();
            write(float, &mut digits);
            let plain = numeric(digits.as_bytes())?;
            text.extend(plain.iter().map(|byte| char::from(*byte)));
            Ok(())
        })),
        ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(values, nulls, ty, notes, |float, text| {
                write(float, text);
                Ok(())
            }))
        }
        _ => None,
    }
}

/// The shortest text that reads back as the same float: `1`, `0.1`, `1e300`, `NaN`, `-Infinity`.
fn write_float(text: &mut String, infinite: bool, float: &impl std::fmt::Debug) {
    // The debug form is the shortest one, with an exponent where that is shorter.
    let _ = write!(text, "{float:?}");
    if infinite {
        let negative = text.starts_with('-');
        text.clear();
        text.push_str(if negative { "-Infinity" } else { "Infinity" });
    } else if let Some(whole) = text.strip_suffix(".0") {
        text.truncate(whole.len());
    }
}

/// From a decimal of 128 bits and any scale. A float takes what it gives back, as it takes a text. None
/// for types that hold no number.
pub(super) fn from_decimal(
    array: &PrimitiveArray<Decimal128Type>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let (values, nulls) = (array.values(), array.nulls());
    let from = array.scale();
    let whole = |units: i128| rescale(units, from, WHOLE);
    let text = |units: i128| decimal_text(&units.to_string(), from);
    match ty {
        ColumnType::Int16 => boxed(map::<_, Int16Type>(values, nulls, ty, notes, |n| {
            fit_whole(whole(n), || text(n), ty)
        })),
        ColumnType::Int32 => boxed(map::<_, Int32Type>(values, nulls, ty, notes, |n| {
            fit_whole(whole(n), || text(n), ty)
        })),
        ColumnType::Int64 => boxed(map::<_, Int64Type>(values, nulls, ty, notes, |n| {
            fit_whole(whole(n), || text(n), ty)
        })),
        ColumnType::Float32 => boxed(map::<_, Float32Type>(values, nulls, ty, notes, |n| {
            float32(text(n).as_bytes())
        })),
        ColumnType::Float64 => boxed(map::<_, Float64Type>(values, nulls, ty, notes, |n| {
            float64(text(n).as_bytes())
        })),
        ColumnType::Decimal { precision, scale } => {
            let to = Decimal {
                precision: *precision,
                scale: *scale,
            };
            // Arrow does not promise that values keep within the precision of their type.
            let bound = POWERS_OF_TEN[usize::from(to.precision)].unsigned_abs();
            let fits = |row: usize| array.is_null(row) || values[row].unsigned_abs() < bound;
            if array.data_type() == &ty.arrow() && (0..array.len()).all(fits) {
                return boxed(array.clone());
            }
            boxed(map::<_, Decimal128Type>(values, nulls, ty, notes, |units| {
                rescale(units, from, to)
            }))
        }
        ColumnType::Numeric | ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(values, nulls, ty, notes, |units, text| {
                write_decimal(text, &units.to_string(), from);
                Ok(())
            }))
        }
        _ => None,
    }
}

/// A whole number as an integer of a column of type `ty`; `text` is what it came from.
fn fit_whole<N: TryFrom<i128>>(
    number: Parsed<i128>,
    text: impl Fn() -> String,
    ty: &ColumnType,
) -> Parsed<N> {
    match number {
        Ok(number) => N::try_from(number).map_err(|_| Fault::out_of_range(text().as_bytes(), ty)),
        // Beyond 128 bits: the fault speaks of a type that is neither the column's nor the source's.
        Err(fault) if fault.code == sqlstate::OUT_OF_RANGE => Err(Fault::out_of_range(text().as_bytes(), ty)),
        Err(fault) => Err(fault),
    }
}

/// From a decimal of 256 bits, by way of its digits: rare, and so not made fast.
pub(super) fn from_decimal256(
    array: &PrimitiveArray<Decimal256Type>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let (values, nulls) = (array.values(), array.nulls());
    let scale = array.scale();
    let digits = |units: i256| decimal_text(&units.to_string(), scale);
    let whole = |units: i256| WHOLE.read(digits(units).as_bytes());
    match ty {
        ColumnType::Int16 => boxed(map::<_, Int16Type>(values, nulls, ty, notes, |n| {
            fit_whole(whole(n), || digits(n), ty)
        })),
        ColumnType::Int32 => boxed(map::<_, Int32Type>(values, nulls, ty, notes, |n| {
            fit_whole(whole(n), || digits(n), ty)
        })),
        ColumnType::Int64 => boxed(map::<_, Int64Type>(values, nulls, ty, notes, |n| {
            fit_whole(whole(n), || digits(n), ty)
        })),
        ColumnType::Float32 => boxed(map::<_, Float32Type>(values, nulls, ty, notes, |n| {
            float32(digits(n).as_bytes())
        })),
        ColumnType::Float64 => boxed(map::<_, Float64Type>(values, nulls, ty, notes, |n| {
            float64(digits(n).as_bytes())
        })),
        ColumnType::Decimal { precision, scale } => {
            let to = Decimal {
                precision: *precision,
                scale: *scale,
            };
            boxed(map::<_, Decimal128Type>(values, nulls, ty, notes, |n| {
                to.read(digits(n).as_bytes())
            }))
        }
        ColumnType::Numeric | ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(values, nulls, ty, notes, |units, text| {
                text.push_str(&digits(units));
                Ok(())
            }))
        }
        _ => None,
    }
}

/// The same number in units of another decimal place.
#[inline]
fn rescale(units: i128, from: i8, to: Decimal) -> Parsed<i128> {
    let shift = i32::from(to.scale) - i32::from(from);
    let power = POWERS_OF_TEN.get(shift.unsigned_abs() as usize);
    let moved = match power {
        Some(power) if shift >= 0 => units.checked_mul(*power),
        Some(power) if units % power == 0 => Some(units / power),
        _ => None,
    };
    match moved {
        Some(moved) if moved.unsigned_abs() < POWERS_OF_TEN[usize::from(to.precision)].unsigned_abs() => {
            Ok(moved)
        }
        _ => {
            // The reader of decimal text knows what is wrong, and finds the zeros that a shift of more than
            // 38 digits leaves.
            to.read(decimal_text(&units.to_string(), from).as_bytes())
        }
    }
}

fn decimal_text(units: &str, scale: i8) -> String {
    let mut text = String::new();
    write_decimal(&mut text, units, scale);
    text
}

/// Plain decimal text of a whole number of units of a decimal place: `-1205` at scale 2 is `-12.05`, at scale
/// -2 `-120500`.
fn write_decimal(text: &mut String, units: &str, scale: i8) {
    let (sign, digits) = match units.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", units),
    };
    text.push_str(sign);
    let places = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        text.push_str(digits);
        if digits != "0" {
            text.extend(std::iter::repeat_n('0', places));
        }
        return;
    }
    let missing = (places + 1).saturating_sub(digits.len());
    let padded = "0".repeat(missing) + digits;
    let (whole, fraction) = padded.split_at(padded.len() - places);
    text.push_str(whole);
    text.push('.');
    text.push_str(fraction);
}
