use super::*;

fn boxed(spelling: Spelling) -> Box<Spelling> {
    Box::new(spelling)
}

#[test]
fn values_are_spelled_for_every_session() {
    let dates = Spelling::Array(boxed(Spelling::Date));
    let instants = Spelling::Range(boxed(Spelling::Instant(1)));
    let cases = [
        (
            &dates,
            "{2020-01-31,NULL,\"2020-02-01\"}",
            "{\"2020-01-31\",NULL,\"2020-02-01\"}",
        ),
        (&dates, " {} ", "{}"),
        // Spaces behind the quotes of an item are not its own, those within are.
        (
            &Spelling::Array(boxed(Spelling::Characters(3))),
            "{\"ab\"   , \"c \"  ,d e ,\"x\"\\  ,NULL }",
            "{\"ab\",\"c \",\"d e\",\"x \",NULL}",
        ),
        (&Spelling::Interval(6), "00:00:05", "00:00:05"),
        (
            &Spelling::Interval(3),
            "1 year 2 mons -00:00:05.1230",
            "1 year 2 mons -00:00:05.1230",
        ),
        (&Spelling::ZonedTime(6), " 12:00:00.5+02 ", "12:00:00.5+02"),
        (&Spelling::Byte, "", ""),
        (&Spelling::Byte, "\\377", "\\377"),
        (&Spelling::Number32, "4294967295", "4294967295"),
        (
            &dates,
            "{0044-03-15 BC,20000-01-01}",
            "{\"0044-03-15 BC\",\"20000-01-01\"}",
        ),
        (
            &instants,
            "[0044-03-15 12:00:00+01 BC,)",
            "[\"0044-03-15 11:00:00+00 BC\",)",
        ),
        (&Spelling::Interval(6), " 0 ", " 0 "),
        (
            &dates,
            "{{2020-01-31},{infinity}}",
            "{{\"2020-01-31\"},{\"infinity\"}}",
        ),
        (&dates, "[0:1]={2020-01-31, null}", "[0:1]={\"2020-01-31\",NULL}"),
        (&dates, "[\"2020-01-31\", null]", "{\"2020-01-31\",NULL}"),
        (&dates, "[[\"2020-01-31\"]]", "{{\"2020-01-31\"}}"),
        (
            &Spelling::Array(boxed(Spelling::Characters(3))),
            "{\"abc\" , d e ,\"\"\t,g\\ }",
            "{\"abc\",\"d e\",\"\",\"g \"}",
        ),
        (
            &instants,
            "[2020-01-01 12:00:00+02,)",
            "[\"2020-01-01 10:00:00+00\",)",
        ),
        (
            &instants,
            "(\"2020-01-01T00:00Z\",infinity]",
            "(\"2020-01-01 00:00:00+00\",\"infinity\"]",
        ),
        (&instants, "Empty", "empty"),
        (
            &Spelling::Multirange(boxed(Spelling::Date)),
            "{[2020-01-01,2020-01-03), (2021-01-01,]}",
            "{[\"2020-01-01\",\"2020-01-03\"),(\"2021-01-01\",]}",
        ),
        (
            &Spelling::Array(boxed(instants.clone())),
            "{\"[2020-01-01 00:00Z,)\"}",
            "{\"[\\\"2020-01-01 00:00:00+00\\\",)\"}",
        ),
        (
            &Spelling::Array(boxed(Spelling::Json)),
            "[{\"a\": 1.10}, [1], null]",
            "{\"{\\\"a\\\": 1.10}\",\"[1]\",\"null\"}",
        ),
        (
            &Spelling::Array(boxed(Spelling::AsIs)),
            r#"[1.10, "a\"b\\", true]"#,
            r#"{"1.10","a\"b\\","true"}"#,
        ),
        (
            &Spelling::Row(vec![
                ("a".to_owned(), Spelling::Numeric(2)),
                ("b".to_owned(), dates.clone()),
                ("c".to_owned(), Spelling::Characters(3)),
            ]),
            "{\"c\": \"x\\\"y\", \"a\": 1.10}",
            "(\"1.10\",,\"x\\\"y\")",
        ),
    ];
    for (spelling, text, expected) in cases {
        let mut out = String::new();
        let written = spelling.write(text, &mut out);
        assert!(written.is_ok(), "{text}: {written:?}");
        assert_eq!(out, expected, "{text}");
    }
}

#[test]
fn what_would_be_changed_or_cannot_be_told_apart_is_refused() {
    let array = |element| Spelling::Array(boxed(element));
    let row = Spelling::Row(vec![("a".to_owned(), Spelling::AsIs)]);
    let cases = [
        (array(Spelling::Date), "{01/02/2020}"),
        (array(Spelling::Date), "{today}"),
        (array(Spelling::Date), "{2020-01-31"),
        (array(Spelling::Date), "{2020-01-31,}"),
        (array(Spelling::Date), "{2020-01-31}}"),
        (array(Spelling::Date), "{\"2020-01-31}"),
        (array(Spelling::Date), "2020-01-31"),
        (array(Spelling::Instant(1)), "{2020-01-01 00:00:00}"),
        (array(Spelling::Timestamp(1)), "{2020-01-01 00:00:00+01}"),
        (array(Spelling::Timestamp(1_000)), "{2020-01-01 00:00:00.0001}"),
        (array(Spelling::Numeric(2)), "{1.234}"),
        (array(Spelling::Characters(2)), "{\"abc\"}"),
        (array(Spelling::Interval(6)), "{1.0000001 s}"),
        (Spelling::Interval(6), "PT0,0000001S"),
        (Spelling::Interval(6), "5"),
        (Spelling::Interval(3), "0.0001 s"),
        (Spelling::Interval(3), "1500 ms"),
        (Spelling::ZonedTime(6), "12:00:00"),
        (Spelling::ZonedTime(3), "12:00:00.0001+00"),
        (Spelling::Byte, "ab"),
        (Spelling::Byte, "é"),
        (Spelling::Number32, "abc"),
        (Spelling::Number32, "4294967296"),
        (array(Spelling::Interval(6)), "[-1.5]"),
        (Spelling::Range(boxed(Spelling::Date)), "[2020-01-01]"),
        (Spelling::Range(boxed(Spelling::Date)), "[ , ]"),
        (
            Spelling::Range(boxed(Spelling::Date)),
            "[2020-01-01,2020-01-02) x",
        ),
        (
            Spelling::Multirange(boxed(Spelling::Date)),
            "{[2020-01-01,2020-01-02),}",
        ),
        (row.clone(), "{\"b\": 1}"),
        (row.clone(), "{\"a\": 1, \"a\": 2}"),
        (row.clone(), "{\"a\": [1]}"),
        (row.clone(), "[1]"),
        (row, "(1)"),
    ];
    for (spelling, text) in cases {
        assert!(spelling.write(text, &mut String::new()).is_err(), "{text}");
    }
}
