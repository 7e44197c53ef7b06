//! Where a column's values are cut into parts, as all targets do that cut by a column.
//!
//! A target asks its database for boundaries: the values, and the keys, of rows at like distances in the order of the
//! column and then of the table's key. Parts begin and end at the edges that are made of them here:
//! - Where equal values have one boundary, their first row is the edge, so that a part is a range of values, which an
//!   index finds.
//! - Where they have several, so many rows have that value that they are cut by the key as well: no value, however
//!   frequent, makes a large part. Nulls are cut by the key alone, apart from the others.
//!
//! Which values are equal the database says, as it compares by its own rules: edges within rows that it takes for equal
//! have one and the same value, so they are in the order in which it compares.

/// A boundary, with its literals or parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Boundary<L> {
    /// A number that rows of equal values have in common.
    pub group: i64,
    /// The value; none for a null.
    pub value: Option<L>,
    /// The key; empty where rows have none to be cut by.
    pub key: Vec<L>,
}

/// Where parts begin, in order.
#[derive(Debug, PartialEq)]
pub struct Edges<L> {
    /// Of values that are not null: a value, or a value and the key of one of its rows.
    pub values: Vec<Vec<L>>,
    /// Of nulls: the key of one of their rows.
    pub nulls: Vec<Vec<L>>,
}

/// The edges of parts that have about twice as many rows as lie between two of `boundaries`, at most.
pub fn edges<L: Clone + PartialEq>(boundaries: Vec<Boundary<L>>) -> Edges<L> {
    let mut edges = Edges {
        values: Vec::new(),
        nulls: Vec::new(),
    };
    for equal in boundaries.chunk_by(|a, b| a.group == b.group && a.value.is_some() == b.value.is_some()) {
        let Some((first, others)) = equal.split_first() else {
            continue;
        };
        edges
            .values
            .extend(first.value.iter().map(|value| vec![value.clone()]));
        for other in others.iter().filter(|other| !other.key.is_empty()) {
            match &first.value {
                Some(value) => {
                    let key = other.key.iter().cloned();
                    edges
                        .values
                        .push(std::iter::once(value.clone()).chain(key).collect());
                }
                None => edges.nulls.push(other.key.clone()),
            }
        }
    }
    edges.values.dedup();
    edges.nulls.dedup();
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(boundaries: &[(i64, Option<i64>, i64)]) -> Edges<i64> {
        let boundary = |(group, value, key): &(i64, Option<i64>, i64)| Boundary {
            group: *group,
            value: *value,
            key: vec![*key],
        };
        edges(boundaries.iter().map(boundary).collect())
    }

    #[test]
    fn a_value_is_an_edge_and_a_frequent_one_several() {
        let few = of(&[(1, Some(10), 5), (2, Some(20), 3), (4, Some(40), 1)]);
        assert_eq!(few.values, [[10], [20], [40]]);
        let many = of(&[
            (1, Some(10), 5),
            (2, Some(20), 3),
            (2, Some(20), 7),
            (2, Some(20), 9),
            (4, Some(40), 1),
        ]);
        assert_eq!(
            many.values,
            [vec![10], vec![20], vec![20, 7], vec![20, 9], vec![40]]
        );
        assert_eq!(many.nulls, [[0; 0]; 0]);
        // What the database takes for equal has one value, whichever rows were looked at.
        let equal = of(&[(3, Some(30), 1), (3, Some(31), 2)]);
        assert_eq!(equal.values, [vec![30], vec![30, 2]]);
    }

    #[test]
    fn nulls_are_apart_wherever_they_are_sorted() {
        let wanted = Edges {
            values: vec![vec![10]],
            nulls: vec![vec![7], vec![9]],
        };
        let nulls = [(9, None, 5), (9, None, 7), (9, None, 9)];
        let value = (1, Some(10), 2);
        assert_eq!(of(&[value, nulls[0], nulls[1], nulls[2]]), wanted);
        assert_eq!(of(&[nulls[0], nulls[1], nulls[2], value]), wanted);
    }

    #[test]
    fn without_a_key_a_frequent_value_is_one_part() {
        let boundary = |value| Boundary {
            group: 1,
            value,
            key: Vec::new(),
        };
        assert_eq!(edges(vec![boundary(Some(1)), boundary(Some(1))]).values, [[1]]);
        assert_eq!(edges(vec![boundary(None), boundary(None)]).nulls, [[0; 0]; 0]);
    }
}
