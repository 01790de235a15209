//! Input from people who mean harm or make mistakes: a value or a clear error comes back, never a
//! panic, a hang, or a word of another app.
//!
//! Each test begins with the inputs that were kept in `data/hostile.jsonl`, then makes new ones:
//! some seconds' worth, or `CLAWJOB_FUZZ_SECONDS` for each. What finds a fault is kept in
//! `data/fuzz` by its seed; where the input itself can be written down it goes to `hostile.jsonl`.

#[path = "hostile/calls.rs"]
mod calls;
#[path = "hostile/config.rs"]
mod config;
#[path = "hostile/frames.rs"]
mod frames;
#[path = "support/fuzz.rs"]
mod fuzz;
#[path = "hostile/input.rs"]
mod input;
#[path = "hostile/lists.rs"]
mod lists;
#[path = "hostile/stage.rs"]
mod stage;
#[path = "support/wire.rs"]
mod wire;
