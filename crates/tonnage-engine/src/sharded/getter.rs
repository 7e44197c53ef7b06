//! Rows by key from all members: a key with the whole shard key in it is asked of its member, any other of all.
//!
//! Members are asked at once and answer one after another. Each answer's keys are places among the keys that its member
//! was asked; they become places among all of them.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
};
use async_trait::async_trait;
use futures::future::try_join_all;
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    getter::{Answer, GetRequest, Getter},
    reader::ReadColumn,
    router::Router,
    target::Target,
    types::ColumnType,
};

use super::{ShardedTarget, alike, key::ShardKey, same_values};

struct MembersGetter {
    names: Vec<String>,
    getters: Vec<Box<dyn Getter>>,
    route: Option<Route>,
    /// The members that were asked and have not answered all, the next one last; and which keys they were asked.
    waiting: Vec<(usize, Option<UInt32Array>)>,
}

/// By which of the key's columns a member is found.
struct Route {
    key: ShardKey,
    at: Vec<usize>,
}

pub(super) async fn open(target: &ShardedTarget, request: &GetRequest) -> Result<Box<dyn Getter>> {
    let Some(table) = target.table(&request.table).await? else {
        return Err(Error::schema(format!("there is no table {}", request.table)));
    };
    let route = route(target, &alike::key_types(&table, &target.key)?, request);
    let own = async |at: usize, member: Arc<dyn Target>| {
        let table = target.table_of(at, &request.table).await?.name.clone();
        let request = GetRequest {
            table,
            ..request.clone()
        };
        member.getter(&request).await
    };
    let getters = target.all(own).await?;
    let columns = getters.first().map(|getter| getter.columns().to_vec());
    for (getter, name) in getters.iter().zip(&target.names) {
        if Some(getter.columns()) != columns.as_deref() {
            return Err(Error::schema(format!(
                "{name}: its columns are not those of {}",
                target.names[0]
            ))
            .hint("the table of a sharded target is defined alike in all its members"));
        }
    }
    Ok(Box::new(MembersGetter {
        names: target.names.clone(),
        getters,
        route,
        waiting: Vec::new(),
    }))
}

/// How keys are routed; none where they have not all of the shard key in them, or not as the table has it.
fn route(target: &ShardedTarget, types: &[ColumnType], request: &GetRequest) -> Option<Route> {
    let mut at = Vec::new();
    let mut asked = Vec::new();
    for (column, ty) in target.key.iter().zip(types) {
        let place = request.key.iter().position(|key| key.name == *column)?;
        let own = request.key[place].ty;
        if !same_values(own, *ty) {
            return None;
        }
        at.push(place);
        asked.push(own);
    }
    let key = ShardKey::new(&target.names, &target.key, target.key.clone(), asked);
    Some(Route { key, at })
}

/// What members say, each thing once.
fn distinct(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = Vec::new();
    for line in lines {
        if !known.contains(&line) {
            known.push(line);
        }
    }
    known
}

#[async_trait]
impl Getter for MembersGetter {
    fn columns(&self) -> &[ReadColumn] {
        self.getters.first().map_or(&[], |getter| getter.columns())
    }

    fn settings_changed(&self) -> Vec<String> {
        distinct(self.getters.iter().flat_map(|getter| getter.settings_changed()))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = distinct(self.getters.iter().flat_map(|getter| getter.notes()));
        if self.route.is_none() {
            notes.push("keys without the whole shard key are asked of every database".to_owned());
        }
        notes
    }

    async fn ask(&mut self, keys: &RecordBatch) -> Result<()> {
        let members = self.getters.len();
        let asked: Vec<Option<(RecordBatch, Option<UInt32Array>)>> = match &self.route {
            None => (0..members).map(|_| Some((keys.clone(), None))).collect(),
            Some(Route { key, at }) => {
                let columns: Vec<_> = at.iter().map(|at| keys.column(*at).clone()).collect();
                let mut places = vec![Vec::new(); members];
                for (row, member) in key.route(&columns)?.into_iter().enumerate() {
                    places[usize::from(member)].push(row as u32);
                }
                let some = |places: Vec<u32>| {
                    if places.is_empty() {
                        return Ok(None);
                    }
                    let places = UInt32Array::from(places);
                    let own = take_record_batch(keys, &places).map_err(arrow_bug)?;
                    Ok(Some((own, Some(places))))
                };
                places.into_iter().map(some).collect::<Result<_>>()?
            }
        };
        let names = &self.names;
        let asking = self.getters.iter_mut().zip(&asked).zip(names);
        let asking = asking.filter_map(|((getter, asked), name)| {
            let (keys, _) = asked.as_ref()?;
            Some(async move { getter.ask(keys).await.map_err(|error| error.at(name)) })
        });
        try_join_all(asking).await?;
        self.waiting = asked
            .into_iter()
            .enumerate()
            .rev()
            .filter_map(|(member, asked)| Some((member, asked?.1)))
            .collect();
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Answer>> {
        while let Some((member, places)) = self.waiting.last() {
            let (getter, name) = (&mut self.getters[*member], &self.names[*member]);
            match getter.next().await.map_err(|error| error.at(name))? {
                Some(mut answer) => {
                    if let Some(places) = places {
                        let known = |key: &u32| (*key as usize) < places.len();
                        if !answer.keys.values().iter().all(known) {
                            return Err(Error::bug("a row of a key that was not asked"));
                        }
                        answer.keys = answer.keys.unary(|key| places.value(key as usize));
                    }
                    return Ok(Some(answer));
                }
                None => {
                    self.waiting.pop();
                }
            }
        }
        Ok(None)
    }
}
