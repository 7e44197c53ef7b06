//! Files shared out among the parts of a job.
//!
//! A file goes to one part as a whole. The largest go first, each to the part that has the fewest bytes, so that no part is
//! larger than the mean by more than a file; the same files are shared out in the same way every time. Within a part files
//! stay in their order.

use std::{cmp::Reverse, collections::BinaryHeap};

use tonnage_core::{
    error::{Error, Result},
    ledger::{InputIdentity, jobs::PARTS_MAX},
};

/// What a file costs besides its bytes, about: it is found, opened, and looked at before it is read.
const FILE_BYTES: u64 = 64 << 10;

/// The files of each part; as many parts as are wanted, or as there are files. `Config` for no part and for too many.
pub(crate) fn share(files: &[InputIdentity], parts: usize) -> Result<Vec<Vec<InputIdentity>>> {
    let parts = parts.min(files.len());
    if parts == 0 || parts > PARTS_MAX {
        return Err(Error::config(format!("a job has from 1 to {PARTS_MAX} parts")));
    }
    let mut by_size: Vec<usize> = (0..files.len()).collect();
    by_size.sort_by_key(|at| Reverse(files[*at].bytes));
    let mut emptiest: BinaryHeap<Reverse<(u64, usize)>> = (0..parts).map(|part| Reverse((0, part))).collect();
    let mut part_of = vec![0; files.len()];
    for at in by_size {
        if let Some(Reverse((bytes, part))) = emptiest.pop() {
            part_of[at] = part;
            emptiest.push(Reverse((bytes + files[at].bytes + FILE_BYTES, part)));
        }
    }
    let mut shared = vec![Vec::new(); parts];
    for (file, part) in files.iter().zip(part_of) {
        shared[part].push(file.clone());
    }
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(bytes: &[u64]) -> Vec<InputIdentity> {
        let each = bytes.iter().enumerate();
        each.map(|(at, bytes)| InputIdentity {
            path: format!("/f{at:03}"),
            bytes: *bytes,
            ..InputIdentity::default()
        })
        .collect()
    }

    #[test]
    fn parts_are_of_like_size_and_have_each_file_once() {
        let sizes: Vec<u64> = (0..1_000_u64).map(|at| (at * 7_919) % 5_000_000).collect();
        let all = files(&sizes);
        let shared = share(&all, 16).expect("parts");
        let mut seen: Vec<_> = shared.iter().flatten().map(|file| file.path.clone()).collect();
        seen.sort();
        let expected: Vec<_> = all.iter().map(|file| file.path.clone()).collect();
        assert_eq!(seen, expected);
        let bytes: Vec<u64> = shared
            .iter()
            .map(|part| part.iter().map(|file| file.bytes).sum())
            .collect();
        let mean = bytes.iter().sum::<u64>() / 16;
        assert!(
            bytes.iter().all(|bytes| bytes.abs_diff(mean) < mean / 100),
            "{bytes:?}"
        );
        assert!(
            shared
                .iter()
                .all(|part| part.is_sorted_by_key(|file| file.path.clone()))
        );
    }

    #[test]
    fn there_are_no_more_parts_than_files() {
        let shared = share(&files(&[5, 0, 9]), 200).expect("parts");
        assert_eq!(shared.len(), 3);
        assert!(shared.iter().all(|part| part.len() == 1));
        assert!(share(&files(&[5]), 0).is_err());
        assert!(share(&[], 4).is_err());
    }
}
