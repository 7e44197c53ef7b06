//! Files made to be too much: the program reads them with little memory, and ends as it should.

use std::{
    fs::File,
    io::{Seek, SeekFrom, Write},
    process::{Command, Stdio},
    sync::Arc,
};

use arrow::{
    array::{
        ArrayRef, DictionaryArray, Int32Array, LargeStringArray, ListArray, NullArray, RecordBatch, RunArray,
    },
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, Int32Type},
    ipc::root_as_message,
};

use crate::{
    packing::{PACKINGS, arrow_file, arrow_stream},
    process::tonnage,
    support::{Database, TestDatabase},
};

/// The address space that the program has for such a file, in KiB. Beside what it holds, every thread takes some, and
/// so does the allocator.
const ROOM_KIB: u64 = 1_536 << 10;

const MIB: usize = 1 << 20;

/// What a hostile file must come to.
enum End {
    /// An error that says this, and a hint.
    Error(&'static str),
    /// All is read but what is put aside: the rows written and the rows rejected.
    Account(u64, u64),
}

/// Writes what a program reads from standard input.
type Feed<'a> = &'a dyn Fn(&mut dyn Write);

/// Loads `file` (or what `feed` writes, from standard input) with little memory.
#[track_caller]
fn check(place: &TestDatabase, file: &str, options: &str, feed: Option<Feed<'_>>, end: &End) {
    let program = tonnage();
    let rejects = file.replace('-', "stdin");
    let arguments = format!(
        "load {file} shop.db -t t --create=new --rejects {rejects}.rejects --report report.json {options}"
    );
    let command = format!(
        "ulimit -v {ROOM_KIB}; exec {} {arguments}",
        program.get_program().to_string_lossy()
    );
    for left in ["shop.db", "report.json"] {
        let _ = std::fs::remove_file(place.path(left));
    }
    let mut child = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", &command])
        .current_dir(place.path("."))
        // Otherwise every thread may reserve address space that it never uses.
        .env("MALLOC_ARENA_MAX", "2")
        // Each worker has a stack and an area of its own, and a machine of many processors would have many workers.
        .env("TOKIO_WORKER_THREADS", "4")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        let waiting = scope.spawn(move || child.wait_with_output());
        if let Some(feed) = feed {
            feed(&mut pipe);
        }
        drop(pipe);
        waiting
            .join()
            .expect("the waiter ends")
            .expect("the program ends")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    let shown = format!(
        "{file}: {:?}\n{}",
        output.status,
        said.get(..2_000).unwrap_or(&said)
    );
    assert!(!said.contains("panicked"), "{shown}");
    match end {
        End::Error(what) => {
            assert_eq!(output.status.code(), Some(1), "{shown}");
            assert!(said.contains("error: ") && said.contains("hint: "), "{shown}");
            assert!(said.contains(what), "{shown}");
            assert!(said.len() < 40_000, "{file}: {} bytes were said", said.len());
        }
        End::Account(written, rejected) => {
            let code = if *rejected > 0 { 3 } else { 0 };
            assert_eq!(output.status.code(), Some(code), "{shown}");
            let report = crate::process::report(&place.path("report.json"));
            assert_eq!(report["rows"]["written"], *written, "{shown}");
            assert_eq!(report["rows"]["rejected"], *rejected, "{shown}");
        }
    }
}

fn check_bytes(file: &str, bytes: &[u8], options: &str, end: &End) {
    let place = TestDatabase::new(Database::Sqlite);
    place.write(file, bytes);
    check(&place, file, options, None, end);
}

/// `before`, then `count` times a MiB of `filling`, then `after`; each packed by itself, which every packing reads as
/// one.
fn bomb(pack: fn(&[u8]) -> Vec<u8>, before: &[u8], filling: &[u8], count: usize, after: &[u8]) -> Vec<u8> {
    const PARTS_AT_ONCE: usize = 16;
    let part = pack(&filling.repeat(MIB * PARTS_AT_ONCE / filling.len()));
    [pack(before), part.repeat(count / PARTS_AT_ONCE), pack(after)].concat()
}

#[test]
fn a_small_file_that_unpacks_to_one_huge_record_costs_that_record_only() {
    for (ending, pack) in PACKINGS {
        // What takes long to unpack is not made longer than it must be.
        let mebibytes = if *ending == ".gz" { 2_048 } else { 512 };
        let bytes = bomb(*pack, b"id,name\n1,a\n2,", b"x", mebibytes, b"\n3,c\n");
        assert!(bytes.len() < mebibytes * MIB / 50, "{ending}: {}", bytes.len());
        check_bytes(&format!("field.csv{ending}"), &bytes, "", &End::Account(2, 1));
    }
    let gzip = PACKINGS[0].1;
    let quoted = bomb(gzip, b"id,name\n1,a\n2,\"", b"x\n", 256, b"");
    check_bytes(
        "quote.csv.gz",
        &quoted,
        "--max-rejects 100",
        &End::Error("more than 100 rows are bad"),
    );
    let json = bomb(gzip, b"{\"id\":1}\n{\"id\":\"", b"x", 256, b"\"}\n{\"id\":3}\n");
    check_bytes("line.jsonl.gz", &json, "", &End::Account(2, 1));
    let header = bomb(gzip, b"id,", b"x", 256, b"\n1,2\n");
    check_bytes(
        "header.csv.gz",
        &header,
        "",
        &End::Error("the header cannot be read"),
    );
    let arrow = bomb(gzip, b"ARROW1\0\0", b"\0", 256, b"");
    check_bytes("zeros.arrow.gz", &arrow, "", &End::Error("is not an Arrow file"));
}

#[test]
fn a_field_of_two_gigabytes_from_a_pipe_is_one_bad_row() {
    let place = TestDatabase::new(Database::Sqlite);
    let feed = |pipe: &mut dyn Write| {
        let part = vec![b'x'; MIB];
        let _ = pipe.write_all(b"id,name\n1,a\n2,");
        for _ in 0..2_048 {
            if pipe.write_all(&part).is_err() {
                return;
            }
        }
        let _ = pipe.write_all(b"\n3,c\n");
    };
    check(&place, "-", "", Some(&feed), &End::Account(2, 1));
}

#[test]
fn text_that_is_all_columns_keys_or_brackets_is_refused_or_read() {
    let columns = (0..1_000_000)
        .map(|number| format!("c{number}"))
        .collect::<Vec<_>>();
    let header = columns.join(",");
    check_bytes(
        "wide.csv",
        format!("{header}\n").as_bytes(),
        "",
        &End::Error("the header has 1000000 columns, more than 65536"),
    );
    check_bytes(
        "wide.tsv",
        header.replace(',', "\t").as_bytes(),
        "--no-header",
        &End::Error("the first record has 1000000 columns, more than 65536"),
    );
    let keys = columns.iter().map(|name| format!("\"{name}\":1"));
    let object = format!("{{{}}}\n", keys.collect::<Vec<_>>().join(","));
    check_bytes(
        "wide.jsonl",
        object.as_bytes(),
        "",
        &End::Error("the first rows have more than 4096 different keys"),
    );
    let late = format!("{{\"c1\":1}}\n{object}{{\"c1\":2}}\n");
    check_bytes(
        "late.jsonl",
        late.as_bytes(),
        "",
        &End::Error("the first rows have more than 4096 different keys"),
    );
    let long = format!("{}\n1\n", "x".repeat(40 * MIB));
    check_bytes("long.csv", long.as_bytes(), "", &End::Error("has a name of"));
    let deep = format!(
        "{{\"id\":1,\"tags\":{}{}}}\n{{\"id\":2,\"tags\":{}}}\n",
        "[".repeat(MIB),
        "]".repeat(MIB),
        "[".repeat(MIB)
    );
    check_bytes("deep.jsonl", deep.as_bytes(), "", &End::Account(1, 1));
}

/// Values of Thrift's compact form, as Parquet's footers are written in it.
mod thrift {
    pub fn number(value: i64) -> Vec<u8> {
        let mut left = ((value << 1) ^ (value >> 63)) as u64;
        let mut bytes = Vec::new();
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
        bytes
    }

