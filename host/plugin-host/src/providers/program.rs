//! The capability `program`: a short-lived program that the operator granted by path and digest, without a shell and with
//! an empty environment.

use std::time::Duration;

use contract::common::{Effect, Failure};
use contract::host_types::{Command, Finished};
use machine::process::{Child, Exit, Order, StartError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::fill::Fill;
use super::host::{CallHost, failure};

/// Bounds of the contract.
const LONGEST_MS: u32 = 120_000;
const OUTPUT_BYTES: u32 = 8 << 20;
/// Bound of standard input: it is in memory once.
const INPUT_BYTES: usize = 64 << 20;

fn refused(code: &str) -> Failure {
    failure(code, Effect::None)
}

/// Runs it to its end.
pub(super) fn run(host: &CallHost, command: &Command) -> Result<Finished, Failure> {
    let (order, input) = prepare(host, command)?;
    let spawner = host.shared.spawner.as_ref();
    let spawner = spawner.ok_or_else(|| refused("program_unavailable"))?;
    let asked = Duration::from_millis(command.timeout_ms.clamp(1, LONGEST_MS).into());
    let limit = asked.min(host.left());
    let most = command.max_output_bytes.min(OUTPUT_BYTES) as usize;
    host.runtime.block_on(async {
        let child = spawner
            .start(order)
            .await
            .map_err(|error| not_started(&error))?;
        let stopper = child.stopper();
        match tokio::time::timeout(limit, finish(child, input, most)).await {
            Ok(finished) => finished,
            Err(_) => {
                stopper.stop(Duration::ZERO).await;
                Err(failure("program_timed_out", Effect::Unknown))
            }
        }
    })
}

fn prepare(host: &CallHost, command: &Command) -> Result<(Order, Vec<u8>), Failure> {
    let provider = &host.shared.provider;
    let declared = provider.manifest.programs.iter();
    let declared = declared.clone().find(|it| it.name == command.program);
    let declared = declared.ok_or_else(|| refused("program_unknown"))?;
    if !declared.args.iter().any(|it| fits(it, &command.args)) {
        return Err(refused("arguments_not_granted"));
    }
    let granted = provider.programs.get(&command.program);
    let granted = granted.ok_or_else(|| refused("program_not_granted"))?;
    if !granted.is_unchanged() {
        tracing::error!(
            provider = provider.manifest.id,
            program = %granted.path.display(),
            "this is not the program that was granted; install the plugin again to grant what is there now"
        );
        return Err(refused("program_changed"));
    }
    let fill = Fill {
        host,
        allowed: None,
    };
    let mut order = Order::new(&granted.path, "/").args(&command.args);
    for variable in &command.env {
        let value = fill.text(&variable.value)?;
        let name_is_one = !variable.name.is_empty() && !variable.name.contains(['=', '\0']);
        let value = String::from_utf8(value)
            .ok()
            .filter(|it| !it.contains('\0'));
        match value {
            Some(value) if name_is_one => order = order.env(&variable.name, value),
            _ => return Err(refused("variable_invalid")),
        }
    }
    if command.args.iter().any(|argument| argument.contains('\0')) {
        return Err(refused("arguments_not_granted"));
    }
    Ok((order, fill.body(&command.stdin, INPUT_BYTES)?))
}

/// `*` is one argument, `**` the rest.
fn fits(pattern: &[String], args: &[String]) -> bool {
    match (pattern.split_first(), args.split_first()) {
        (None, None) => true,
        (Some((first, [])), _) if first == "**" => true,
        (Some((first, pattern)), Some((arg, args))) if first == "*" || first == arg => {
            fits(pattern, args)
        }
        _ => false,
    }
}

fn not_started(error: &StartError) -> Failure {
    tracing::warn!(%error, "a program of a provider was not started");
    refused("program_unavailable")
}

async fn finish(mut child: Child, input: Vec<u8>, most: usize) -> Result<Finished, Failure> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read its input is no failure of ours.
            let _ = stdin.write_all(&input).await;
        }
    };
    let ((), out, err) = tokio::join!(feed, bounded(stdout, most), bounded(stderr, most));
    let ended = child.wait().await;
    let exit_code = match ended.exit {
        Some(Exit::Code(code)) => Some(code),
        Some(Exit::Signal(_)) => None,
        None => return Err(failure("program_lost", Effect::Unknown)),
    };
    Ok(Finished {
        exit_code,
        truncated: out.1 || err.1,
        stdout: out.0,
        stderr: err.0,
    })
}

/// What it wrote, up to the bound; the rest is read and dropped, so that it goes on.
async fn bounded(from: Option<impl AsyncRead + Unpin>, most: usize) -> (Vec<u8>, bool) {
    let (mut kept, mut dropped) = (Vec::new(), false);
    let Some(mut from) = from else {
        return (kept, dropped);
    };
    let mut piece = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let fits = read.min(most - kept.len());
        kept.extend_from_slice(&piece[..fits]);
        dropped |= fits < read;
    }
    (kept, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_a_granted_list() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        for (pattern, args, expected) in [
            ("", "", true),
            ("", "a", false),
            ("run * --json", "run it --json", true),
            ("run * --json", "run --json", false),
            ("run * --json", "run it --json more", false),
            ("run **", "run", true),
            ("run **", "run a b c", true),
            ("run **", "stop a", false),
            ("** a", "x a", false),
            ("*", "**", true),
        ] {
            let found = fits(&words(pattern), &words(args));
            assert_eq!(found, expected, "{pattern:?} {args:?}");
        }
    }
}
