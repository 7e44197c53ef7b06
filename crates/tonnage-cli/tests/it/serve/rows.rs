//! Rows in and out.

use super::{Serve, state, url};
use crate::support::{BOTH, Database, TestDatabase};

const READINGS: &str = "CREATE TABLE readings (id integer NOT NULL PRIMARY KEY, device text, value double precision, state text DEFAULT 'new')";

#[test]
fn rows_of_every_format_are_acknowledged_and_bad_ones_are_named() {
    let jsonl = "{\"id\": 1, \"device\": \"a\", \"value\": 0.5}\n\n{\"id\": \"two\"}\n{\"id\": 3, \"device\": null, \"state\": \"old\"}\n{\"id\": 4, \"colour\": \"red\"}\nnonsense\n";
    let json = "[{\"id\": 1, \"device\": \"a\", \"value\": 0.5}, {\"id\": \"two\"}, {\"id\": 3, \"device\": null, \"state\": \"old\"}, {\"id\": 4, \"colour\": \"red\"}, 5]";
    let csv = "id,device,value,state\n1,a,0.5,new\ntwo,,,x\n3,,,old\n4,,red,x\nnonsense\n";
    for database in BOTH {
        for (media, body) in [
            ("application/x-ndjson", jsonl),
            ("application/json", json),
            ("text/csv; charset=utf-8", csv),
        ] {
            for ack in ["accepted", "journaled", "committed"] {
                let place = TestDatabase::with(*database, READINGS, &[]);
                let server = Serve::of(&url(&place), &state(&place));
                let path = format!("/v1/tables/readings/rows?ack={ack}");
                let media = format!("Content-Type: {media}");
                let answer = server
                    .send("POST", &path, &[&media], body.as_bytes())
                    .expect(207)
                    .json();
                assert_eq!(
                    (
                        &answer["rows"],
                        &answer["first"],
                        &answer["last"],
                        &answer["rejected"]
                    ),
                    (&5.into(), &1.into(), &5.into(), &3.into()),
                    "{answer}"
                );
                let rows: Vec<_> = answer["rejects"]
                    .as_array()
                    .expect("rejects")
                    .iter()
                    .map(|bad| bad["row"].as_u64())
                    .collect();
                assert_eq!(rows, [Some(2), Some(4), Some(5)], "{media} {ack} {answer}");
                assert_eq!(answer["rejects"][0]["column"], "id", "{answer}");
                server.until_committed(5);
                let found = place.sql("SELECT id, device, value, state FROM readings ORDER BY id");
                assert_eq!(found, ["1|a|0.5|new", "3|-|-|old"], "{media} {ack}");
                server.stop().expect(0);
            }
        }
    }
}

#[test]
fn compressed_bodies_and_long_ones_come_whole() {
    let rows = 30_000;
    let lines: String = (0..rows)
        .map(|id| format!("{{\"id\":{id},\"device\":\"d{}\"}}\n", id % 7))
        .collect();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, lines.as_bytes()).expect("written");
    let gz = gz.finish().expect("written");
    let zst = zstd::encode_all(lines.as_bytes(), 3).expect("written");
    for (coding, body) in [("identity", lines.as_bytes()), ("gzip", &gz), ("zstd", &zst)] {
        let place = TestDatabase::with(Database::Sqlite, READINGS, &[]);
        let server = Serve::of(&url(&place), &state(&place));
        let headers = [
            "Content-Type: application/x-ndjson",
            &format!("Content-Encoding: {coding}"),
        ];
        let answer = server
            .send("POST", "/v1/tables/readings/rows?ack=committed", &headers, body)
            .expect(200)
            .json();
        assert_eq!(
            (&answer["rows"], &answer["rejected"]),
            (&rows.into(), &0.into()),
            "{answer}"
        );
        assert_eq!(
            place.sql("SELECT count(*), sum(id) FROM readings"),
            [format!("{rows}|{}", rows * (rows - 1) / 2)]
        );
        // What was written comes out again, whole.
        let out = server.get("/v1/tables/readings/export").expect(200).text();
        assert_eq!(out.lines().count() as i64, rows);
    }
}

