//! Process trees under a real supervisor (RP-16, F06, LOC-009).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use berth_machine::process::{Child, Exit, Limits, Order, Spawner, StartError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_machine-fixture"))
}

fn shell(script: &str) -> Order {
    Order::new("/bin/sh", "/")
        .args(["-c", script])
        .env("PATH", "/usr/bin:/bin")
}

/// A duration that no other `sleep` of this machine has, so that leftovers can be found by it.
fn marked_sleep(mark: &str) -> String {
    let digits: u32 = mark.bytes().fold(7, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!("600.{}{}", std::process::id(), digits)
}

fn living(argument: &str) -> usize {
    let mut found = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(arguments) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let mut arguments = arguments.split(|byte| *byte == 0);
        if arguments
            .next()
            .is_some_and(|name| name.ends_with(b"sleep"))
        {
            found += usize::from(arguments.any(|other| other == argument.as_bytes()));
        }
    }
    found
}

fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < Duration::from_secs(10), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

async fn start(order: Order) -> Child {
    Spawner::new(fixture()).start(order).await.unwrap()
}

async fn output(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr = None;
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .await
        .unwrap();
    text
}

async fn failure(order: Order) -> StartError {
    match Spawner::new(fixture()).start(order).await {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

// RP-16.7
#[tokio::test]
async fn a_program_gets_its_environment_directory_and_umask_and_nothing_else() {
    let mut order = Order::new("/bin/sh", "/usr")
        .args(["-c", "/usr/bin/env; pwd; umask; ulimit -n; ulimit -c"]);
    order = order.env("ONE", "1").env("TWO", "a b");
    order.umask = 0o027;
    order.limits = Limits {
        open_files: Some(64),
        processes: None,
    };
    let mut child = start(order).await;
    let text = output(&mut child).await;
    let mut lines: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("_="))
        .collect();
    lines.retain(|line| *line != "PWD=/usr");
    lines[..2].sort_unstable();
    assert_eq!(lines, ["ONE=1", "TWO=a b", "/usr", "0027", "64", "0"]);
    assert!(child.wait().await.success());
}

#[tokio::test]
async fn what_is_written_arrives_and_closing_ends_the_input() {
    let mut child = start(Order::new("/bin/cat", "/")).await;
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all("grüße\n".as_bytes()).await.unwrap();
    drop(stdin);
    assert_eq!(output(&mut child).await, "grüße\n");
    assert!(child.wait().await.success());
}

#[tokio::test]
async fn a_program_that_closes_its_input_early_is_an_error_of_the_write_and_no_signal_to_us() {
    let mut child = start(shell("exec 0<&-; exit 3")).await;
    assert_eq!(child.wait().await.exit, Some(Exit::Code(3)));
    let error = child
        .stdin
        .take()
        .unwrap()
        .write_all(b"late")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_flood_on_one_output_does_not_stall_the_other() {
    let mut child = start(shell("head -c 20000000 /dev/zero >&2; echo done")).await;
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (mut text, mut noise) = (String::new(), Vec::new());
    let (first, second) = tokio::join!(
        stdout.read_to_string(&mut text),
        stderr.read_to_end(&mut noise)
    );
    first.and(second).unwrap();
    assert_eq!((text.as_str(), noise.len()), ("done\n", 20_000_000));
    assert!(!stdout.cut() && !stderr.cut() && child.wait().await.success());
}

// F06, RP-16.6: three ways to leave something behind that holds the output.
#[tokio::test]
async fn what_holds_the_output_after_the_leader_is_killed_after_the_drain() {
    for (name, script) in [
        ("background", "sleep MARK & echo ready"),
        ("session", "setsid sleep MARK & echo ready"),
        (
            "fork",
            "(setsid sh -c 'sleep MARK & exit' &) ; sleep 0.2; echo ready",
        ),
    ] {
        let mark = marked_sleep(name);
        let begun = Instant::now();
        let mut child = start(shell(&script.replace("MARK", &mark))).await;
        assert_eq!(output(&mut child).await, "ready\n", "{name}");
        let ended = child.wait().await;
        assert_eq!(ended.exit, Some(Exit::Code(0)), "{name}");
        assert!(
            ended.lingered && ended.scope_empty && !ended.clean(),
            "{name}: {ended:?}"
        );
        assert!(begun.elapsed() < Duration::from_secs(4), "{name}");
        assert_eq!(living(&mark), 0, "{name}");
    }
}

// F06: nobody holds the output, but the scope is not empty.
#[tokio::test]
async fn a_background_process_without_output_does_not_outlive_its_leader() {
    let mark = marked_sleep("quiet");
    let mut child = start(shell(&format!("sleep {mark} >/dev/null 2>&1 & exit 0"))).await;
    assert_eq!(output(&mut child).await, "");
    let ended = child.wait().await;
    assert!(ended.lingered && ended.scope_empty);
    assert_eq!(living(&mark), 0);
}

// RP-16.3, RP-16.6: the leader obeys the stop; what it leaves behind does not, and holds no output. It is gone long before the
// grace is over, and that is known.
#[tokio::test]
async fn what_an_obedient_leader_leaves_behind_is_confirmed_gone() {
    let mark = marked_sleep("left");
    let script = format!(
        "(trap '' TERM; exec setsid sleep {mark} >/dev/null 2>&1) & echo up; exec sleep {mark}"
    );
    let mut child = start(shell(&script)).await;
    wait_until("both run", || living(&mark) == 2);
    let stopper = child.stopper();
    stopper.request_stop(Duration::from_secs(60));
    assert_eq!(output(&mut child).await, "up\n");
    let ended = tokio::time::timeout(Duration::from_secs(20), child.wait())
        .await
        .unwrap();
    assert_eq!(ended.exit, Some(Exit::Signal(15)));
    assert!(ended.clean(), "{ended:?}");
    assert_eq!(living(&mark), 0);
}

// RP-16.2: the exit is one fact, the empty scope another.
#[tokio::test]
async fn a_background_process_that_ends_in_time_is_a_clean_end() {
    let mut child = start(shell("(sleep 0.3; echo late) & echo early; exit 5")).await;
    let stdout = child.stdout.take();
    assert_eq!(child.exited().await, Some(Exit::Code(5)));
    child.stdout = stdout;
    assert_eq!(output(&mut child).await, "early\nlate\n");
    let ended = child.wait().await;
    assert!(ended.clean() && !ended.success());
}

// RP-16.6: the time between two reads is the reader's and does not count.
#[tokio::test]
async fn a_slow_reader_loses_nothing() {
    let mut order = shell("(head -c 300000 /dev/zero) & exit 0");
    order.drain = Duration::from_millis(200);
    let mut child = start(order).await;
    child.stderr = None;
    let mut stdout = child.stdout.take().unwrap();
    child.exited().await;
    let (mut read, mut buffer) = (0, vec![0; 60_000]);
    loop {
        tokio::time::sleep(Duration::from_millis(120)).await;
        match stdout.read(&mut buffer).await.unwrap() {
            0 => break,
            some => read += some,
        }
    }
    assert_eq!(read, 300_000);
    assert!(child.wait().await.clean());
}

// RP-16.2: an end of output that was not seen is said so.
#[tokio::test]
async fn an_output_held_outside_of_the_scope_is_cut() {
    let mut order = shell("read x; echo ready");
    order.drain = Duration::from_millis(200);
    let mut child = start(order).await;
    let held = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{}/fd/1", child.pid()))
        .unwrap();
    child.stdin = None;
    child.stderr = None;
    let mut stdout = child.stdout.take().unwrap();
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    assert!(stdout.cut());
    assert_eq!(text, "ready\n");
    drop(held);
    assert!(child.wait().await.scope_empty);
}

// RP-16.3
#[tokio::test]
async fn stop_lets_the_tree_end_itself_within_the_grace() {
    let mut child = start(shell(
        "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done",
    ))
    .await;
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 3];
    stdout.read_exact(&mut first).await.unwrap();
    let ended = child.stop(Duration::from_secs(20)).await;
    assert_eq!(ended.exit, Some(Exit::Code(7)));
    assert!(ended.clean(), "{ended:?}");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "bye\n");
}

