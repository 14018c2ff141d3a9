//! Many agents at once.

use std::cell::Cell;

use homeostat_nn::Kernel;
use rayon::prelude::*;

use crate::Workspace;

thread_local! {
    static WORKSPACE: Cell<Option<Workspace>> = const { Cell::new(None) };
}

/// Calls `work` for every agent, each call a task of its own on rayon's threads,
/// with the workspace of the thread it runs on. Agents share nothing else, so the
/// outcome does not depend on the number of threads. Work may hand out tasks itself.
pub fn for_each_agent<A: Send>(
    kernel: Kernel,
    agents: &mut [A],
    work: impl Fn(&mut A, &mut Workspace) + Sync,
) {
    for_each_agent_of(kernel, 1, agents, work);
}

/// The same for work that is soon done: at least so many agents make a task.
pub fn for_each_agent_of<A: Send>(
    kernel: Kernel,
    at_least: usize,
    agents: &mut [A],
    work: impl Fn(&mut A, &mut Workspace) + Sync,
) {
    agents.par_iter_mut().with_min_len(at_least).for_each(|agent| {
        // Taken, not borrowed: while the work of one agent waits for tasks of its own, this
        // thread may begin with another agent.
        let kept = WORKSPACE.take().filter(|workspace| workspace.kernel() == kernel);
        let mut workspace = kept.unwrap_or_else(|| Workspace::new(kernel));
        work(agent, &mut workspace);
        WORKSPACE.set(Some(workspace));
    });
}