    /// The head of a list of `length` structs.
    pub fn structs(length: u32) -> Vec<u8> {
        let mut bytes = vec![0xfc];
        let mut left = length;
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
        bytes
    }

    /// A struct of fields: the step from the last one's number, the type, and the value.
    pub fn record(fields: &[(u8, u8, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (step, ty, value) in fields {
            bytes.push(step << 4 | ty);
            bytes.extend_from_slice(value);
        }
        bytes.push(0);
        bytes
    }
}

/// A group of a schema, that says it has so many children.
fn group(children: i64) -> Vec<u8> {
    thrift::record(&[
        (3, 5, thrift::number(0)),
        (1, 8, b"\x01g".to_vec()),
        (1, 5, thrift::number(children)),
    ])
}

/// A column of 32-bit numbers, or of texts that all have `width` bytes.
fn leaf(width: Option<i64>) -> Vec<u8> {
    let mut fields = vec![(1, 5, thrift::number(if width.is_some() { 7 } else { 1 }))];
    if let Some(width) = width {
        fields.push((1, 5, thrift::number(width)));
        fields.push((1, 5, thrift::number(1)));
    } else {
        fields.push((2, 5, thrift::number(1)));
    }
    fields.push((1, 8, b"\x01n".to_vec()));
    thrift::record(&fields)
}

/// A Parquet file of nothing but a footer.
fn parquet(elements: u32, schema: &[u8], groups: u32) -> Vec<u8> {
    let footer = thrift::record(&[
        (1, 5, thrift::number(1)),
        (1, 9, [thrift::structs(elements), schema.to_vec()].concat()),
        (1, 6, thrift::number(0)),
        (1, 9, thrift::structs(groups)),
    ]);
    let length = (footer.len() as u32).to_le_bytes();
    [b"PAR1".as_slice(), &footer, &length, b"PAR1"].concat()
}

#[test]
fn a_parquet_footer_that_claims_too_much_is_refused() {
    let flat = [group(1), leaf(None)].concat();
    // Without claims it is a table without rows.
    check_bytes("empty.parquet", &parquet(2, &flat, 0), "", &End::Account(0, 0));
    let deep = [group(1).repeat(50_000), leaf(None)].concat();
    let cases: &[(&str, Vec<u8>, &str)] = &[
        (
            "groups",
            parquet(2, &flat, i32::MAX as u32),
            "2147483647 row groups",
        ),
        (
            "elements",
            parquet(i32::MAX as u32, &flat, 0),
            "2147483647 elements",
        ),
        (
            "children",
            parquet(2, &[group(i32::MAX.into()), leaf(None)].concat(), 0),
            "more columns than there are",
        ),
        (
            "below",
            parquet(2, &[group(-1), leaf(None)].concat(), 0),
            "fewer columns than none",
        ),
        ("deep", parquet(50_001, &deep, 0), "64 groups deep"),
        (
            "fixed",
            parquet(2, &[group(1), leaf(Some(i32::MAX.into()))].concat(), 0),
            "2147483647 bytes each",
        ),
    ];
    for (name, bytes, what) in cases {
        check_bytes(&format!("{name}.parquet"), bytes, "", &End::Error(what));
    }
    for length in [1u32 << 31, u32::MAX] {
        let mut bytes = parquet(2, &flat, 0);
        let at = bytes.len() - 8;
        bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        check_bytes("length.parquet", &bytes, "", &End::Error("does not fit into it"));
    }
}

#[test]
fn a_file_with_holes_is_not_believed_to_be_full() {
    let place = TestDatabase::new(Database::Sqlite);
    let write = |name: &str, parts: &[(u64, &[u8])]| {
        let mut file = File::create(place.path(name)).expect("a file");
        for (at, bytes) in parts {
            file.seek(SeekFrom::Start(*at)).expect("a place");
            file.write_all(bytes).expect("room");
        }
    };
    let tail = [2_000_000_000u32.to_le_bytes().as_slice(), b"PAR1"].concat();
    write("holes.parquet", &[(0, b"PAR1"), (5 << 30, &tail)]);
    check(
        &place,
        "holes.parquet",
        "",
        None,
        &End::Error("is longer than 268435456"),
    );
    let tail = [2_000_000_000u32.to_le_bytes().as_slice(), b"ARROW1"].concat();
    write("holes.arrow", &[(0, b"ARROW1\0\0"), (5 << 30, &tail)]);
    check(
        &place,
        "holes.arrow",
        "",
        None,
        &End::Error("is longer than 268435456"),
    );
    write("holes.csv", &[(0, b"id,name\n1,a\n2,"), (1 << 30, b"\n3,c\n")]);
    check(&place, "holes.csv", "", None, &End::Account(2, 1));
    // A batch that has more bytes than are held: the body's length of the footer, and a file as long.
    let whole = arrow_file(&[numbers()], None);
    let first = whole.windows(4).position(|word| word == [0xff; 4]);
    let body = body_bytes(&whole[first.expect("a message")..]);
    let lengths: Vec<usize> = (0..whole.len() - 8)
        .filter(|at| whole[*at..*at + 8] == body.to_le_bytes())
        .collect();
    let mut large = whole.clone();
    let last = *lengths.last().expect("the footer has it");
    large[last..last + 8].copy_from_slice(&(6i64 << 30).to_le_bytes());
    let footer = u32::from_le_bytes(
        whole[whole.len() - 10..whole.len() - 6]
            .try_into()
            .expect("4 bytes"),
    );
    let footer_at = whole.len() - 10 - footer as usize;
    write(
        "large.arrow",
        &[(0, &large[..footer_at]), (7 << 30, &large[footer_at..])],
    );
    check(
        &place,
        "large.arrow",
        "",
        None,
        &End::Error("is larger than 4294967296"),
    );
}

fn numbers() -> RecordBatch {
    let numbers = Int32Array::from_iter_values(0..1_237);
    RecordBatch::try_from_iter([("id", Arc::new(numbers) as ArrayRef)]).expect("a column")
}

/// The messages of a stream: where each begins, and the length of its head.
fn messages(stream: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(prefix) = stream.get(at..at + 8) {
        let head = i32::from_le_bytes(prefix[4..].try_into().expect("4 bytes")) as usize;
        if head == 0 {
            break;
        }
        let message = root_as_message(&stream[at + 8..at + 8 + head]).expect("a message");
        found.push((at, head));
        at += 8 + head + message.bodyLength() as usize;
    }
    found
}

/// The bytes of the body of the first batch.
fn body_bytes(stream: &[u8]) -> i64 {
    let (at, head) = messages(stream)[1];
    root_as_message(&stream[at + 8..at + 8 + head])
        .expect("a message")
        .bodyLength()
}

#[test]
fn lengths_of_arrow_messages_are_not_believed() {
    let whole = arrow_stream(&[numbers()], None);
    let (at, head) = messages(&whole)[1];
    for (length, what) in [
        (i32::MAX, "is larger than"),
        (-2, "a message has no length"),
        (i32::MIN, "a message has no length"),
    ] {
        let mut bytes = whole.clone();
        bytes[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
        check_bytes("head.arrows", &bytes, "", &End::Error(what));
    }
    let body = body_bytes(&whole).to_le_bytes();
    let place = (at..at + 8 + head)
        .find(|place| whole[*place..*place + 8] == body)
        .expect("the head has it");
    for (length, what) in [
        (i64::MAX, "is larger than"),
        (1 << 40, "is larger than"),
        (-1, "a message has no length"),
        (3 << 30, "rows may be missing"),
    ] {
        let mut bytes = whole.clone();
        bytes[place..place + 8].copy_from_slice(&length.to_le_bytes());
        check_bytes("body.arrows", &bytes, "", &End::Error(what));
    }
}

#[test]
fn a_few_values_that_stand_for_many_are_refused() {
    // On average they are short, so many of the rows are a block.
    let text = "x".repeat(4 * MIB);
    let mut texts = vec![text.as_str()];
    texts.resize(100_000, "");
    let keys = Int32Array::from(vec![0; 60_000]);
    let values = Arc::new(LargeStringArray::from(texts));
    let dictionary = DictionaryArray::<Int32Type>::try_new(keys, values).expect("keys of it");
    let ends = Int32Array::from(vec![1_000, 20_000_000]);
    let values = LargeStringArray::from(vec![text.as_str(), ""]);
    let runs = RunArray::<Int32Type>::try_new(&ends, &values).expect("runs of it");
    for (name, column) in [
        ("dictionary", Arc::new(dictionary) as ArrayRef),
        ("runs", Arc::new(runs) as ArrayRef),
    ] {
        let batch = RecordBatch::try_from_iter([("name", column)]).expect("a column");
        check_bytes(
            &format!("{name}.arrows"),
            &arrow_stream(&[batch], None),
            "",
            &End::Error("dictionaries and runs stand for"),
        );
    }
    let item = Arc::new(Field::new_list_field(DataType::Null, true));
    let nulls = Arc::new(NullArray::new(i32::MAX as usize)) as ArrayRef;
    let list = ListArray::try_new(item, OffsetBuffer::from_lengths([i32::MAX as usize]), nulls, None);
    let batch = RecordBatch::try_from_iter([("list", Arc::new(list.expect("a list")) as ArrayRef)]);
    check_bytes(
        "nulls.arrows",
        &arrow_stream(&[batch.expect("a column")], None),
        "",
        &End::Error("more values than its bytes can hold"),
    );
}

#[test]
fn files_of_other_kinds_are_told_apart() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_tonnage")).expect("the program");
    let program = &program[..MIB];
    let image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\x01\0\x08\x06\0\0\0\\r\xa8f".as_slice();
    let archive = b"PK\x03\x04\x14\0\0\0\x08\0".as_slice();
    for (name, bytes) in [
        ("program", program),
        ("image", image),
        ("archive", archive),
        ("nothing", b"".as_slice()),
    ] {
        for ending in ["parquet", "arrow", "csv.gz"] {
            if name == "nothing" && ending == "csv.gz" {
                check_bytes("nothing.csv.gz", bytes, "", &End::Error("is empty"));
                continue;
            }
            check_bytes(&format!("{name}.{ending}"), bytes, "", &End::Error(""));
        }
    }
}
