//! Whole blocks, level by level.
