//! Tests of the gateway with the real channel.

use super::{Setup, now};
use crate::interfaces::channel::NoPollMemory;
use crate::simulation::emulator::discord::GatewayState;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_secs(20);

async fn wait(setup: &Setup, look: impl Fn(&GatewayState) -> bool) {
    let seen = setup
        .discord
        .wait_until(SOON, |state| look(&state.gateway).then_some(()));
    assert_eq!(seen.await, Some(()));
}

/// A program that ends sends no last frame, so nothing else changes with its connection.
#[tokio::test]
async fn the_end_of_a_connection_without_a_frame_ends_a_wait_for_it() {
    let setup = Setup::new().await;
    let (inbox, _polled) = mpsc::channel(1);
    let stop = CancellationToken::new();
    let polling = setup.channel.poll(inbox, &NoPollMemory, now, stop.clone());
    let watching = async {
        // After the first heartbeat there is none for a while.
        wait(&setup, |gateway| {
            gateway.connected() == 1 && gateway.heartbeats == 1
        })
        .await;
        // The wait has begun when the channel stops.
        tokio::join!(wait(&setup, |gateway| gateway.connected() == 0), async {
            stop.cancel();
        });
    };
    tokio::join!(polling, watching);
}
