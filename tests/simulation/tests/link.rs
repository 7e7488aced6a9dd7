//! Stories of the link, by count and never by time. `BERTH_SIMULATION_SEED` tells one story again.

use berth_simulation::world::{Weather, World};

/// Stories of one run.
const STORIES: u64 = 40;
/// Things that happen in one story.
const STEPS: u32 = 1_000;

fn seeds() -> Vec<u64> {
    match std::env::var("BERTH_SIMULATION_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(seed) => vec![seed],
        None => (0..STORIES).collect(),
    }
}

/// Runs every story; a failing one names its seed.
fn stories(weather: Weather, check: impl Fn(&World) + std::panic::RefUnwindSafe) -> u64 {
    let mut completed = 0;
    for seed in seeds() {
        let told = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run(STEPS, weather);
            // After the storm the link works: Turns end again.
            let before = world.completed();
            world.run(STEPS, Weather::CALM);
            assert!(
                world.completed() > before,
                "no Turn ended after the faults were over"
            );
            check(&world);
            world.completed()
        });
        match told {
            Ok(turns) => completed += turns,
            Err(panic) => {
                eprintln!(
                    "the story of seed {seed} failed; tell it again with BERTH_SIMULATION_SEED={seed}"
                );
                std::panic::resume_unwind(panic);
            }
        }
    }
    completed
}

// RP-17.1: nothing uncertain is ever replayed; RP-5.1: one outcome for each request; RP-11.2: order kept.
#[test]
fn nothing_happens_twice_and_nothing_is_lost_in_silence() {
    let weather = Weather {
        cut: 0.01,
        repeat: 0.1,
        restart: 0.3,
    };
    let completed = stories(weather, |_| {});
    assert!(
        completed > 2 * seeds().len() as u64,
        "the stories are about Turns: {completed}"
    );
}

// A network that only delays and repeats makes neither end close.
#[test]
fn repeats_and_delays_break_nothing() {
    stories(
        Weather {
            cut: 0.0,
            repeat: 0.3,
            restart: 0.0,
        },
        |world| {
            assert!(world.closes.is_empty(), "closed: {:?}", world.closes);
        },
    );
}
