//! Tests of delivery outcomes when a platform, a disk or the program itself fails. Time is virtual and advances only
//! when a test asks for it.

mod fairness;
mod outages;
mod poison;
mod fixture;
