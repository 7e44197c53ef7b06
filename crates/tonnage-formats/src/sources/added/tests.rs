use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringArray};
use tonnage_core::{parse::ParseContext, source::ReadRequest, types::ColumnType};

use super::{RunStart, changing, with_columns};
use crate::sources::{TextOptions, open};

/// The values of the last added column over the rows of a file, and the messages of rows that have none.
fn made(csv: &str, added: &str) -> (Vec<Option<String>>, Vec<String>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("in.csv");
    std::fs::write(&path, csv).expect("a file");
    let source = open(&[path.display().to_string()], None, &TextOptions::default()).expect("a source");
    let run: Arc<RunStart> = Arc::default();
    run.id.set("r1".to_owned()).expect("once");
    let added = [("made".to_owned(), added.to_owned())];
    let mut source =
        with_columns(source, &added, &ParseContext::default(), run).unwrap_or_else(|error| panic!("{error}"));
    let last = source.schema().columns.len() - 1;
    let request = ReadRequest {
        columns: vec![(0, ColumnType::TEXT), (last, ColumnType::TEXT)],
        block_rows: 100,
        block_bytes: 1 << 20,
    };
    source.request(&request).expect("a request");
    let block = source.next().expect("a block").expect("rows");
    let rejects = block.rejects.iter().map(|reject| reject.problem.message.clone());
    let values = texts_of(&block.rows, 1)
        .iter()
        .map(|text| text.map(str::to_owned))
        .collect();
    (values, rejects.collect())
}

fn texts_of(rows: &RecordBatch, column: usize) -> StringArray {
    rows.column(column).as_string::<i32>().clone()
}

const ROWS: &str = "first,last,born,extra\n Ada ,LOVELACE,1815-12-10,\"{\"\"a\"\":{\"\"b\"\":[1.10,\"\"x\"\"]}}\"\nAlan,,1912-06-23,{}\n";

