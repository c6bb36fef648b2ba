//! Detects cycles in task dependencies and parent links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::TaskId;

/// The tasks that each task links to.
pub type Links = BTreeMap<TaskId, BTreeSet<TaskId>>;

/// Returns the links that close a cycle: without them the graph has no cycle. Visits each link once.
pub fn cycle_edges(links: &Links) -> Vec<(TaskId, TaskId)> {
    let (mut done, mut edges) = (BTreeSet::new(), Vec::new());
    for start in links.keys() {
        // The path from the start, with the unvisited links of each task.
        let mut path: Vec<(TaskId, Vec<TaskId>)> = Vec::new();
        let mut on_path: BTreeSet<TaskId> = BTreeSet::new();
        let mut next = Some(*start).filter(|start| !done.contains(start));
        loop {
            if let Some(task) = next.take() {
                on_path.insert(task);
                path.push((task, links.get(&task).into_iter().flatten().copied().collect()));
            }
            let Some((task, rest)) = path.last_mut() else { break };
            match rest.pop() {
                Some(other) if on_path.contains(&other) => edges.push((*task, other)),
                Some(other) if done.contains(&other) => {}
                Some(other) => next = Some(other),
                None => {
                    on_path.remove(task);
                    done.insert(*task);
                    path.pop();
                }
            }
        }
    }
    edges
}

/// Returns the shortest path from one task to another.
pub fn shortest_path(links: &Links, start: TaskId, goal: TaskId) -> Option<Vec<TaskId>> {
    let mut came_from = BTreeMap::from([(start, None)]);
    let mut open = VecDeque::from([start]);
    while let Some(task) = open.pop_front() {
        if task == goal {
            let mut path: Vec<TaskId> =
                std::iter::successors(Some(goal), |task| came_from.get(task).copied().flatten()).collect();
            path.reverse();
            return Some(path);
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

/// Returns a cycle that contains one of `tasks`: the index of the first such task, and the path from it back to itself.
pub fn find_cycle(links: &Links, tasks: &[TaskId]) -> Option<(usize, Vec<TaskId>)> {
    cycle_edges(links).iter().find_map(|(from, to)| {
        let mut cycle = shortest_path(links, *to, *from)?;
        let members: BTreeSet<TaskId> = cycle.iter().copied().collect();
        let index = tasks.iter().position(|task| members.contains(task))?;
        let start = cycle.iter().position(|task| *task == tasks[index])?;
        cycle.rotate_left(start);
        cycle.push(tasks[index]);
        Some((index, cycle))
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
    fn only_links_that_close_a_cycle_are_returned() {
        assert_eq!(cycle_edges(&links(&[(1, 2), (1, 3), (2, 4), (3, 4), (5, 1)])), []);
        assert_eq!(cycle_edges(&links(&[(1, 1), (1, 2)])), [(id(1), id(1))]);
        assert_eq!(cycle_edges(&links(&[(1, 2), (2, 3), (3, 1), (4, 3)])), [(id(3), id(1))]);
        assert_eq!(cycle_edges(&links(&[(1, 2), (2, 3), (4, 3)])), []);
    }

    #[test]
    fn a_cycle_starts_and_ends_at_the_same_task() {
        let found = |pairs: &[(u128, u128)]| find_cycle(&links(pairs), &[5, 2, 1].map(id));
        assert_eq!(found(&[(1, 2), (2, 3)]), None);
        assert_eq!(found(&[(1, 1)]), Some((2, vec![id(1), id(1)])));
        assert_eq!(found(&[(5, 1), (1, 2), (2, 3), (3, 1)]), Some((1, [2, 3, 1, 2].map(id).to_vec())));
    }

    #[test]
    fn the_path_is_the_shortest_and_cycles_do_not_trap_the_search() {
        let links = links(&[(1, 2), (1, 3), (2, 1), (3, 4), (2, 5), (5, 4)]);
        assert_eq!(shortest_path(&links, id(1), id(4)), Some([1, 3, 4].map(id).to_vec()));
        assert_eq!(shortest_path(&links, id(4), id(1)), None);
        assert_eq!(shortest_path(&links, id(4), id(4)), Some(vec![id(4)]));
    }

    #[test]
    fn a_long_chain_does_not_recurse_deeply() {
        let chain: Vec<(u128, u128)> = (0..100_000).map(|nth| (nth, nth + 1)).collect();
        assert_eq!(cycle_edges(&links(&chain)), []);
        assert_eq!(shortest_path(&links(&chain), id(0), id(100_000)).map(|path| path.len()), Some(100_001));
    }
}
