//! A migration that is added makes the crate be built anew: the macro that embeds them can't say so.

fn main() {
    for directory in ["postgres", "sqlite"] {
        println!("cargo:rerun-if-changed={directory}");
    }
}
