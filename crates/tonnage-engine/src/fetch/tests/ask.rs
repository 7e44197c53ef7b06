//! Requests one by one, of keys that are known.

use arrow::{array::UInt32Array, compute::take_record_batch};

use super::*;

#[tokio::test]
async fn what_comes_of_the_keys_of_each_request_is_counted() {
    let memory = Memory::new();
    let rows: Vec<_> = (0..20).map(|i| (i, 2 * i, format!("v{i}"))).collect();
    table(&memory, &rows).await;
    let schema = Arc::new(Schema::new(vec![
        Field::new("b", DataType::Int64, true),
        Field::new("a", DataType::Int64, true),
    ]));
    // The last one is not there.
    let batch = RecordBatch::try_new(
        schema.clone(),
        vec![
            Arc::new(Int64Array::from_iter_values((0..21).map(|i| 2 * i))),
            Arc::new(Int64Array::from_iter_values(0..21)),
        ],
    )
    .unwrap();
    let source = BatchSource::new(
        "keys",
        schema,
        [batch.slice(0, 9), batch.slice(9, 12)].into_iter(),
    );
    let target: Arc<dyn Target> = Arc::new(memory.clone());
    let known = Known::prepare(target, &TableName::bare("t"), Box::new(source), 2).await;
    let known = known.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(known.keys().num_rows(), 21);
    let names: Vec<String> = known
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(names, ["a", "b"], "in the order of the key");

    let mut asker = known.asker().unwrap();
    let of = |places: &[u32]| take_record_batch(known.keys(), &UInt32Array::from(places.to_vec())).unwrap();
    let asked = asker.ask(&of(&[7, 3, 20, 3])).await.unwrap();
    let wanted = Asked {
        keys: 4,
        distinct: 3,
        found: 2,
        missing: 1,
        rows: 2,
        requests: 1,
        retries: 0,
    };
    assert_eq!(asked, wanted);
    let one = asker.ask(&of(&[19])).await.unwrap();
    assert_eq!((one.keys, one.found, one.rows), (1, 1, 1));

    // Another connection takes the place of a lost one.
    memory.fail_after(0, Fault::Before(ErrorKind::Unsent));
    let again = asker.ask(&of(&[7, 3, 20, 3])).await.unwrap();
    assert_eq!(again.retries, 1);
    assert_eq!((again.found, again.missing, again.rows), (2, 1, 2));
    let mut both = asked;
    both.add(&again);
    assert_eq!((both.keys, both.distinct, both.retries), (8, 6, 1));
}
