//! Which links between tasks make no sense: a task that waits for itself or stands below itself, over however many others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::TaskId;

/// Where each task leads.
pub type Links = BTreeMap<TaskId, BTreeSet<TaskId>>;

/// The links that close a circle; without them there is none. Looks at each link once, however long the ways are.
pub fn closing(links: &Links) -> Vec<(TaskId, TaskId)> {
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
    closing
}

/// The shortest way from one task to another.
pub fn way(links: &Links, start: TaskId, goal: TaskId) -> Option<Vec<TaskId>> {
    let mut came_from = BTreeMap::from([(start, None)]);
    let mut open = VecDeque::from([start]);
    while let Some(task) = open.pop_front() {
        if task == goal {
            let mut way: Vec<TaskId> =
                std::iter::successors(Some(goal), |task| came_from.get(task).copied().flatten()).collect();
            way.reverse();
            return Some(way);
        }
        for other in links.get(&task).into_iter().flatten() {
            came_from.entry(*other).or_insert_with(|| {
                open.push_back(*other);
                Some(task)
            });
        }
    }
    None
}

/// One circle, from a task and back to it: the first of `tasks` that is on it, and its place among them.
pub fn circle(links: &Links, tasks: &[TaskId]) -> Option<(usize, Vec<TaskId>)> {
    closing(links).iter().find_map(|(from, to)| {
        let mut round = way(links, *to, *from)?;
        let on_it: BTreeSet<TaskId> = round.iter().copied().collect();
        let place = tasks.iter().position(|task| on_it.contains(task))?;
        let turn = round.iter().position(|task| *task == tasks[place])?;
        round.rotate_left(turn);
        round.push(tasks[place]);
        Some((place, round))
    })
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
    fn only_what_closes_a_circle_is_named() {
        assert_eq!(closing(&links(&[(1, 2), (1, 3), (2, 4), (3, 4), (5, 1)])), []);
        assert_eq!(closing(&links(&[(1, 1), (1, 2)])), [(id(1), id(1))]);
        assert_eq!(closing(&links(&[(1, 2), (2, 3), (3, 1), (4, 3)])), [(id(3), id(1))]);
        assert_eq!(closing(&links(&[(1, 2), (2, 3), (4, 3)])), []);
    }

    #[test]
    fn a_circle_is_told_from_end_to_end() {
        let told = |pairs: &[(u128, u128)]| circle(&links(pairs), &[5, 2, 1].map(id));
        assert_eq!(told(&[(1, 2), (2, 3)]), None);
        assert_eq!(told(&[(1, 1)]), Some((2, vec![id(1), id(1)])));
        assert_eq!(told(&[(5, 1), (1, 2), (2, 3), (3, 1)]), Some((1, [2, 3, 1, 2].map(id).to_vec())));
    }

    #[test]
    fn a_way_is_the_shortest_and_circles_do_not_catch_the_search() {
        let links = links(&[(1, 2), (1, 3), (2, 1), (3, 4), (2, 5), (5, 4)]);
        assert_eq!(way(&links, id(1), id(4)), Some([1, 3, 4].map(id).to_vec()));
        assert_eq!(way(&links, id(4), id(1)), None);
        assert_eq!(way(&links, id(4), id(4)), Some(vec![id(4)]));
    }

    #[test]
    fn a_long_chain_is_no_deep_recursion() {
        let chain: Vec<(u128, u128)> = (0..100_000).map(|nth| (nth, nth + 1)).collect();
        assert_eq!(closing(&links(&chain)), []);
        assert_eq!(way(&links(&chain), id(0), id(100_000)).map(|way| way.len()), Some(100_001));
    }
}