fn values(added: &str) -> Vec<Option<String>> {
    let (values, rejects) = made(ROWS, added);
    assert!(rejects.is_empty(), "{added}: {rejects:?}");
    values
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

#[test]
fn texts_with_braces_are_made_of_columns() {
    for (added, expected) in [
        ("north", some(&["north", "north"])),
        ("{first}", some(&[" Ada ", "Alan"])),
        ("{trim(first)} {lower(last)}", some(&["Ada lovelace", "Alan "])),
        ("{row}: {run}", some(&["1: r1", "2: r1"])),
        ("{{{first}}}", some(&["{ Ada }", "{Alan}"])),
        (r#"{"a": 1}"#, some(&[r#"{"a": 1}"#, r#"{"a": 1}"#])),
        ("upper(trim(first))", some(&["ADA", "ALAN"])),
        ("{coalesce(last, 'none')}", some(&["LOVELACE", "none"])),
        (
            "{concat(last, '-', trim(\"first\"))}",
            some(&["LOVELACE-Ada", "-Alan"]),
        ),
        ("replace(born, '-', '')", some(&["18151210", "19120623"])),
        ("substr(born, 1, 4)", some(&["1815", "1912"])),
        ("substr(born, 6)", some(&["12-10", "06-23"])),
        ("split(born, '-', 2)", some(&["12", "06"])),
        ("split(born, '-', -1)", some(&["10", "23"])),
        ("format(born, '%d.%m.%Y')", some(&["10.12.1815", "23.06.1912"])),
        ("cast(split(born, '-', 2) as int)", some(&["12", "6"])),
        ("cast('1.5', decimal(6,2))", some(&["1.50", "1.50"])),
        ("(not a call)", some(&["(not a call)", "(not a call)"])),
    ] {
        assert_eq!(values(added), expected, "{added}");
    }
    let added = |text: &str| [("a".to_owned(), text.to_owned())];
    assert_eq!(changing(&added("{trim(run)}")), Some("a"));
    assert_eq!(changing(&added("{file} {row}")), None);
    assert_eq!(values("{last}"), [Some("LOVELACE".to_owned()), None]);
    assert_eq!(
        values("nullif(trim(first), 'Alan')"),
        [Some("Ada".to_owned()), None]
    );
    assert_eq!(values("split(born, '-', 4)"), [None, None]);
    // Numbers keep their digits.
    assert_eq!(values("json(extra, '$.a.b[0]')"), [Some("1.10".to_owned()), None]);
    assert_eq!(values("json(extra, 'a.b[1]')"), [Some("x".to_owned()), None]);
    assert_eq!(
        values("json(extra, '$.a')"),
        [Some(r#"{"b":[1.10,"x"]}"#.to_owned()), None]
    );
}

#[test]
fn a_row_whose_value_cannot_be_made_is_a_reject() {
    let (values, rejects) = made(ROWS, "cast(last as int)");
    assert_eq!(values, [None]);
    assert_eq!(rejects.len(), 1);
    assert!(rejects[0].contains("LOVELACE"), "{rejects:?}");
    let (values, rejects) = made(ROWS, "json(last, '$.a')");
    assert_eq!((values, rejects.len()), (vec![None], 1));
}

#[test]
fn a_column_can_be_replaced_by_what_is_made_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("in.csv");
    std::fs::write(&path, ROWS).expect("a file");
    let source = open(&[path.display().to_string()], None, &TextOptions::default()).expect("a source");
    let added = [("FIRST".to_owned(), "{trim(first)}".to_owned())];
    let mut source = with_columns(source, &added, &ParseContext::default(), Arc::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<_> = source
        .schema()
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(names, ["first", "last", "born", "extra"]);
    let request = ReadRequest {
        columns: vec![(0, ColumnType::TEXT), (1, ColumnType::TEXT)],
        block_rows: 100,
        block_bytes: 1 << 20,
    };
    source.request(&request).expect("a request");
    let block = source.next().expect("a block").expect("rows");
    let first: Vec<_> = texts_of(&block.rows, 0)
        .iter()
        .map(|text| text.map(str::to_owned))
        .collect();
    assert_eq!(first, some(&["Ada", "Alan"]));
    assert_eq!(texts_of(&block.rows, 1).iter().next(), Some(Some("LOVELACE")));
}

#[test]
fn what_is_no_expression_says_so() {
    for (added, message) in [
        ("{line}", "has no column 'line'"),
        ("trim(first", "the end where ',' was expected"),
        ("{first", "the end where '}' was expected"),
        ("first}", "a } without its {"),
        ("{)}", "')' where a column, a function or a 'text' was expected"),
        ("{shout(first)}", "there is no function shout"),
        ("{trim(first, last)}", "trim does not take 2 values"),
        ("{split(first, ' ', 0)}", "parts are numbered from 1"),
        ("{split(first, ' ', last)}", "the same for all rows"),
        ("{json(extra, '')}", ""),
        ("{json(extra, '$..')}", "is no path into JSON"),
        ("{cast(first, bogus)}", "bogus"),
        ("{format(born, '%Q9')}", "cannot be used"),
        ("{'open}", "does not end"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("in.csv");
        std::fs::write(&path, ROWS).expect("a file");
        let source = open(&[path.display().to_string()], None, &TextOptions::default()).expect("a source");
        let added_columns = [("made".to_owned(), added.to_owned())];
        match with_columns(source, &added_columns, &ParseContext::default(), Arc::default()) {
            Ok(_) => assert_eq!(message, "", "{added}"),
            Err(error) => {
                assert!(
                    !message.is_empty() && error.to_string().contains(message),
                    "{added}: {error}"
                );
            }
        }
    }
    let deep = format!("{{{}first{}}}", "trim(".repeat(40), ")".repeat(40));
    let nested = super::used_columns(&[("a".to_owned(), deep)]);
    assert!(nested.is_err_and(|error| error.to_string().contains("within each other")));
}

#[test]
fn a_time_that_a_pattern_cannot_show_is_a_bad_row() {
    let (values, rejects) = made("at\n2024-02-29\n12000-01-01 00:00:00\n", "format(at, '%d.%m.%Y')");
    assert_eq!(values, some(&["29.02.2024"]));
    assert_eq!(rejects.len(), 1, "{rejects:?}");
    assert!(
        rejects[0].starts_with("cannot be shown as %d.%m.%Y"),
        "{rejects:?}"
    );
}
