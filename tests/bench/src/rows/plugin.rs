//! The Codex adapter over each transport: lines a second, loading it, and what its instances cost.

use crate::ceiling::Pairs;
use crate::effort::Effort;
use crate::report::Line;
use crate::sample::Samples;
use crate::server::{Programs, resident_mb};
use anyhow::{Context, Result, bail, ensure};
use harness_codex::Codex;
use plugin_host::contract::harness_io::{Input, Output};
use plugin_host::contract::harness_session::Configuration;
use plugin_host::contract::{HarnessAdapter, HarnessSession};
use plugin_host::load::PluginFile;
use plugin_host::{Driver, Settings};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lines of one step, as the host hands them over.
const LINES: usize = 16;
/// Of the rate of the linked adapter.
const COMPONENT: f64 = 0.45;
const LIBRARY: f64 = 0.6;
/// Lines a second of a component.
const LINES_A_SECOND: f64 = 200_000.0;
/// Milliseconds of a load, compiled now and compiled before.
const FIRST_LOAD: f64 = 500.0;
const LATER_LOAD: f64 = 5.0;
/// Microseconds until an instance can take its first step.
const INSTANCE: f64 = 50.0;
/// Megabytes of one instance in the middle of a Turn, and of a thousand.
const EACH: f64 = 1.048_576;
const THOUSAND: f64 = 157.286_4;

/// One step of a recorded conversation.
#[derive(Deserialize)]
struct Step {
    inputs: Vec<Input>,
}

/// A session on its way into the text of a Turn, and the line that goes on from there.
struct Conversation {
    configuration: Configuration,
    steps: Vec<Vec<Input>>,
    delta: Input,
}

impl Conversation {
    fn recorded() -> Result<Self> {
        let text = include_str!("../../../../plugins/harness-codex/tests/transcripts/text.jsonl");
        let mut lines = text.lines();
        let configuration = serde_json::from_str(lines.next().context("no configuration")?)?;
        let mut steps: Vec<Vec<Input>> = Vec::new();
        for line in lines {
            let step: Step = serde_json::from_str(line)?;
            let is_delta = |input: &Input| matches!(input, Input::Line(line) if line.text.contains("agentMessage/delta"));
            let found = step.inputs.iter().position(is_delta);
            let mut inputs = step.inputs;
            if let Some(at) = found {
                inputs.truncate(at + 1);
                let delta = inputs[at].clone();
                steps.push(inputs);
                return Ok(Self {
                    configuration,
                    steps,
                    delta,
                });
            }
            steps.push(inputs);
        }
        bail!("the recorded conversation has no text")
    }

    fn open(&self, adapter: &dyn HarnessAdapter) -> Result<Box<dyn HarnessSession>> {
        let opened = adapter.open(self.configuration.clone());
        opened.map_err(|failure| anyhow::anyhow!("{}: {}", failure.code, failure.detail))
    }

    /// A session that is in the middle of a text.
    fn under_way(&self, adapter: &dyn HarnessAdapter) -> Result<Box<dyn HarnessSession>> {
        let mut session = self.open(adapter)?;
        for inputs in &self.steps {
            step(&mut *session, inputs.clone())?;
        }
        Ok(session)
    }

    /// Lines a second.
    fn rate(&self, adapter: &dyn HarnessAdapter, span: Duration) -> Result<f64> {
        let mut session = self.under_way(adapter)?;
        let batch = vec![self.delta.clone(); LINES];
        let (mut lines, mut busy) = (0_u32, Duration::ZERO);
        let begun = Instant::now();
        while lines == 0 || begun.elapsed() < span {
            // Only the step itself: making the batch costs the same everywhere.
            let inputs = batch.clone();
            let step_begun = Instant::now();
            let outputs = step(&mut *session, inputs)?;
            busy += step_begun.elapsed();
            ensure!(!outputs.is_empty(), "the adapter ignores the line");
            lines += u32::try_from(LINES)?;
        }
        Ok(f64::from(lines) / busy.as_secs_f64())
    }
}

