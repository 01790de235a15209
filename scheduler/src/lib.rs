//! The ClawJob scheduler: knows every job, fires it on time, and tells the truth about each run.
//!
//! Layers, top to bottom; arrows only point down:
//! `runtime`/`config` → `api`/`console` → `trigger`, `dispatch`, `results`, `alarm`, `janitor` →
//! `fleet` → `hub`, `node`, `board` → `store` → `model`, `clock`, `telemetry`.

pub mod alarm;
pub mod api;
pub mod board;
pub mod clock;
pub mod config;
pub mod console;
pub mod demo;
pub mod dispatch;
pub mod fleet;
pub mod follow;
pub mod hub;
pub mod janitor;
pub mod model;
pub mod node;
pub mod owner;
pub mod results;
pub mod route;
pub mod runtime;
pub mod store;
pub mod telemetry;
pub mod trigger;
