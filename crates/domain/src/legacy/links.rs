//! Links between tasks as the older coven had them: nobody saw to it that they make no circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::TaskId;

pub(super) type Links = BTreeMap<TaskId, BTreeSet<TaskId>>;

/// Takes out the links that would close a circle, and gives them.
pub(super) fn open_circles(links: &mut Links) -> Vec<(TaskId, TaskId)> {
    let (mut done, mut closing) = (BTreeSet::new(), Vec::new());
    for start in links.keys() {
        // The way from the start, with what of each is still to be looked at.
        let mut way: Vec<(TaskId, Vec<TaskId>)> = Vec::new();
        let mut on_way: BTreeSet<TaskId> = BTreeSet::new();
        let mut next = Some(*start).filter(|start| !done.contains(start));
        loop {
            if let Some(task) = next.take() {
                on_way.insert(task);
                way.push((task, links.get(&task).into_iter().flatten().copied().collect()));
            }
            let Some((task, rest)) = way.last_mut() else { break };
            match rest.pop() {
                Some(other) if on_way.contains(&other) => closing.push((*task, other)),
                Some(other) if done.contains(&other) => {}
                Some(other) => next = Some(other),
                None => {
                    on_way.remove(task);
                    done.insert(*task);
                    way.pop();
                }
            }
        }
    }
    for (from, to) in &closing {
        if let Some(targets) = links.get_mut(from) {
            targets.remove(to);
        }
    }
    closing
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn id(nth: u128) -> TaskId {
        TaskId::from_uuid(Uuid::from_u128(nth))
    }

    fn links(pairs: &[(u128, u128)]) -> Links {
        let mut links = Links::new();
        for (from, to) in pairs {
            links.entry(id(*from)).or_default().insert(id(*to));
        }
        links
    }

    #[test]
    fn only_what_closes_a_circle_goes() {
        let mut sound = links(&[(1, 2), (1, 3), (2, 4), (3, 4), (5, 1)]);
        let before = sound.clone();
        assert_eq!(open_circles(&mut sound), []);
        assert_eq!(sound, before);

        let mut own = links(&[(1, 1), (1, 2)]);
        assert_eq!(open_circles(&mut own), [(id(1), id(1))]);

        let mut round = links(&[(1, 2), (2, 3), (3, 1), (4, 3)]);
        assert_eq!(open_circles(&mut round), [(id(3), id(1))]);
        assert_eq!(open_circles(&mut round), [], "none is left");
    }

    #[test]
    fn a_long_chain_is_no_deep_recursion() {
        let chain: Vec<(u128, u128)> = (0..100_000).map(|nth| (nth, nth + 1)).collect();
        assert_eq!(open_circles(&mut links(&chain)), []);
    }
}
