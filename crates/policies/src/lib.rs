#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
