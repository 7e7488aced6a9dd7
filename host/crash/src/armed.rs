//! What a point does when it is reached.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::MALFORMED;

/// Who is killed.
#[derive(Clone, Copy)]
enum Victim {
    /// The process that reaches the point.
    Itself,
    /// Its children: of a daemon, the supervisors.
    Children,
    /// Theirs: the harness programs.
    Grandchildren,
}

pub(crate) fn arm(spec: &str, happened: Option<&Path>) -> Result<(), String> {
    let (point, victim) = match spec.split_once('@') {
        None => (spec, Victim::Itself),
        Some((point, "supervisor")) => (point, Victim::Children),
        Some((point, "harness")) => (point, Victim::Grandchildren),
        Some(_) => return Err(MALFORMED.to_owned()),
    };
    let (name, count) = match point.rsplit_once(':') {
        Some((name, count)) => (name, count.parse().map_err(|_| MALFORMED.to_owned())?),
        None => (point, 1),
    };
    let left = AtomicU32::new(count);
    let happened = happened.map(Path::to_owned);
    fail::cfg_callback(name, move || {
        if left.fetch_sub(1, Ordering::SeqCst) != 1 {
            return;
        }
        if let Some(happened) = &happened {
            let _ = std::fs::write(happened, "");
        }
        kill(victim);
    })
}

fn kill(victim: Victim) {
    let own = getpid();
    let below = match victim {
        Victim::Itself => {
            // Nothing of this process may run any more: no destructor, no flush, no answer.
            let _ = kill_process(own, Signal::KILL);
            std::process::abort();
        }
        Victim::Children => children(&[own]),
        Victim::Grandchildren => children(&children(&[own])),
    };
    for pid in below {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn children(parents: &[Pid]) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let known = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name in the second field may hold blanks and brackets.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        Some((Pid::from_raw(pid)?, Pid::from_raw(parent.parse().ok()?)?))
    });
    let below = known.filter(|(_, parent)| parents.contains(parent));
    below.map(|(pid, _)| pid).collect()
}
