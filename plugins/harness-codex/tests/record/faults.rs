//! A model that refuses and breaks.

use serde_json::json;

use crate::stage::*;

#[test]
fn model_unauthorized() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(&mut rig, "run_1", "in_1", &json!([{"status": 401}]));
    turn(
        &mut rig,
        "run_2",
        "in_2",
        &json!([{"steps": [{"say": "The process is still usable."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "model_unauthorized");
}

#[test]
fn model_stream_cut() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    let cut = json!({"steps": [{"say": "Half of"}, "cut"]});
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([{"first": [cut], "steps": [{"say": "The whole."}]}]),
    );
    turn(&mut rig, "run_2", "in_2", &json!([cut]));
    close(&mut rig);
    stage.keep(rig, "model_stream_cut");
}

#[test]
fn model_refusals() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(&mut rig, "run_1", "in_1", &json!([{"status": 429}]));
    turn(&mut rig, "run_2", "in_2", &json!([{"status": 500}]));
    turn(
        &mut rig,
        "run_3",
        "in_3",
        &json!([
            {"steps": [{"fail": {"code": "context_length_exceeded", "message": "too long"}}]},
        ]),
    );
    close(&mut rig);
    stage.keep(rig, "model_refusals");
}