#[test]
fn arrow_and_parquet_go_in_and_come_out() {
    use std::sync::Arc;

    use arrow::{
        array::{ArrayRef, Int64Array, RecordBatch, StringArray},
        ipc::{reader::StreamReader, writer::StreamWriter},
    };
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
    let device: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..1_000).map(|id| format!("d{id}")),
    ));
    let batch = RecordBatch::try_from_iter([("id", id), ("device", device)]).expect("a batch");
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a writer");
    stream.write(&batch).expect("written");
    let stream = stream.into_inner().expect("finished");
    let mut file = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    for database in BOTH {
        for (media, body) in [
            ("application/vnd.apache.arrow.stream", &stream),
            ("application/vnd.apache.parquet", &file),
        ] {
            let place = TestDatabase::with(*database, READINGS, &[]);
            let server = Serve::of(&url(&place), &state(&place));
            let media = format!("Content-Type: {media}");
            let answer = server.send("POST", "/v1/tables/readings/rows?ack=committed", &[&media], body);
            assert_eq!(answer.expect(200).json()["rows"], 1_000);
            let accept = ["Accept: application/vnd.apache.arrow.stream"];
            let out = server
                .send(
                    "GET",
                    "/v1/tables/readings/export?columns=id,device",
                    &accept,
                    b"",
                )
                .expect(200);
            let read = StreamReader::try_new(&out.body[..], None).expect("a stream");
            let rows: usize = read.map(|batch| batch.expect("a batch").num_rows()).sum();
            assert_eq!(rows, 1_000);
        }
    }
}

#[test]
fn rows_are_found_by_key_and_missing_keys_are_named() {
    for database in BOTH {
        let sql = format!(
            "{READINGS}; INSERT INTO readings VALUES (17, 'a', 1.5, 'x'), (18, 'b\nc', NULL, 'y'), (19, 'c', 2, 'z')"
        );
        let place = TestDatabase::with(*database, &sql, &[]);
        let server = Serve::of(&url(&place), &state(&place));
        let found = server
            .get("/v1/tables/readings/rows?id=17&id=42&id=18&columns=id,device")
            .expect(200)
            .json();
        let mut rows = found["rows"].as_array().expect("rows").clone();
        rows.sort_by_key(|row| row["id"].as_i64());
        assert_eq!(
            serde_json::Value::from(rows),
            serde_json::json!([{"id": 17, "device": "a"}, {"id": 18, "device": "b\nc"}])
        );
        assert_eq!(found["missing"], serde_json::json!([{"id": 42}]), "{found}");
        let headers = ["Content-Type: application/json", "Accept: text/csv"];
        let found = server.send(
            "POST",
            "/v1/tables/readings/get?columns=id,state",
            &headers,
            b"[{\"id\":19},\n{\"id\":5}]",
        );
        assert_eq!(found.expect(200).text(), "id,state\n19,z\n");
        let missing = server.send(
            "POST",
            "/v1/tables/readings/get",
            &["Content-Type: text/csv"],
            b"id\n17\n99\n",
        );
        assert_eq!(
            missing.expect(200).json()["missing"],
            serde_json::json!([{"id": 99}])
        );
        // Names are looked up, whatever they hold.
        for path in [
            "/v1/tables/readings/rows?nothing=1",
            "/v1/tables/readings/rows?id%3D1%20OR%201%3D1=1",
            "/v1/tables/readings/rows?id=1%20OR%201%3D1",
            "/v1/tables/readings/rows",
            "/v1/tables/readings/export?columns=id;drop",
        ] {
            server.get(path).expect(400);
        }
        for path in [
            "/v1/tables/reading/export",
            "/v1/tables/readings%3B%20DROP%20TABLE%20readings/export",
        ] {
            assert_eq!(server.get(path).expect(404).code(), "no_table");
        }
        assert_eq!(place.sql("SELECT count(*) FROM readings"), ["3"]);
        let table = server.get("/v1/tables/readings").expect(200).json();
        assert_eq!(table["key"], serde_json::json!(["id"]), "{table}");
        let tables = server.get("/v1/tables").expect(200).text();
        assert!(tables.contains("readings"), "{tables}");
    }
}

