//! The ledger's own tables and transactions. What every ledger keeps is in the contract.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tonnage::{
    ledger::{NewRun, RunHandle, RunQuery},
    operation::{Method, Operation},
    slot::{Advance, BlockMark, Counts, Position},
    table::Table,
    target::Writer,
};

use super::{Server, TestDatabase, connect};
use crate::common::new_run;

on_every_server! {
    looking_makes_no_ledger,
    nothing_is_moved_where_no_transaction_was_begun,
    a_slot_is_updated_in_place,
}

fn run(table: &Table, run_id: &str, identity: &str) -> NewRun {
    new_run(table, run_id.to_owned(), identity.to_owned(), 64)
}

fn advance(slot: u16, from: (u64, u64), to: (u64, u64), written: u64) -> Advance {
    let position = |(block, rows)| Position { block, rows };
    Advance {
        slot,
        from: position(from),
        to: position(to),
        mark: BlockMark {
            file: 3,
            offset: u64::MAX,
            file_rows: 11,
            rows: 12,
            hash: 0xfedc_ba98_7654_3210,
        },
        counts: Counts {
            written,
            skipped: 2,
            rejected: 1,
        },
    }
}

async fn started(place: &TestDatabase, run_id: &str) -> RunHandle {
    place.run("CREATE TABLE t (id int8)").await;
    let table = place.table("t").await;
    place
        .target
        .ledger()
        .start(&run(&table, run_id, "i"))
        .await
        .unwrap()
}

async fn writer(place: &TestDatabase, handle: &RunHandle) -> Box<dyn Writer> {
    let plan = place.plan("t", &["id"], Operation::Insert, Method::Native).await;
    place
        .target
        .writer(&plan.write_request(), Some(handle))
        .await
        .unwrap()
}

async fn looking_makes_no_ledger(server: Server) {
    let place = TestDatabase::on(server).await;
    let ledger = place.target.ledger();
    assert!(ledger.runs(&RunQuery::Newest(1_000)).await.unwrap().is_empty());
    let tables = "SELECT count(*) FROM pg_class WHERE relname = 'tonnage_runs' AND relnamespace = current_schema()::regnamespace";
    assert_eq!(place.number(tables).await, 0);
    // The same start again, because its answer was lost, is not refused.
    let handle = started(&place, "run").await;
    let table = place.table("t").await;
    assert_eq!(ledger.start(&run(&table, "run", "i")).await.unwrap(), handle);
}

/// Passes on what a client says, every BEGIN as a word that the server does not know.
async fn garble(mut client: OwnedReadHalf, mut server: OwnedWriteHalf) -> std::io::Result<()> {
    // What begins a session has no letter before its length.
    let mut letter = None;
    loop {
        let bytes = client.read_u32().await?;
        let mut body = vec![0; bytes as usize - 4];
        client.read_exact(&mut body).await?;
        if letter == Some(b'Q') && body.starts_with(b"BEGIN") {
            body[..5].copy_from_slice(b"BEGUN");
        }
        if let Some(letter) = letter {
            server.write_u8(letter).await?;
        }
        server.write_u32(bytes).await?;
        server.write_all(&body).await?;
        letter = Some(client.read_u8().await?);
    }
}

/// A server whose sessions are sent no BEGIN that it understands: the address of a proxy before it.
async fn without_begin(server: Server) -> std::net::SocketAddr {
    let url = url::Url::parse(&server.url()).unwrap();
    let behind = (url.host_str().unwrap().to_owned(), url.port().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(behind.clone()).await.unwrap();
            let (asked, mut answered) = client.into_split();
            let (mut answers, server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut answers, &mut answered).await });
            tokio::spawn(garble(asked, server));
        }
    });
    address
}

async fn nothing_is_moved_where_no_transaction_was_begun(server: Server) {
    let mut place = TestDatabase::on(server).await;
    let handle = started(&place, "run").await;
    let (before, database) = place.url.rsplit_once('@').unwrap();
    let (_, database) = database.split_once('/').unwrap();
    let address = without_begin(server).await;
    place.target = connect(&format!("{before}@{address}/{database}&sslmode=disable"))
        .await
        .unwrap();
    let mut writer = writer(&place, &handle).await;
    let error = writer.begin(&[advance(0, (0, 0), (64, 0), 1)]).await.unwrap_err();
    assert_eq!(error.code_text(), Some("42601"), "{error}");
    assert_eq!(
        place
            .number("SELECT count(*) FROM tonnage_slots WHERE block <> 0 OR written <> 0")
            .await,
        0
    );
}

async fn a_slot_is_updated_in_place(server: Server) {
    let place = TestDatabase::on(server).await;
    started(&place, "run").await;
    // Room on the page and no index on what changes is what it takes.
    let options = place
        .texts("SELECT reloptions::text FROM pg_class WHERE oid = 'tonnage_slots'::regclass")
        .await;
    assert_eq!(options, [Some("{fillfactor=50}".to_owned())]);
    let indexes = place
        .texts(
            "SELECT replace(pg_get_indexdef(indexrelid), current_schema() || '.', '') FROM pg_index \
                WHERE indrelid = 'tonnage_slots'::regclass",
        )
        .await;
    assert_eq!(
        indexes,
        [Some(
            "CREATE UNIQUE INDEX tonnage_slots_pkey ON tonnage_slots USING btree (run_id, slot)".to_owned()
        )]
    );
}
