//! `berth demo`: the main job of the product in one command, and the scripted model that it uses when there is no other.

pub mod model_server;
