#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod screening;

pub use screening::{Detector, Finding, Refusal, Screen, ScreenedStore, SensitiveData, SensitiveDataBuilder, Verdict};