#[test]
fn modes_do_what_they_say() {
    for database in BOTH {
        let sql = format!(
            "{READINGS}; INSERT INTO readings VALUES (1, 'old', 1, 'x'), (2, 'old', 2, 'y'), (3, 'old', 3, 'z')"
        );
        let place = TestDatabase::with(*database, &sql, &[]);
        let server = Serve::of(&url(&place), &state(&place));
        for (mode, lines) in [
            (
                "upsert",
                "{\"id\":1,\"device\":\"new\"}\n{\"id\":9,\"device\":\"new\"}\n",
            ),
            (
                "ignore",
                "{\"id\":2,\"device\":\"new\"}\n{\"id\":8,\"device\":\"new\"}\n",
            ),
            ("update", "{\"id\":3,\"value\":33}\n{\"id\":77,\"value\":1}\n"),
            ("delete", "{\"id\":9}\n"),
        ] {
            server
                .put(
                    &format!("/v1/tables/readings/rows?ack=committed&mode={mode}"),
                    lines,
                )
                .expect(200);
        }
        let found = place.sql("SELECT id, device, value FROM readings ORDER BY id");
        assert_eq!(found, ["1|new|1", "2|old|2", "3|old|33", "8|new|-"]);
        // A key that exists is known to the database alone, so it is named once it is committed.
        let answer = server
            .put(
                "/v1/tables/readings/rows?ack=committed",
                "{\"id\":1}\n{\"id\":10}\n",
            )
            .expect(207)
            .json();
        assert_eq!(
            (&answer["rejected"], &answer["rejects"][0]["row"]),
            (&1.into(), &1.into()),
            "{answer}"
        );
        assert_eq!(
            server
                .put("/v1/tables/readings/rows?mode=replace", "{}")
                .expect(400)
                .code(),
            "bad_request"
        );
    }
}

#[test]
fn a_producer_sends_again_and_nothing_is_doubled() {
    let row = |id: u64| format!("{{\"id\":{id}}}\n");
    let send = |server: &Serve, ack: &str, first: u64, ids: std::ops::Range<u64>| {
        let body: String = ids.map(row).collect();
        let headers = [
            "Content-Type: application/x-ndjson",
            "Tonnage-Producer: gate",
            &format!("Tonnage-Sequence: {first}"),
        ];
        server.send(
            "POST",
            &format!("/v1/tables/readings/rows?ack={ack}"),
            &headers,
            body.as_bytes(),
        )
    };
    let table = READINGS.replace(" PRIMARY KEY", "");
    for database in BOTH {
        for ack in ["journaled", "committed"] {
            let place = TestDatabase::with(*database, &table, &[]);
            let server = Serve::of(&url(&place), &state(&place));
            server.get("/v1/producers/gate").expect(404);
            let answer = send(&server, ack, 1, 100..103).expect(200).json();
            assert_eq!((&answer["next"], &answer["known"]), (&4.into(), &0.into()));
            let answer = send(&server, ack, 1, 100..103).expect(200).json();
            assert_eq!(
                (&answer["next"], &answer["known"], &answer["first"]),
                (&4.into(), &3.into(), &serde_json::Value::Null)
            );
            // A gap, another body, a longer one, a shorter one, one that begins within.
            let gap = send(&server, ack, 5, 104..105).expect(409);
            assert_eq!((gap.code().as_str(), &gap.json()["due"]), ("gap", &4.into()));
            for (first, ids) in [(1, 101..104), (1, 100..105), (1, 100..102), (2, 101..103)] {
                assert_eq!(send(&server, ack, first, ids).expect(409).code(), "conflict");
            }
            server.kill();
            let server = Serve::of(&url(&place), &state(&place));
            let answer = send(&server, ack, 1, 100..103).expect(200).json();
            assert_eq!(answer["known"], 3, "{answer}");
            send(&server, ack, 4, 103..104).expect(200);
            assert_eq!(send(&server, ack, 9, 104..105).expect(409).code(), "gap");
            server.until_committed(4);
            let producer = server.get("/v1/producers/gate").expect(200).json();
            assert_eq!(producer["tables"][0]["committed"], 4, "{producer}");
            assert_eq!(producer["tables"][0]["next"], 5, "{producer}");
            server.stop().expect(0);
            assert_eq!(
                place.sql("SELECT id FROM readings ORDER BY id"),
                ["100", "101", "102", "103"]
            );
        }
    }
}

