//! Tests of the outcome of operations when a platform, a disk or our own code fails. Time is virtual: it moves on when a test says so.

mod fairness;
mod outages;
mod poison;
mod fixture;
