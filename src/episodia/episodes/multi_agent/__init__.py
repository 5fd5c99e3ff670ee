"""The episode of many agents on one clock: records, pending steps, timelines."""
