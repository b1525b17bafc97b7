"""Stages of a stream, one file each: what happens around the sum of an online step."""
