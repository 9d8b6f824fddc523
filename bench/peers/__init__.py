"""Programs that run in the environment of the peers, and do there what a user of them would."""