// RP-16.3, F01: the whole scope, also what ignores TERM and left the session.
#[tokio::test]
async fn stop_kills_what_ignores_it_after_the_grace() {
    let mark = marked_sleep("stubborn");
    let script =
        format!("trap '' TERM; setsid sh -c 'sleep {mark}' & echo up; sleep {mark}; sleep {mark}");
    let mut child = start(shell(&script)).await;
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 3]).await.unwrap();
    wait_until("both run", || living(&mark) == 2);
    let ended = child.stop(Duration::from_millis(300)).await;
    assert_eq!(ended.exit, Some(Exit::Signal(9)));
    assert!(ended.clean());
    assert_eq!(living(&mark), 0);
}

/// Makes the shell that runs it a process whose name is no text.
const NAMELESS: &str = "printf '\\377\\376' >/proc/self/comm";

// RP-16.3: a process chooses its own name, any bytes, and is stopped like every other.
#[tokio::test]
async fn a_tree_with_a_name_that_is_no_text_is_stopped() {
    let mark = marked_sleep("nameless");
    let script = format!(
        "trap '' TERM; ({NAMELESS}; echo up; sleep {mark}; :) & trap 'exit 3' TERM; wait; sleep {mark}"
    );
    let mut child = start(shell(&script)).await;
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 3]).await.unwrap();
    wait_until("it runs", || living(&mark) == 1);
    let stopped = child.stop(Duration::from_secs(2));
    let ended = tokio::time::timeout(Duration::from_secs(30), stopped)
        .await
        .unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(3)), "TERM reached the leader");
    assert!(ended.scope_empty, "{ended:?}");
    assert_eq!(living(&mark), 0);
}

