//! See the room table of the architecture.
