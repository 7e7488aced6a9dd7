//! Both ends, one network, one clock.

use domain::run::{Capability, CapabilityFlags, HarnessOffer};
use domain::{ConnectionId, DeviceId, EnvironmentId, InstallationId, InstanceId};
use protocol::core_end::{self, CoreEnd, CoreSettings};
use protocol::moment::Moment;
use protocol::runtime_end::{self, Identity, RuntimeEnd};
use protocol::wire::{Capacity, CloseReason, HELLO_AGAIN, Limits, Message, WorkspaceFacts, limits};
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use crate::core::Core;
use crate::daemon::Daemon;
use crate::network::{Lane, repeatable};
use crate::{Counter, Random};

/// How rough the network is.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    /// Chance of a cut at each step.
    pub cut: f64,
    /// Chance that a frame is repeated.
    pub repeat: f64,
    /// Chance that Core restarts at a cut, with a higher epoch.
    pub restart: f64,
}

impl Weather {
    /// Nothing happens.
    pub const CALM: Self = Self {
        cut: 0.0,
        repeat: 0.0,
        restart: 0.0,
    };
}

/// One story.
#[derive(Debug)]
pub struct World {
    random: Random,
    now: u64,
    core_end: Option<CoreEnd>,
    runtime_end: RuntimeEnd,
    core: Core,
    daemon: Daemon,
    to_runtime: Lane,
    to_core: Lane,
    epoch: u64,
    ids: Counter,
    /// Each end notices the end of a socket in its own time.
    core_sees_end: Option<u64>,
    runtime_sees_end: Option<u64>,
    runtime_connected: bool,
    /// Closes by an end, which the network did not cause.
    pub closes: Vec<CloseReason>,
}

impl World {
    /// The story of a seed.
    pub fn new(seed: u64) -> Self {
        let identity = Identity {
            build: "simulation".to_owned(),
            installation_id: InstallationId::new(Uuid::from_u128(11)),
            device_id: DeviceId::new(Uuid::from_u128(10)),
            instance_id: InstanceId::new(Uuid::from_u128(12)),
            dedicated: Some(EnvironmentId::new(Uuid::from_u128(2))),
            os: "linux".to_owned(),
            arch: "x86_64".to_owned(),
            features: vec![HELLO_AGAIN.to_owned()],
            capacity: Capacity {
                runs: 1,
                executors: 1,
                preparing: 1,
            },
            workspace: WorkspaceFacts {
                bound: true,
                canonical_hash: None,
                home_removal: true,
            },
        };
        Self {
            random: Random::seed_from_u64(seed),
            now: 0,
            core_end: None,
            runtime_end: RuntimeEnd::new(identity, Vec::new()),
            core: Core::new(),
            daemon: Daemon::default(),
            to_runtime: Lane::default(),
            to_core: Lane::default(),
            epoch: 1,
            ids: Counter::default(),
            core_sees_end: None,
            runtime_sees_end: None,
            runtime_connected: false,
            closes: Vec::new(),
        }
    }

    /// Turns that Core saw to their `done`.
    pub fn completed(&self) -> u64 {
        self.core.completed
    }

    /// Lets `steps` things happen.
    pub fn run(&mut self, steps: u32, weather: Weather) {
        for _ in 0..steps {
            self.step(weather);
        }
        self.core.compare(&self.daemon.deeds);
    }

    fn step(&mut self, weather: Weather) {
        self.now += self.random.random_range(0..40);
        if self.core_end.is_none() && !self.runtime_connected {
            self.connect();
        } else if self.is_joined() && self.random.random_bool(weather.cut) {
            self.cut(weather);
        }
        self.notice_ends();
        if self.random.random_bool(0.02) {
            let offers = offers(&mut self.random);
            let command = runtime_end::Command::Offers(offers);
            self.runtime_end.command(Moment(self.now), command);
            self.pump(weather);
        }
        let calm = weather.cut == 0.0;
        // The daemon works whether it is connected or not.
        for command in self.daemon.act(&mut self.random, self.now) {
            self.runtime_end.command(Moment(self.now), command);
            self.pump(weather);
        }
        let open = self.core_end.as_ref().is_some_and(CoreEnd::is_open);
        if open
            && self.random.random_bool(0.5)
            && let Some(command) = self.core.act(&mut self.random, calm)
            && let Some(end) = &mut self.core_end
        {
            end.command(Moment(self.now), command);
            self.pump(weather);
        }
        self.deliver(weather);
        if let Some(end) = &mut self.core_end {
            end.tick(Moment(self.now));
        }
        self.runtime_end.tick(Moment(self.now));
        self.pump(weather);
    }

    fn is_joined(&self) -> bool {
        self.core_end.is_some()
            && self.runtime_connected
            && self.core_sees_end.is_none()
            && self.runtime_sees_end.is_none()
    }

