#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

pub mod observation;