// RP-16.5: such a process anywhere on the machine keeps nobody from starting.
#[test]
fn orphans_are_adopted_beside_a_name_that_is_no_text() {
    let mut odd = Command::new("/bin/sh")
        .args(["-c", &format!("{NAMELESS}; echo up; read never")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(odd.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
    let name = std::fs::read(format!("/proc/{}/comm", odd.id())).unwrap();
    assert_eq!(name, b"\xff\xfe\n");
    let caller = Command::new(fixture())
        .args(["hold", "echo fine"])
        .output()
        .unwrap();
    odd.kill().unwrap();
    odd.wait().unwrap();
    assert_eq!(caller.stdout, b"fine\n");
    assert!(caller.status.success());
}

// RP-16.2: where the kernel lets the tree do so, it may stop its own supervisor. The stop has an end all the same.
#[test]
fn a_supervisor_that_stands_still_does_not_keep_a_tree_alive() {
    let mark = marked_sleep("still");
    let script = format!("setsid sleep {mark} & echo up; sleep {mark}");
    let output = Command::new(fixture())
        .args(["halt", &script])
        .output()
        .unwrap();
    assert_eq!(living(&mark), 0);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn a_tree_that_keeps_forking_is_ended() {
    let mark = marked_sleep("bomb");
    let mut child = start(shell(&format!("while :; do (setsid sleep {mark} &); done"))).await;
    child.stdout = None;
    child.stderr = None;
    wait_until("it forks", || living(&mark) > 20);
    assert!(child.stop(Duration::ZERO).await.scope_empty);
    assert_eq!(living(&mark), 0);
}

#[tokio::test]
async fn dropping_the_last_handle_kills_the_tree() {
    let mark = marked_sleep("dropped");
    let child = start(shell(&format!("setsid sleep {mark} & sleep {mark}"))).await;
    wait_until("both run", || living(&mark) == 2);
    let stopper = child.stopper();
    drop(child);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(living(&mark), 2, "a handle is left");
    drop(stopper);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(living(&mark), 0);
}

// RP-16.5: kill -9 of the supervisor.
#[test]
fn a_killed_supervisor_leaves_nothing_behind() {
    let mark = marked_sleep("supervisor");
    let script = format!("setsid sleep {mark} & echo $PPID; sleep {mark}");
    let mut caller = Command::new(fixture())
        .args(["hold", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("both run", || living(&mark) == 2);
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(caller.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    assert!(
        Command::new("/bin/kill")
            .args(["-9", line.trim()])
            .status()
            .unwrap()
            .success()
    );
    let status = caller.wait().unwrap();
    assert_eq!(
        status.code(),
        Some(1),
        "an end without a known exit is not clean"
    );
    assert_eq!(living(&mark), 0);
}

// Architecture 8: kill -9 of the daemon.
#[test]
fn a_killed_caller_leaves_nothing_behind() {
    let mark = marked_sleep("caller");
    let script = format!("trap '' TERM; setsid sleep {mark} & sleep {mark}");
    let mut caller = Command::new(fixture())
        .args(["hold", &script])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("both run", || living(&mark) == 2);
    caller.kill().unwrap();
    caller.wait().unwrap();
    wait_until("nothing is left", || living(&mark) == 0);
}

#[tokio::test]
async fn a_start_that_does_not_work_says_why() {
    assert!(matches!(
        failure(Order::new("/nowhere/program", "/")).await,
        StartError::ProgramMissing
    ));
    assert!(matches!(
        failure(Order::new("/etc/passwd", "/")).await,
        StartError::ProgramRefused(_)
    ));
    assert!(matches!(
        failure(Order::new("/bin/true", "/nowhere")).await,
        StartError::Directory(_)
    ));
    assert!(matches!(
        failure(Order::new("true", "/")).await,
        StartError::Order(_)
    ));
    let no_supervisor = Spawner::new("/nowhere/berth")
        .start(Order::new("/bin/true", "/"))
        .await;
    assert!(matches!(no_supervisor, Err(StartError::Supervisor(_))));
}

/// Runs a script under a caller that hides `state` from it, started by `setpriv` with these options.
fn hide(folder: &Path, options: &[&str], script: &str) -> String {
    let program = folder.join("fixture");
    std::fs::copy(fixture(), &program).unwrap();
    let mut command = Command::new("/usr/bin/setpriv");
    command
        .args(options)
        .arg(program)
        .args(["hide", script])
        .arg(folder.join("state"));
    let output = command.env("CANARY", "sentinel").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

// LOC-009: neither the folder nor the daemon can be read from inside of a tree, though both have its account. Once by
// a mount namespace, as an ordinary user; once by Landlock, where namespaces are refused.
#[test]
fn a_tree_reads_neither_the_hidden_folder_nor_its_caller() {
    use std::os::unix::fs::PermissionsExt;
    for (options, account) in [
        (
            ["--reuid=65534", "--regid=65534", "--clear-groups"],
            "65534",
        ),
        (
            ["--inh-caps=-all", "--bounding-set=-all", "--clear-groups"],
            "0",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        std::fs::write(state.join("bootstrap.json"), "sentinel").unwrap();
        std::fs::write(folder.path().join("workspace"), "visible").unwrap();
        let at = folder.path().display();
        let script = format!(
            "exec 2>/dev/null; id -u; cat {at}/workspace; echo; cat {at}/state/bootstrap.json; ls {at}/state/; \
             umount {at}/state; unshare -Urm sh -c 'umount {at}/state; cat {at}/state/bootstrap.json'; \
             cat /proc/$PPID/root{at}/state/bootstrap.json /proc/$CALLER/root{at}/state/bootstrap.json; \
             cat /proc/$CALLER/environ /proc/$PPID/environ; kill -9 $PPID && echo killed; \
             kill -9 $CALLER && echo killed; echo end"
        );
        assert_eq!(
            hide(folder.path(), &options, &script),
            format!("{account}\nvisible\nend\n")
        );
    }
}
