//! The kinds of oddity.

use std::io::Write;

/// What becomes of a file.
#[derive(Debug)]
pub enum Expected {
    /// So many rows are loaded.
    Rows(u64),
    /// It is refused, and the message or its hint has these words.
    Refused(&'static str),
}

/// A file.
pub struct Oddity {
    /// What is odd about it.
    pub name: &'static str,
    /// Its name.
    pub file: &'static str,
    /// Its content.
    pub bytes: Vec<u8>,
    /// What becomes of it.
    pub expected: Expected,
}

use Expected::{Refused, Rows};

fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let marked = format!("\u{feff}{text}");
    marked.encode_utf16().flat_map(to_bytes).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

/// How an archive is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Written {
    /// With sizes before the parts.
    Whole,
    /// With sizes behind the parts, as programs do it that cannot go back.
    Streamed,
}

fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    zip_of(files, Written::Whole)
}

fn zip_of(files: &[(&str, &str)], written: Written) -> Vec<u8> {
    fn fill<W: Write + std::io::Seek>(mut archive: zip::ZipWriter<W>, files: &[(&str, &str)]) -> W {
        for (name, text) in files {
            let stored =
                zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
            archive.start_file(*name, stored).unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        archive.finish().unwrap()
    }
    match written {
        Written::Whole => fill(zip::ZipWriter::new(std::io::Cursor::new(Vec::new())), files).into_inner(),
        Written::Streamed => fill(zip::ZipWriter::new_stream(Vec::new()), files).into_inner(),
    }
}

/// A sheet of an Excel file, with its cells as they are in the XML.
fn xlsx(rows: &str) -> Vec<u8> {
    xlsx_of(&[rows], Written::Whole)
}

/// Sheets of an Excel file.
fn xlsx_of(sheets: &[&str], written: Written) -> Vec<u8> {
    let kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml";
    let namespace = "http://schemas.openxmlformats.org";
    let relation = |number: usize, kind: &str, target: &str| {
        format!(
            "<Relationship Id=\"rId{number}\" Type=\"{namespace}/officeDocument/2006/relationships/{kind}\" \
             Target=\"{target}\"/>"
        )
    };
    let related = |inner: &str| {
        format!("<Relationships xmlns=\"{namespace}/package/2006/relationships\">{inner}</Relationships>")
    };
    let (mut types, mut listed, mut relations, mut parts) =
        (String::new(), String::new(), String::new(), Vec::new());
    for (number, rows) in (1..).zip(sheets) {
        types += &format!(
            "<Override PartName=\"/xl/worksheets/sheet{number}.xml\" ContentType=\"{kinds}.worksheet+xml\"/>"
        );
        listed += &format!("<sheet name=\"Data {number}\" sheetId=\"{number}\" r:id=\"rId{number}\"/>");
        relations += &relation(number, "worksheet", &format!("worksheets/sheet{number}.xml"));
        parts.push((
            format!("xl/worksheets/sheet{number}.xml"),
            format!(
                "<worksheet xmlns=\"{namespace}/spreadsheetml/2006/main\"><sheetData>{rows}</sheetData></worksheet>"
            ),
        ));
    }
    let types = format!(
        "<Types xmlns=\"{namespace}/package/2006/content-types\"><Override PartName=\"/xl/workbook.xml\" \
         ContentType=\"{kinds}.sheet.main+xml\"/>{types}</Types>"
    );
    let book = format!(
        "<workbook xmlns=\"{namespace}/spreadsheetml/2006/main\" \
         xmlns:r=\"{namespace}/officeDocument/2006/relationships\"><sheets>{listed}</sheets></workbook>"
    );
    let root = related(&relation(1, "officeDocument", "xl/workbook.xml"));
    let relations = related(&relations);
    let mut files = vec![
        ("[Content_Types].xml", types.as_str()),
        ("_rels/.rels", root.as_str()),
        ("xl/workbook.xml", book.as_str()),
        ("xl/_rels/workbook.xml.rels", relations.as_str()),
    ];
    files.extend(parts.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    zip_of(&files, written)
}

/// A header of so many columns and one row.
fn wide(columns: usize) -> String {
    let names: Vec<_> = (0..columns).map(|column| format!("n{column}")).collect();
    let values: Vec<_> = (0..columns).map(|column| column.to_string()).collect();
    format!("{}\n{}\n", names.join(","), values.join(","))
}

/// So many rows of a number, and one that is none behind them.
fn late_text(rows: usize) -> String {
    let mut text = String::from("a,b\n");
    for row in 0..rows {
        text.push_str(&format!("{row},x\n"));
    }
    text + "late,x\n"
}

/// Names that not every database takes.
const LONG_NAMES: [&str; 3] = [
    "a name of 100 characters",
    "an emoji for a name",
    "names that differ in case",
];

/// Those in which databases may differ: names and values.
pub fn of_databases() -> Vec<Oddity> {
    let mut all = corpus();
    let is_of_database = |case: &Oddity| {
        let mut texts = NAMES.iter().chain(VALUES);
        LONG_NAMES.contains(&case.name) || texts.any(|(name, ..)| *name == case.name)
    };
    all.retain(is_of_database);
    all
}

/// All of them.
pub fn corpus() -> Vec<Oddity> {
    let mut all = Vec::new();
    let mut add = |name, file, bytes: Vec<u8>, expected| {
        all.push(Oddity {
            name,
            file,
            bytes,
            expected,
        });
    };
    for (name, text, expected) in CUT.iter().chain(NAMES).chain(VALUES) {
        let expected = match expected {
            Ok(rows) => Rows(*rows),
            Err(words) => Refused(words),
        };
        add(*name, "x.csv", text.as_bytes().to_vec(), expected);
    }
    for (name, file, text, rows) in NAMED {
        add(*name, *file, text.as_bytes().to_vec(), Rows(*rows));
    }
    let small = "a,b\n1,x\n2,y\n";
    add(
        "UTF-16 little-endian",
        "x.csv",
        utf16("a,b\n1,\u{e9}\n", u16::to_le_bytes),
        Rows(1),
    );
    add(
        "UTF-16 big-endian",
        "x.csv",
        utf16("a,b\n1,\u{e9}\n", u16::to_be_bytes),
        Rows(1),
    );
    add(
        "UTF-16 of Excel's Unicode text",
        "x.txt",
        utf16("a\tb\r\n1\t\u{e9}\r\n", u16::to_le_bytes),
        Rows(1),
    );
    add(
        "UTF-16 JSON",
        "x.json",
        utf16("[{\"a\": \"\u{e9}\"}]", u16::to_le_bytes),
        Rows(1),
    );
    add("Latin 1", "x.csv", b"a,b\n1,Fran\xe7ois\n".to_vec(), Rows(1));
    add(
        "Latin 1 with a sign alone",
        "x.csv",
        b"a,b\n1,\xa9\n".to_vec(),
        Rows(1),
    );
    add(
        "Latin 1 in the header",
        "x.csv",
        b"a,pr\xe9nom\n1,x\n".to_vec(),
        Rows(1),
    );
    let late = [late_text(40_000).as_bytes(), b"1,caf\xe9\n"].concat();
    add("Latin 1 in the last of 40,000 rows", "x.csv", late, Rows(40_002));
    add(
        "windows-1252 with its signs",
        "x.csv",
        b"a,b\n\x80 5,it\x92s \x93x\x94\n".to_vec(),
        Rows(1),
    );
    add(
        "windows-1251",
        "x.csv",
        b"a,b\n1,\xcc\xee\xf1\xea\xe2\xe0\n2,\xd1\xe0\xed\xea\xf2 \xcf\xe5\xf2\xe5\xf0\xe1\xf3\xf0\xe3\n"
            .to_vec(),
        Rows(2),
    );
    add(
        "Shift JIS",
        "x.csv",
        b"a,b\n1,\x93\x8c\x8b\x9e\n2,\x91\xe5\x8d\xe3\x95\x7b\n".to_vec(),
        Rows(2),
    );
    add(
        "UTF-16 without a mark",
        "x.csv",
        "a,b\n1,x\n".encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Rows(1),
    );
    add(
        "UTF-8 and Latin 1 in one file",
        "x.csv",
        b"a,b\n1,caf\xc3\xa9\n2,caf\xe9\n".to_vec(),
        Refused("--encoding"),
    );
    add(
        "one byte that is no UTF-8",
        "x.csv",
        b"a,b\n1,x\xff\n".to_vec(),
        Refused("--encoding"),
    );
    add("gzip", "x.csv.gz", gzip(small), Rows(2));
    add("gzip without the ending", "x.csv", gzip(small), Rows(2));
    add("gzip under another name", "x.gz", gzip(small), Rows(2));
    add(
        "gzip of JSON under another name",
        "x.gz",
        gzip("{\"a\":1}\n"),
        Rows(1),
    );
    add(
        "gzip that is cut off",
        "x.csv.gz",
        gzip(small)[..20].to_vec(),
        Refused("ends early"),
    );
    add(
        "plain text called gz",
        "x.csv.gz",
        small.as_bytes().to_vec(),
        Rows(2),
    );
    add("zip", "x.csv.zip", zip(&[("data.csv", small)]), Rows(2));
    add(
        "zip without the ending",
        "x.csv",
        zip(&[("data.csv", small)]),
        Rows(2),
    );
    add(
        "zip under another name",
        "x.zip",
        zip(&[("data.csv", small)]),
        Rows(2),
    );
    add(
        "zip of semicolons",
        "x.zip",
        zip(&[("data.csv", "a;b\n1;x\n")]),
        Rows(1),
    );
    add(
        "zip made on a Mac",
        "x.zip",
        zip(&[("data.csv", small), ("__MACOSX/._data.csv", "x")]),
        Rows(2),
    );
    add(
        "zip of two files",
        "x.zip",
        zip(&[("a.csv", small), ("b.csv", small)]),
        Refused("2 files"),
    );
    add(
        "zip of a file and notes on it",
        "x.zip",
        zip(&[
            ("data.csv", small),
            ("README.txt", "about"),
            ("about.pdf", "%PDF"),
        ]),
        Rows(2),
    );
    add(
        "zip that is cut off",
        "x.zip",
        zip(&[("data.csv", small)])[..60].to_vec(),
        Refused("damaged"),
    );
    let cells = "<row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>a</t></is></c><c r=\"B1\" t=\"inlineStr\"><is><t>b</t></is></c></row>\
                 <row r=\"2\"><c r=\"A2\"><v>1</v></c><c r=\"B2\" t=\"inlineStr\"><is><t>x, \"y\"</t></is></c></row>\
                 <row r=\"3\"><c r=\"A3\"><v>2.5</v></c></row>\
                 <row r=\"5\"><c r=\"A5\"><v>3</v></c><c r=\"B5\" t=\"b\"><v>1</v></c></row>";
    add("Excel", "x.xlsx", xlsx(cells), Rows(3));
    add(
        "Excel, as programs stream it",
        "x.xlsx",
        xlsx_of(&[cells], Written::Streamed),
        Rows(3),
    );
    add(
        "Excel whose first sheet is empty",
        "x.xlsx",
        xlsx_of(&["", cells], Written::Whole),
        Rows(3),
    );
    add(
        "Excel that is cut off",
        "x.xlsx",
        xlsx(cells)[..200].to_vec(),
        Refused("Excel"),
    );
    add("text called Excel", "x.xlsx", small.as_bytes().to_vec(), Rows(2));
    add(
        "text called Excel of before",
        "x.xls",
        "a\tb\n1\tx\n".into(),
        Rows(1),
    );
    add("500 columns", "x.csv", wide(500).into(), Rows(1));
    add(
        "a field of a megabyte",
        "x.csv",
        format!("a,b\n1,{}\n", "x".repeat(1 << 20)).into(),
        Rows(1),
    );
    add(
        "a quoted field of a megabyte",
        "x.csv",
        format!("a,b\n1,\"{}\"\n", "x\n".repeat(1 << 19)).into(),
        Rows(1),
    );
    add(
        "a number is text in the last of 2,000 rows",
        "x.csv",
        late_text(2_000).into(),
        Rows(2_001),
    );
    add(
        "a number is text in the last of 20,000 rows",
        "x.csv",
        late_text(20_000).into(),
        Rows(20_001),
    );
    add(
        "a name of 100 characters",
        "x.csv",
        format!("{},b\n1,2\n", "n".repeat(100)).into(),
        Rows(1),
    );
    add(
        "an emoji for a name",
        "x.csv",
        "\u{1f600},b\n1,2\n".into(),
        Rows(1),
    );
    add(
        "names that differ in case",
        "x.csv",
        b"a,A\n1,2\n".to_vec(),
        Rows(1),
    );
    add("nothing", "x.csv", Vec::new(), Refused("is empty"));
    add(
        "a NUL byte in a field",
        "x.csv",
        b"a,b\n1,x\0y\n".to_vec(),
        Refused("NUL"),
    );
    add(
        "a program",
        "x.dat",
        b"\x7fELF\x02\x01\x01\0\0\0\0\0".to_vec(),
        Refused("tells its format"),
    );
    all
}

/// How text is cut, which is the same for every database: what is odd, the text, and its rows or the words of the refusal.
const CUT: &[(&str, &str, Result<u64, &str>)] = &[
    // Delimiters.
    ("plain", "a,b\n1,x\n2,y\n", Ok(2)),
    ("semicolons", "a;b\n1;x\n2;y\n", Ok(2)),
    (
        "semicolons and decimal commas",
        "a;b;c\n1,5;2,5;x\n3,5;4,5;y\n",
        Ok(2),
    ),
    ("semicolons and commas in text", "a;b\n1;x, y\n2;z\n", Ok(2)),
    ("semicolons in quoted text", "a;b\n1;\"x;y\"\n2;z\n", Ok(2)),
    ("semicolons, header only", "a;b;c\n", Ok(0)),
    ("tabs", "a\tb\n1\tx\n", Ok(1)),
    ("tabs and commas in text", "a\tb\n1,5\tx, y\n2,5\tz\n", Ok(2)),
    ("pipes", "a|b\n1|x\n", Ok(1)),
    ("pipes and commas in text", "a|b\n1|x, y\n2|z, w\n", Ok(2)),
    ("sep= of Excel", "sep=;\na;b\n1;x\n", Ok(1)),
    ("sep= with CRLF", "sep=,\r\na,b\r\n1,x\r\n", Ok(1)),
    ("sep= of a tab", "sep=\t\na\tb\n1\tx\n", Ok(1)),
    ("SEP= of a pipe", "SEP=|\na|b\n1|x\n", Ok(1)),
    (
        "decimal commas in two columns between semicolons",
        "city;rent;size\nRome;7,5;80\nOslo;9,25;75\nKyiv;4,5;60\nBern;19,5;70\nBonn;11,5;65\nMetz;8,5;66\nTurku;7,25;50\n\
         Gent;12,5;71\nPorto;8,75;62\nLodz;5,5;48\nBrno;6,5;55\n",
        Ok(11),
    ),
    (
        "columns aligned with spaces",
        "year  month   value\n2019      1    10.5\n2019     12     9.75\n2020      2   100\n",
        Ok(3),
    ),
    (
        "one space between fields",
        "\"name\" \"x\" \"y\"\n\"A B\" 1 2\n\"C\" 3 4\n",
        Ok(2),
    ),
    (
        "spaces behind commas",
        "id, name, price\n1, Ada, 2.5\n2, Grace, 3\n",
        Ok(2),
    ),
    ("semicolons in one column of commas", "a,b\n1,x;y\n2,z;w\n", Ok(2)),
    ("commas with semicolons in the header", "a;1,b\n1,x\n", Ok(1)),
    (
        "semicolons, one row ragged of eleven",
        "a;b\n1;x\n2;x\n3;x\n4;x\n5;x\n6;x\n7;x\n8;x\n9;x\n10;x\n11;x;y\n",
        Err("3 fields where 2"),
    ),
    ("tabs and a space in text", "a\tb\n1\tx y\n2\tz\n", Ok(2)),
    ("carets", "a^b\n1^x\n2^y\n", Ok(2)),
    ("tildes", "a~b~c\n1~x~2\n2~y~3\n", Ok(2)),
    ("the separator of Hive", "1\u{1}x\n2\u{1}y\n", Ok(2)),
    ("unit separators", "a\u{1f}b\n1\u{1f}x\n2\u{1f}y\n", Ok(2)),
    ("one column called by a number", "2024\n1\n2\n", Ok(2)),
    // Line ends.
    ("CRLF", "a,b\r\n1,x\r\n2,y\r\n", Ok(2)),
    ("CR alone", "a,b\r1,x\r2,y\r", Ok(2)),
    ("CR alone, quoted", "a,b\r1,\"x\ry\"\r", Ok(1)),
    ("CR alone and semicolons", "a;b\r1;x\r", Ok(1)),
    ("CRLF and LF", "a,b\r\n1,x\n2,y\r\n", Ok(2)),
    ("no line end at the end", "a,b\n1,x", Ok(1)),
    ("CRLF, none at the end", "a,b\r\n1,x", Ok(1)),
    ("a CR at the end", "a,b\n1,x\r", Ok(1)),
    ("blank lines between", "a,b\n\n1,x\n\n\n2,y\n\n", Ok(2)),
    ("blank lines before the header", "\n\na,b\n1,x\n", Ok(1)),
    ("blank lines of CRLF", "a,b\r\n\r\n1,x\r\n\r\n", Ok(1)),
    ("a line feed in quotes", "a,b\n1,\"x\ny\"\n", Ok(1)),
    ("CRLF in quotes", "a,b\r\n1,\"x\r\ny\"\r\n", Ok(1)),
    ("a CR in quotes", "a,b\n1,\"x\ry\"\n", Ok(1)),
    ("a CR in an unquoted field", "a,b\n1,x\ry\n", Ok(1)),
    ("two CR before each LF", "a,b\r\r\n1,x\r\r\n2,y\r\r\n", Ok(2)),
    (
        "two CR before each LF, quoted",
        "a,b\r\r\n\"1\",\"x\"\r\r\n",
        Ok(1),
    ),
    ("blank lines of spaces", "a,b\n1,x\n   \n2,y\n \t\n", Ok(2)),
    ("a last line of spaces", "a,b\r\n1,x\r\n  ", Ok(1)),
    ("a tab in a line of its own", "a,b\n1,x\n\t\n2,y\n", Ok(2)),
    ("header only", "a,b\n", Ok(0)),
    ("header only, without a line end", "a,b", Ok(0)),
    // Quoting.
    ("all quoted", "\"a\",\"b\"\n\"1\",\"x\"\n", Ok(1)),
    ("doubled quotes", "a,b\n1,\"x \"\"y\"\"\"\n", Ok(1)),
    ("quoted nothing", "a,b\n1,\"\"\n", Ok(1)),
    ("quotes and commas", "a,b\n1,\"x, y\"\n", Ok(1)),
    ("escaped quotes", "a,b\n1,\"x \\\"y\\\", z\"\n2,\"w\"\n", Ok(2)),
    (
        "backslashes that escape nothing",
        "a,b\n1,\"C:\\dir\\\"\n2,\"x\"\n",
        Ok(2),
    ),
    ("spaces before quotes", "a, b\n1, \"x, y\"\n2, \"z\"\n", Ok(2)),
    ("spaces around quotes", "a,b\n1 , \"x, y\" \n2 , \"z\" \n", Ok(2)),
    ("inches", "a,b\n1,5\" pipe\n2,6\" pipe\n", Ok(2)),
    (
        "a quoted word in unquoted text",
        "a,b\n1,the \"x\" of y\n2,z\n",
        Ok(2),
    ),
    ("single quotes", "a,b\n1,'x, y'\n2,'z'\n", Ok(2)),
    ("apostrophes", "a,b\n1,it's\n2,they're\n", Ok(2)),
    (
        "inches next to quoted commas",
        "a,b\n1,5\" pipe\n2,\"x, y\"\n",
        Ok(2),
    ),
    (
        "text behind a quote",
        "a,b\n1,\"x\"y\n2,\"z\"\n",
        Err("behind a closing quote"),
    ),
    ("a quote that stays open", "a,b\n1,\"x\n2,y\n", Ok(2)),
    (
        "a quote that stays open among quoted fields",
        "a,b\n\"1\",\"x\"\n\"2\",\"y\n",
        Err("not closed"),
    ),
    (
        "words that begin with a quote, in TSV",
        "a\tb\n1\t\"x\n2\ty\n3\t\"z\n",
        Ok(3),
    ),
    (
        "empty quoted fields behind the last column",
        "a,b\n1,x,\"\",\"\"\n2,\"y\"\n",
        Ok(2),
    ),
    (
        "quotes inside quoted text",
        "a,b\n1,\"he said \"hi\" to me\"\n2,\"z\"\n",
        Ok(2),
    ),
    (
        "quotes inside quoted text, in all rows",
        "a,b\n1,\"the \"best\" of\"\n2,\"a \"b\" c, d\"\n",
        Ok(2),
    ),
    ("an escaped backslash", "a,b\n1,\"x\\\\\"\n2,y\n", Ok(2)),
    ("quotes in the header only", "\"a\",\"b, c\"\n1,2\n", Ok(1)),
    ("a header with a line feed", "\"a\nb\",c\n1,2\n", Ok(1)),
    // What is before and behind.
    ("a title", "Report of May\na,b\n1,x\n2,y\n", Ok(2)),
    (
        "a title and a blank line",
        "Report of May\n\na,b\n1,x\n2,y\n",
        Ok(2),
    ),
    ("two titles", "Report\nof May\na,b,c\n1,x,2\n2,y,3\n", Ok(2)),
    (
        "a title with trailing delimiters",
        "Report,,\n,,\na,b,c\n1,x,2\n2,y,3\n",
        Ok(2),
    ),
    ("a title and semicolons", "Report\na;b\n1;x\n2;y\n", Ok(2)),
    (
        "comments before the header",
        "# made by x, y\n# z\na,b\n1,x\n2,y\n",
        Ok(2),
    ),
    (
        "a comment and a header with a sign",
        "# made by x\n#a,b\n1,x\n2,y\n",
        Ok(2),
    ),
    ("a title in quotes", "\"Report, of May\"\na,b\n1,x\n2,y\n", Ok(2)),
    ("a footer", "a,b\n1,x\n2,y\nTotal: 2\n", Ok(2)),
    (
        "a footer behind a blank line",
        "a,b\nx,1\ny,2\n\nmade, by, hand\n",
        Ok(2),
    ),
    (
        "notes at the end",
        "city,inhabitants\nRome,1\nOslo,2\n\n\"Source: x, y\"\n* preliminary\n",
        Ok(2),
    ),
    (
        "a word at the end that is told by nothing",
        "a,b\nx,y\nz,w\nhand\n",
        Err("1 field where 2"),
    ),
    ("the end of a DOS file", "a,b\r\n1,x\r\n\u{1a}", Ok(1)),
    ("a comment in the middle", "a,b\n1,x\n# note\n2,y\n", Ok(2)),
    (
        "values that begin with a number sign",
        "a,b\n#1,x\n# 2,y\n",
        Ok(2),
    ),
    (
        "titles with delimiters, as the World Bank has them",
        "\"Data Source\",\"Indicators\",\n\n\"Last Updated\",\"2021-05-25\",\n\n\"Country Name\",\"Country \
         Code\",\"Indicator\",\"1960\",\"1961\",\n\"Aruba\",\"ABW\",\"Population\",\"1\",\"2\",\n\"Chad\",\"TCD\",\
         \"Population\",\"3\",\"4\",\n",
        Ok(2),
    ),
    (
        "names and values above a blank line and the header",
        "Name:,Foo\nDate:,2024-01-01\n\nid,name,value\n1,x,2\n2,y,3\n",
        Ok(2),
    ),
    ("numbers without a header", "1,2.5\n3,4.5\n5,6.5\n", Ok(3)),
    (
        "text and numbers without a header",
        "Smith,1,2.5\nJones,2,3.5\nBrown,3,1\n",
        Ok(3),
    ),
    (
        "text and dates without a header",
        "2024-01-01,open\n2024-01-02,closed\n",
        Ok(2),
    ),
    ("one row without a header", "17,x,2.5\n", Ok(1)),
    ("years without a header", "2019\n2020\n2021\n", Ok(3)),
    (
        "a line of counts above rows without a header",
        "3,4,setosa,virginica,versicolor\n5.1,3.5,1.4,0.2,0,1,2\n4.9,3,1.4,0.2,0,3,4\n4.7,3.2,1.3,0.2,0,5,6\n",
        Ok(3),
    ),
    ("hours for names", "day,0,1,2,3\nMonday,5,6,7,8\n", Ok(1)),
    (
        "numbers in quotes for names",
        "\"\",\"0\",\"1\"\n\"x\",5,6\n",
        Ok(1),
    ),
    ("days for names", "country,2020-01-22,2020-01-23\nx,1,2\n", Ok(1)),
    (
        "comments above the header and among the rows",
        "# made by x\nid,name\n1,x\n# checked\n2,y\n# end\n",
        Ok(2),
    ),
    (
        "a sum below the rows",
        "city,inhabitants\nRome,1\nOslo,2\nTotal,3\n",
        Ok(3),
    ),
    ("one column of numbers without a header", "10\n20\n30\n", Ok(3)),
    ("years for a header of numbers", "2019,2020\n1,2\n", Ok(1)),
    (
        "row names, as R has them",
        "mpg,cyl\nMazda,21,6\nDatsun,22.8,4\n",
        Ok(2),
    ),
    ("a row of units", "time,speed\ns,m/s\n1,2\n3,4\n", Ok(3)),
    ("a row of dashes", "a,b\n---,---\n1,2\n", Ok(2)),
    // Shapes.
    ("a row too short", "a,b\n1,x\n2\n", Ok(2)),
    (
        "empty cells left out at the end",
        "a,b,c\n1,x,2\n2,y\n3\n4,z,5\n",
        Ok(4),
    ),
    (
        "empty cells of text left out at the end",
        "a,b,c\nx,y,z\nx,y\nx,y,z\nz,w\n",
        Ok(4),
    ),
    (
        "two short rows that may be one that is cut",
        "a,b,c\nx,y,z\nx,y\nz,w\nx,y,z\n",
        Err("2 fields where 3"),
    ),
    (
        "a line cut in two",
        "a,b,c\n1,x,2\n3,y\nz,4\n5,w,6\n",
        Err("2 fields where 3"),
    ),
    (
        "a line of text cut in two",
        "a,b\n1,x\ny\n2,z\n",
        Err("1 field where 2"),
    ),
    ("a row too long", "a,b\n1,x\n2,y,z\n", Err("3 fields where 2")),
    (
        "most rows too short",
        "version,name,from,to,until\n4,a,2004-01-01\n5,b,2005-01-01\n6,c,2006-01-01\n7,d,2007-01-01\n8,e,2008-01-01\n\
         9,x,2009-01-01,2010-01-01,2011-01-01\n",
        Ok(6),
    ),
    ("a row with empty cells too many", "a,b\n1,x\n2,y,,\n3,z\n", Ok(3)),
    ("empty cells too many, of spaces", "a,b\n1,x\n2,y, , \n", Ok(2)),
    (
        "a delimiter at the end of a few rows",
        "a;b\n1;x;\n2;y\n3;z;\n",
        Err("one field with ';' in it"),
    ),
    ("rows without values", "a,b\n,\n1,x\n,\n", Ok(3)),
    ("columns without values", "a,b,c\n1,,\n2,,\n", Ok(2)),
    ("one row", "a,b\n1,x\n", Ok(1)),
    ("the same row again", "a,b\n1,x\n1,x\n", Ok(2)),
];

/// Names, which databases take or not.
const NAMES: &[(&str, &str, Result<u64, &str>)] = &[
    // Headers.
    ("a nameless column", ",a\n1,2\n", Ok(1)),
    ("two nameless columns", ",a,\n1,2,3\n", Ok(1)),
    ("no name at all", ",,\n1,2,3\n", Ok(1)),
    ("a repeated name", "a,a\n1,2\n", Ok(1)),
    ("a name three times", "a,a,a\n1,2,3\n", Ok(1)),
    ("spaces around names", " a , b \n1,2\n", Ok(1)),
    ("spaces in names", "first name,last name\nx,y\n", Ok(1)),
    ("reserved words", "select,from,order,group\n1,2,3,4\n", Ok(1)),
    ("signs in names", "a-b,c/d,e%,f(g),#h\n1,2,3,4,5\n", Ok(1)),
    ("quotes in names", "\"a \"\"b\"\"\",c\n1,2\n", Ok(1)),
    ("apostrophes in names", "it's,b\n1,2\n", Ok(1)),
    ("a point in a name", "a.b,c.d\n1,2\n", Ok(1)),
    ("backticks in names", "`a`,b\n1,2\n", Ok(1)),
    ("names of other scripts", "名前,возраст,größe\n1,2,3\n", Ok(1)),
    ("years for names", "country,2019,2020\nx,1,2\n", Ok(1)),
    ("a name like a function", "count(*),b\n1,2\n", Ok(1)),
    ("a backslash in a name", "a\\b,c\n1,2\n", Ok(1)),
    ("a brace in a name", "{a},b\n1,2\n", Ok(1)),
    ("a dollar in a name", "$a,b$\n1,2\n", Ok(1)),
    ("a question mark in a name", "a?,b\n1,2\n", Ok(1)),
    ("a colon in a name", "a:b,c\n1,2\n", Ok(1)),
    ("names like system columns", "oid,id\n1,2\n", Ok(1)),
    ("a name called rowid", "rowid,b\n1,2\n", Ok(1)),
    ("a byte order mark", "\u{feff}a,b\n1,x\n", Ok(1)),
    (
        "a byte order mark and quotes",
        "\u{feff}\"a\",\"b\"\n1,x\n",
        Ok(1),
    ),
    ("a byte order mark and semicolons", "\u{feff}a;b\n1;x\n", Ok(1)),
    ("names with a trailing delimiter", "a,b,\n1,2,\n", Ok(1)),
    ("a trailing delimiter in rows only", "a,b\n1,2,\n3,4,\n", Ok(2)),
    (
        "a trailing delimiter in the header only",
        "a,b,\n1,2\n3,4\n",
        Ok(2),
    ),
    ("a comment sign before the names", "#a,b\n1,2\n", Ok(1)),
    ("names that are numbers", "1,2\n3,4\n", Ok(2)),
    ("one column", "a\n1\n2\n", Ok(2)),
    (
        "one column of text with spaces",
        "text\nSmith John\nDoe Jane\n",
        Ok(2),
    ),
    (
        "one column with semicolons in text",
        "text\nSmith; John\nDoe; Jane\n",
        Ok(2),
    ),
    (
        "one column with commas in quotes",
        "text\n\"Smith, John\"\n",
        Ok(1),
    ),
    ("one column with empty lines", "a\n1\n\n2\n", Ok(3)),
];

/// Values, whose columns databases have types for or not.
const VALUES: &[(&str, &str, Result<u64, &str>)] = &[
    // Numbers.
    ("leading zeros", "zip\n00501\n10001\n", Ok(2)),
    ("signs", "n\n+1\n-1\n", Ok(2)),
    ("a minus behind", "n\n1-\n2\n", Ok(2)),
    ("thousands in quotes", "n,b\n\"1,234\",x\n\"5\",y\n", Ok(2)),
    ("decimal commas in quotes", "n,b\n\"1,5\",x\n\"2,25\",y\n", Ok(2)),
    ("percents", "n\n12%\n3%\n", Ok(2)),
    ("currencies", "n\n$12.50\n€3\n", Ok(2)),
    ("exponents", "n\n1e5\n2.5E-3\n", Ok(2)),
    ("20 digits", "n\n12345678901234567890\n1\n", Ok(2)),
    (
        "40 digits",
        "n\n1234567890123456789012345678901234567890\n1\n",
        Ok(2),
    ),
    ("many places", "n\n0.123456789012345678901234567890\n1\n", Ok(2)),
    ("a point at the end", "n\n1.\n2.\n", Ok(2)),
    ("a point at the beginning", "n\n.5\n-.5\n", Ok(2)),
    ("spaces around numbers", "n,b\n 1 ,x\n 2 ,y\n", Ok(2)),
    ("not a number", "n\n1.5\nNaN\n", Ok(2)),
    ("infinity", "n\n1.5\ninf\n-Infinity\n", Ok(3)),
    ("hexadecimal", "n\n0x1F\n0x20\n", Ok(2)),
    ("fractions", "n\n1/2\n3/4\n", Ok(2)),
    ("phone numbers", "n\n+49 30 1234\n030-1234\n", Ok(2)),
    ("card numbers", "n\n4111 1111 1111 1111\n", Ok(1)),
    ("zeros", "n\n0\n00\n000\n", Ok(3)),
    ("a negative zero", "n\n-0\n-0.0\n", Ok(2)),
    ("versions", "n\n1.2.3\n1.10\n", Ok(2)),
    ("addresses of the Internet", "n\n10.0.0.1\n::1\n", Ok(2)),
    ("numbers and a word", "n\n1\n2\nmany\n", Ok(3)),
    ("integers, then decimals", "n\n1\n2.5\n", Ok(2)),
    ("integers, then 20 digits", "n\n1\n12345678901234567890\n", Ok(2)),
    ("floats of many digits", "n\n51.50735199999999\n1e-07\n", Ok(2)),
    ("accounting negatives", "n\n(12.50)\n3.00\n", Ok(2)),
    ("apostrophes between thousands", "n\n1'234\n5\n", Ok(2)),
    ("spaces between thousands", "n\n1 234\n5\n", Ok(2)),
    // Words for nothing.
    ("NA", "n\n1\nNA\n", Ok(2)),
    ("NULL", "n\n1\nNULL\n", Ok(2)),
    ("backslash N", "n\n1\n\\N\n", Ok(2)),
    ("a dash for nothing", "n\n1\n-\n", Ok(2)),
    ("None and NaN", "n\nNone\n1\nNaN\n", Ok(3)),
    ("quoted nothing in numbers", "n,b\n1,x\n\"\",y\n", Ok(2)),
    ("a question mark for nothing", "n\n1\n?\n", Ok(2)),
    ("N/A and missing", "n\nN/A\nmissing\n1\n", Ok(3)),
    // Dates and times.
    ("ISO dates", "d\n2024-02-29\n", Ok(1)),
    ("German dates", "d\n29.02.2024\n01.03.2024\n", Ok(2)),
    ("American dates", "d\n2/29/2024\n12/31/2024\n", Ok(2)),
    ("dates with names of months", "d\n29 Feb 2024\n1-Mar-24\n", Ok(2)),
    ("dates without hyphens", "d\n20240229\n20240301\n", Ok(2)),
    ("dates with slashes", "d\n2024/02/29\n2024/03/01\n", Ok(2)),
    ("two digits of the year", "d\n29.02.24\n01.03.24\n", Ok(2)),
    ("years", "d\n2024\n2025\n", Ok(2)),
    ("months", "d\n2024-02\n2024-03\n", Ok(2)),
    ("quarters", "d\n2024Q1\n2024Q2\n", Ok(2)),
    ("weeks", "d\n2024-W09\n", Ok(1)),
    ("a day that does not exist", "d\n2023-02-29\n", Ok(1)),
    ("zero dates", "d\n0000-00-00\n2024-01-01\n", Ok(2)),
    ("dates before Christ", "d\n0044-03-15 BC\n", Ok(1)),
    ("far dates", "d\n9999-12-31\n0001-01-01\n", Ok(2)),
    ("five digits of the year", "d\n12024-01-01\n", Ok(1)),
    ("timestamps", "d\n2024-02-29 23:59:58\n", Ok(1)),
    ("timestamps with T", "d\n2024-02-29T23:59:58\n", Ok(1)),
    (
        "timestamps with a zone",
        "d\n2024-02-29T23:59:58Z\n2024-02-29T23:59:58+02:00\n",
        Ok(2),
    ),
    (
        "timestamps with and without a zone",
        "d\n2024-02-29T23:59:58Z\n2024-02-29T23:59:58\n",
        Ok(2),
    ),
    (
        "timestamps with the name of a zone",
        "d\n2024-02-29 23:59:58 UTC\n2024-02-29 23:59:58 CET\n",
        Ok(2),
    ),
    ("timestamps to the minute", "d\n2024-02-29 23:59\n", Ok(1)),
    (
        "timestamps to the nanosecond",
        "d\n2024-02-29 23:59:58.123456789\n",
        Ok(1),
    ),
    (
        "timestamps with a comma",
        "d\n\"2024-02-29 23:59:58,123\"\n",
        Ok(1),
    ),
    ("a leap second", "d\n2016-12-31 23:59:60\n", Ok(1)),
    ("midnight at 24:00", "d\n2024-02-29 24:00:00\n", Ok(1)),
    ("times", "t\n23:59\n00:00\n", Ok(2)),
    ("times with AM and PM", "t\n11:59 PM\n12:00 AM\n", Ok(2)),
    ("durations", "t\n25:30:00\n100:00:00\n", Ok(2)),
    ("ISO durations", "t\nPT1H30M\nP1D\n", Ok(2)),
    ("epochs", "t\n1700000000\n1700000001\n", Ok(2)),
    (
        "dates and timestamps",
        "d\n2024-02-29\n2024-02-29 10:00:00\n",
        Ok(2),
    ),
    ("dates and words", "d\n2024-02-29\nunknown\n", Ok(2)),
    // Other values.
    ("true and false", "v\ntrue\nFALSE\n", Ok(2)),
    ("yes and no", "v\nyes\nno\n", Ok(2)),
    ("Y and N", "v\nY\nN\n", Ok(2)),
    ("0 and 1", "v\n0\n1\n", Ok(2)),
    ("uuids", "v\n123e4567-e89b-12d3-a456-426614174000\n", Ok(1)),
    (
        "uuids in braces",
        "v\n{123e4567-e89b-12d3-a456-426614174000}\n",
        Ok(1),
    ),
    ("JSON in quotes", "v,w\n\"{\"\"a\"\": 1}\",x\n", Ok(1)),
    ("JSON without quotes", "v\n{a: 1}\n", Ok(1)),
    ("lists", "v,w\n\"[1, 2]\",x\n", Ok(1)),
    ("formulas", "v\n=1+1\n@x\n", Ok(2)),
    ("links", "v\nhttps://example.org/?a=1&b=2\n", Ok(1)),
    ("HTML", "v\n<b>x</b>\n", Ok(1)),
    ("SQL", "v\n'; DROP TABLE t; --\n", Ok(1)),
    ("backslashes", "v\nC:\\x\\y\n\\\n", Ok(2)),
    ("tabs in text", "a,b\n1,x\ty\n", Ok(1)),
    ("emoji", "v\n😀\n👩‍👩‍👧\n", Ok(2)),
    ("right to left", "v\nשלום\nمرحبا\n", Ok(2)),
    ("combining characters", "v\ne\u{301}\n", Ok(1)),
    ("spaces that are none", "v\na\u{a0}b\n\u{200b}\n", Ok(2)),
    ("a byte order mark in the middle", "v\n\u{feff}x\n", Ok(1)),
    ("control characters", "a,b\n1,x\u{1}y\u{1f}\n", Ok(1)),
    ("trailing spaces", "a,b\n1,x   \n", Ok(1)),
    ("only spaces", "a,b\n1,   \n", Ok(1)),
    ("a dollar and a backslash", "v\n$1\\.\n", Ok(1)),
    ("COPY's end", "v\n\\.\nx\n", Ok(2)),
];

/// Files under other names: what is odd, the name, the text, and its rows.
const NAMED: &[(&str, &str, &str, u64)] = &[
    ("TSV", "x.tsv", "a\tb\n1\tx\n", 1),
    ("commas called TSV", "x.tsv", "a,b\n1,x\n", 1),
    ("tabs called txt", "x.txt", "a\tb\n1\tx\n", 1),
    ("semicolons called txt", "x.txt", "a;b\n1;x\n", 1),
    ("an unknown ending", "x.dat", "a,b\n1,x\n", 1),
    ("an unknown ending and pipes", "x.psv", "a|b\n1|x\n", 1),
    ("no ending", "x", "a,b\n1,x\n", 1),
    ("an ending in capitals", "X.CSV", "a,b\n1,x\n", 1),
    ("a name with spaces", "my data (1).csv", "a,b\n1,x\n", 1),
    ("a name with glob characters", "x[1].csv", "a,b\n1,x\n", 1),
    ("a name of another script", "données.csv", "a,b\n1,x\n", 1),
    ("JSON lines", "x.jsonl", "{\"a\":1}\n{\"a\":2}\n", 2),
    ("JSON lines called json", "x.json", "{\"a\":1}\n{\"a\":2}\n", 2),
    ("JSON lines of other keys", "x.jsonl", "{\"a\":1}\n{\"b\":2}\n", 2),
    (
        "JSON lines with blank lines",
        "x.jsonl",
        "\n{\"a\":1}\n\n{\"a\":2}",
        2,
    ),
    ("JSON lines with CRLF", "x.jsonl", "{\"a\":1}\r\n{\"a\":2}\r\n", 2),
    (
        "JSON lines with a byte order mark",
        "x.jsonl",
        "\u{feff}{\"a\":1}\n",
        1,
    ),
    ("JSON lines called txt", "x.txt", "{\"a\":1}\n{\"a\":2}\n", 2),
    ("a JSON array called csv", "x.csv", "[{\"a\":1}]", 1),
    ("a JSON array", "x.json", "[{\"a\":1},{\"a\":2}]", 2),
    (
        "a JSON array over lines",
        "x.json",
        "[\n  {\n    \"a\": 1\n  },\n  {\n    \"a\": 2\n  }\n]\n",
        2,
    ),
    (
        "an object over lines",
        "x.json",
        "{\n  \"a\": 1,\n  \"b\": {\"c\": [1, 2]}\n}\n",
        1,
    ),
    (
        "objects over lines",
        "x.json",
        "{\n \"a\": 1\n}\n{\n \"a\": 2\n}\n",
        2,
    ),
    ("objects within objects", "x.json", "{\"a\":{\"b\":1}}\n", 1),
    ("lists within objects", "x.json", "{\"a\":[1,{\"b\":2}]}\n", 1),
    ("JSON of mixed types", "x.json", "{\"a\":1}\n{\"a\":\"x\"}\n", 2),
    ("JSON nulls", "x.json", "{\"a\":null}\n{\"a\":1}\n", 2),
    ("JSON with escapes", "x.json", "{\"a\":\"\\u00e9\\n\\\"\"}\n", 1),
    ("JSON without an ending", "x", "{\"a\":1}\n", 1),
    ("a JSON array in a log", "x.log", "[{\"a\":1}]", 1),
    (
        "big numbers in JSON",
        "x.json",
        "{\"a\":12345678901234567890123}\n",
        1,
    ),
];