    fn connect(&mut self) {
        self.to_runtime = Lane::default();
        self.to_core = Lane::default();
        self.core_sees_end = None;
        self.runtime_sees_end = None;
        let settings = CoreSettings {
            connection_id: ConnectionId::new(self.ids.fresh()),
            device_id: DeviceId::new(Uuid::from_u128(10)),
            installation_id: InstallationId::new(Uuid::from_u128(11)),
            owner_epoch: self.epoch,
            heartbeat_ms: limits::HEARTBEAT_MS,
            idle_close_ms: limits::IDLE_CLOSE_MS,
            features: vec![HELLO_AGAIN.to_owned()],
            limits: Limits::default(),
        };
        self.core_end = Some(CoreEnd::new(settings, Moment(self.now)));
        self.runtime_connected = true;
        self.runtime_end.connect(Moment(self.now));
        self.pump(Weather::CALM);
    }

    fn cut(&mut self, weather: Weather) {
        self.to_runtime.cut(&mut self.random);
        self.to_core.cut(&mut self.random);
        self.core_sees_end = Some(self.now + self.random.random_range(0..3_000));
        self.runtime_sees_end = Some(self.now + self.random.random_range(0..3_000));
        if self.random.random_bool(weather.restart) {
            self.epoch += 1;
        }
    }

    fn notice_ends(&mut self) {
        if self.core_sees_end.is_some_and(|at| at <= self.now) {
            self.end_core();
        }
        if self.runtime_sees_end.is_some_and(|at| at <= self.now) {
            self.end_runtime();
        }
    }

    fn end_core(&mut self) {
        self.core_sees_end = None;
        if let Some(mut end) = self.core_end.take() {
            end.disconnected();
            while let Some(output) = end.poll() {
                if let core_end::Output::Notice(notice) = output {
                    self.core.notice(&mut self.random, notice);
                }
            }
            self.core.disconnected();
            self.core.compare(&self.daemon.deeds);
        }
    }

    fn end_runtime(&mut self) {
        self.runtime_sees_end = None;
        self.runtime_connected = false;
        self.runtime_end.disconnected();
        while let Some(output) = self.runtime_end.poll() {
            if let runtime_end::Output::Notice(notice) = output {
                self.daemon.notice(&mut self.random, self.now, notice);
            }
        }
    }

    fn deliver(&mut self, weather: Weather) {
        while let Some(message) = self.to_runtime.receive(self.now) {
            if self.runtime_connected {
                self.runtime_end.receive(Moment(self.now), &message);
                self.pump(weather);
            }
        }
        while let Some(message) = self.to_core.receive(self.now) {
            if let Some(end) = &mut self.core_end {
                end.receive(Moment(self.now), &message);
                self.pump(weather);
            }
        }
    }

    /// Carries out what both ends want.
    fn pump(&mut self, weather: Weather) {
        loop {
            if let Some(output) = self.core_end.as_mut().and_then(CoreEnd::poll) {
                self.core_output(output, weather);
            } else if let Some(output) = self.runtime_end.poll() {
                self.runtime_output(output, weather);
            } else {
                return;
            }
        }
    }

    fn core_output(&mut self, output: core_end::Output, weather: Weather) {
        let command = match output {
            core_end::Output::Send(message) => {
                // After a cut nothing new gets through.
                if self.is_joined() {
                    let repeat = self.repeats(&message, weather);
                    self.to_runtime
                        .send(&mut self.random, self.now, message, repeat);
                }
                None
            }
            core_end::Output::Notice(core_end::Notice::Hello(_)) => {
                Some(core_end::Command::Welcome)
            }
            core_end::Output::Notice(notice) => self.core.notice(&mut self.random, notice),
            core_end::Output::Close(reason) => {
                self.closes.push(reason);
                self.core_sees_end = Some(self.now);
                self.runtime_sees_end.get_or_insert(self.now);
                None
            }
        };
        if let (Some(command), Some(end)) = (command, &mut self.core_end) {
            end.command(Moment(self.now), command);
        }
    }

    fn runtime_output(&mut self, output: runtime_end::Output, weather: Weather) {
        match output {
            runtime_end::Output::Send(message) => {
                if self.is_joined() {
                    let repeat = self.repeats(&message, weather);
                    self.to_core
                        .send(&mut self.random, self.now, message, repeat);
                }
            }
            runtime_end::Output::Notice(notice) => {
                self.daemon.notice(&mut self.random, self.now, notice)
            }
            runtime_end::Output::Close(reason) => {
                self.closes.push(reason);
                self.runtime_sees_end = Some(self.now);
                self.core_sees_end.get_or_insert(self.now);
            }
        }
    }

    fn repeats(&mut self, message: &Message, weather: Weather) -> bool {
        self.random.random_bool(weather.repeat) && repeatable(message)
    }
}

/// What is installed at a moment: more, less or something else than before.
fn offers(random: &mut Random) -> Vec<HarnessOffer> {
    let mut offers = Vec::new();
    for id in ["codex", "other"] {
        if random.random_bool(0.3) {
            continue;
        }
        let mut capabilities = CapabilityFlags::NONE;
        capabilities.set(Capability::Steering, random.random_bool(0.5));
        let offer = serde_json::json!({
            "id": id, "version": "1.0.0", "contract": "0.1.0", "declaration_hash": "a".repeat(64),
            "available": random.random_bool(0.8), "capabilities": capabilities,
        });
        offers.push(serde_json::from_value(offer).unwrap_or_else(|error| panic!("{error}")));
    }
    offers
}
