//! The other way: placeholder
