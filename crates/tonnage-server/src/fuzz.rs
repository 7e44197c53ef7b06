//! What fuzzing gives any bytes to: bodies, and what is read of a request besides. Each function ends without a panic, whatever
//! the bytes.

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use tonnage::buffer::Rows;

use crate::{
    asked::Parameters,
    body::{self, Coding, FORMATS},
    config::{Bytes, Limits},
    page, read, traces,
};

/// A body; the first byte chooses its format and its coding.
pub fn bodies(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let format = FORMATS[usize::from(choice % 8) % FORMATS.len()].1;
    let coding = [Coding::Identity, Coding::Gzip, Coding::Zstd][usize::from(choice / 8) % 3];
    let limits = Limits {
        decompressed: Bytes(1 << 20),
        rows: 1_000,
        row: Bytes(4 << 10),
        columns: 50,
        ..Limits::default()
    };
    let mut rows = 0;
    let mut take = |block: Rows| {
        rows += block.count();
        Ok(())
    };
    let read = body::read(bytes, format, coding, &limits, &mut take);
    assert!(rows <= limits.rows, "{rows} rows");
    if let Err(refusal) = read {
        assert!(refusal.status.is_client_error(), "{refusal:?}");
    }
}

/// A query, and the values of headers, a line each.
pub fn requests(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let query = String::from_utf8_lossy(lines.next().unwrap_or_default());
    if let Ok(uri) = format!("/v1/tables/t/rows?{query}").parse::<Uri>()
        && let Ok(parameters) = Parameters::of(&uri)
    {
        let _ = (
            parameters.get("id"),
            parameters.names("columns"),
            parameters.only(&["id"]),
        );
    }
    let names = [
        header::ACCEPT.as_str(),
        header::CONTENT_TYPE.as_str(),
        header::CONTENT_ENCODING.as_str(),
        "traceparent",
    ];
    let mut headers = HeaderMap::new();
    for (name, line) in names.iter().zip(lines) {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.insert(*name, value);
        }
        page::password(&String::from_utf8_lossy(line));
    }
    let _ = (read::form(&headers, read::Form::Json), body::described(&headers));
    traces::parent(&headers);
}

#[cfg(test)]
mod tests {
    use tonnage_testing::corpus::check;

    use super::*;

    #[test]
    fn corpora_and_what_is_near_them_are_read_without_a_panic() {
        check("bodies", bodies);
        check("requests", requests);
    }
}
