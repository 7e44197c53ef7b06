//! Tables that are altered, replaced or dropped while they are written to.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use mysql_async::prelude::Queryable;
use tonnage::{ErrorKind, operation::Operation, target::Guard, types::ColumnType};

use super::{METHODS, Server, TestDatabase, batch};

on_every_server! {
    ddl_waits_for_the_transaction,
}

fn pairs(ids: &[i64]) -> RecordBatch {
    let column = || Arc::new(Int64Array::from(ids.to_vec())) as _;
    batch(&[(ColumnType::Int64, column()), (ColumnType::Int64, column())])
}

const TABLE: &str = "DROP TABLE IF EXISTS t, old;\nCREATE TABLE t (a bigint, b bigint, s datetime(6), n int AUTO_INCREMENT UNIQUE)";

async fn ddl_waits_for_the_transaction(server: Server) {
    let place = TestDatabase::on(server).await;
    for method in METHODS {
        place.run(TABLE).await;
        let plan = place.plan("t", &["a", "b"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let mut other = place.session().await;
        let ddl = tokio::spawn(async move {
            other.query_drop("ALTER TABLE t MODIFY a double").await.unwrap();
        });
        let waiting = format!(
            "SELECT count(*) FROM information_schema.processlist WHERE db = '{}' AND state LIKE '%metadata lock%'",
            place.database
        );
        while place.number(&waiting).await == 0 {
            assert!(!ddl.is_finished(), "it has not waited");
            tokio::task::yield_now().await;
        }
        writer.write(&pairs(&[7]), Guard::None).await.unwrap();
        writer.commit(&[]).await.unwrap();
        ddl.await.unwrap();
        assert_eq!(place.texts("SELECT a FROM t").await, [Some("7".to_owned())]);
        let error = writer.begin(&[]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Altered, "{method}");
    }
}