fn step(session: &mut dyn HarnessSession, inputs: Vec<Input>) -> Result<Vec<Output>> {
    let outputs = session.step(inputs);
    outputs.map_err(|failure| anyhow::anyhow!("{}: {}", failure.code, failure.detail))
}

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    let folder = programs.plugins.clone();
    tokio::task::spawn_blocking(move || run(&folder, effort)).await?
}

fn run(folder: &Path, effort: Effort) -> Result<Vec<Line>> {
    let wasm = folder.join("harness-codex.wasm");
    let cache = tempfile::tempdir()?;
    let component = load(&wasm, cache.path())?;
    let library = load(&folder.join("libharness_codex.so"), cache.path())?;
    let conversation = Conversation::recorded()?;
    let (mut of_component, mut of_library) = (Pairs::default(), Pairs::default());
    for _ in 0..effort.rounds {
        let linked = conversation.rate(&Codex, effort.span)?;
        of_component.add(conversation.rate(&*component, effort.span)?, linked);
        of_library.add(conversation.rate(&*library, effort.span)?, linked);
    }
    let (mut first, mut later) = (Samples::default(), Samples::default());
    for _ in 0..effort.loads {
        let cache = tempfile::tempdir()?;
        first.add_time(timed(|| load(&wasm, cache.path()))?);
        later.add_time(timed(|| load(&wasm, cache.path()))?);
    }
    let instances = instances(&*component, &conversation, effort.instances)?;
    let (lines, linked, ratio) = of_component.medians();
    let against = |ceiling| ("linked in", ceiling);
    let mut all = vec![
        Line::rate(
            "Codex lines, component",
            lines,
            against(linked),
            ratio,
            COMPONENT,
        ),
        Line::at_least("Codex lines, component", lines, "/s", LINES_A_SECOND),
    ];
    let (lines, linked, ratio) = of_library.medians();
    all.push(Line::rate(
        "Codex lines, native library",
        lines,
        against(linked),
        ratio,
        LIBRARY,
    ));
    let cost = |row, figure, unit, at_most| Line::cost(row, figure, unit, None, at_most);
    all.extend([
        cost(
            "first load of a component, p50",
            first.median(),
            "ms",
            FIRST_LOAD,
        ),
        cost(
            "later load of a component, p50",
            later.median(),
            "ms",
            LATER_LOAD,
        ),
        cost("an instance of it, p50", instances.open_us, "µs", INSTANCE),
        cost("memory of an instance", instances.each_mb, "MB", EACH),
        cost(
            "memory of 1,000 live translators",
            instances.each_mb * 1000.0,
            "MB",
            THOUSAND,
        ),
    ]);
    Ok(all)
}

struct Instances {
    open_us: f64,
    each_mb: f64,
}

/// So many sessions at once, each in the middle of a Turn.
fn instances(
    adapter: &dyn HarnessAdapter,
    conversation: &Conversation,
    count: usize,
) -> Result<Instances> {
    let mut opened = Samples::default();
    // One is there before: what all share is not counted.
    let warm = conversation.under_way(adapter)?;
    for _ in 0..count {
        opened.add_time(timed(|| conversation.open(adapter))?);
    }
    let before = resident_mb(std::process::id())?;
    let mut live = Vec::with_capacity(count);
    for _ in 0..count {
        live.push(conversation.under_way(adapter)?);
    }
    let after = resident_mb(std::process::id())?;
    drop((live, warm));
    Ok(Instances {
        open_us: opened.median() * 1e3,
        each_mb: (after - before).max(0.0) / count as f64,
    })
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let begun = Instant::now();
    let made = work()?;
    let time = begun.elapsed();
    drop(made);
    Ok(time)
}

/// Loads a plugin file with compiled components kept in this folder.
fn load(path: &Path, folder: &Path) -> Result<Arc<dyn HarnessAdapter>> {
    let settings = Settings {
        folder: Some(folder.to_owned()),
        allow_native: true,
        ..Settings::default()
    };
    let refused = |refusal| anyhow::anyhow!("{}: {refusal}", path.display());
    let file = PluginFile::read(path).map_err(refused)?;
    let plugin = file.load(&file.asked(), &settings).map_err(refused)?;
    match &plugin.driver {
        Driver::Harness(adapter) => Ok(Arc::clone(adapter)),
        _ => bail!("{} is no harness adapter", path.display()),
    }
}
