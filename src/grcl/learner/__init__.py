"""A learner for one's own images, over months: the stages of a run on folders or arrays, and a state that stays."""