#[test]
fn the_line_that_it_prints_works_and_it_drains_before_it_ends() {
    for database in BOTH {
        let place = TestDatabase::with(
            *database,
            "CREATE TABLE readings (id integer NOT NULL, device text NOT NULL)",
            &[],
        );
        let server = Serve::of(&url(&place), &state(&place));
        let said = loop {
            let said = server.said();
            if said.contains("try: curl ") {
                break said;
            }
        };
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix("try: curl "))
            .expect("a line");
        let (_, path) = line.split_once(server.address()).expect("the address");
        let (path, body) = path
            .split_once(" -H 'Content-Type: application/json' -d '")
            .expect("a body");
        let answer = server.send(
            "POST",
            path,
            &["Content-Type: application/json"],
            body.trim_end_matches('\'').as_bytes(),
        );
        assert_eq!(answer.expect(200).json()["ack"], "journaled");
        server.stop().expect(0);
        assert_eq!(place.sql("SELECT count(*) FROM readings"), ["1"]);
    }
}

#[test]
fn tables_are_made_of_rows_where_the_configuration_allows_it() {
    let lines = "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":null}\n";
    let media = "Content-Type: application/x-ndjson";
    for database in BOTH {
        let place = TestDatabase::new(*database);
        let server = Serve::of(&url(&place), &state(&place));
        let path = "/v1/tables/made?key=id";
        server
            .send("PUT", "/v1/tables/made?colour=red", &[media], lines.as_bytes())
            .expect(400);
        server
            .send("PUT", path, &[media], b"{\"id\":1}\n{\"id\":1}\n")
            .expect(400);
        server.get("/v1/tables/made").expect(404);
        let made = server
            .send("PUT", path, &[media], lines.as_bytes())
            .expect(201)
            .json();
        assert_eq!(made["rows"], 2, "{made}");
        assert_eq!(
            server
                .send("PUT", path, &[media], lines.as_bytes())
                .expect(409)
                .code(),
            "exists"
        );
        assert_eq!(
            server.get("/v1/tables/made").expect(200).json()["key"],
            serde_json::json!(["id"])
        );
        server
            .put(
                "/v1/tables/made/rows?ack=committed",
                "{\"id\":3,\"name\":\"c\"}\n",
            )
            .expect(200);
        let array = "[{\"at\":1.5},\n{\"at\":2}]";
        server
            .send(
                "PUT",
                "/v1/tables/of_json",
                &["Content-Type: application/json"],
                array.as_bytes(),
            )
            .expect(201);
        server.stop().expect(0);
        assert_eq!(
            place.sql("SELECT id, name FROM made ORDER BY id"),
            ["1|a", "2|-", "3|c"]
        );
        assert_eq!(place.sql("SELECT count(*), sum(at) FROM of_json"), ["2|3.5"]);
        let server = Serve::configured(&place, "");
        server
            .send("PUT", "/v1/tables/other", &[media], lines.as_bytes())
            .expect(403);
        server.stop().expect(0);
    }
}
