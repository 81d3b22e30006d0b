//! [`NativeOpening`]: the location and the options of a memory.

use std::path::PathBuf;

use memory_tool_bindings::{self as bindings, Given, Opening, OptionError};
use napi::Env;
use napi::bindgen_prelude::{ClassInstance, Function, Uint8Array};
use napi_derive::napi;

use crate::answer::Answer;
use crate::call::{Abort, Started, start};
use crate::memory::NativeMemory;
use crate::store::{NodeStore, StoreCall};

/// The largest number up to which every integer is a number of JavaScript.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// The location of a memory.
#[napi]
pub struct Location(pub(crate) bindings::Location);

#[napi]
impl Location {
    /// A path or URL.
    #[napi(factory)]
    pub fn url(text: String) -> Self {
        Self(bindings::Location::Url(PathBuf::from(text)))
    }

    /// An open memory.
    ///
    /// # Errors
    ///
    /// Fails if it is closed.
    #[napi(factory)]
    pub fn memory(memory: &NativeMemory) -> napi::Result<Self> {
        Ok(Self(bindings::Location::Memory(memory.memory()?.store())))
    }

    /// A store in TypeScript. `dispatch` performs the calls, and never throws.
    ///
    /// # Errors
    ///
    /// Fails if the function cannot be shared between threads.
    #[napi(factory)]
    pub fn store(dispatch: Function<'_, StoreCall, ()>) -> napi::Result<Self> {
        Ok(Self(bindings::Location::Store(NodeStore::new(&dispatch)?)))
    }
}

/// The value of an option. One field is set.
#[napi(object, object_to_js = false)]
pub struct OptionValue {
    /// Set for `null`.
    pub nothing: Option<bool>,
    /// A boolean.
    pub flag: Option<bool>,
    /// A number.
    pub number: Option<f64>,
    /// Text.
    pub text: Option<String>,
    /// Bytes.
    pub bytes: Option<Uint8Array>,
    /// A list.
    pub list: Option<Vec<OptionValue>>,
    /// The type of another value.
    pub other: Option<String>,
}

impl From<OptionValue> for Given {
    fn from(value: OptionValue) -> Self {
        let OptionValue { flag, number, text, bytes, list, other, .. } = value;
        let flag = flag.map(Self::Flag);
        let bytes = || bytes.map(|bytes| Self::Bytes(bytes.to_vec()));
        let list = || list.map(|list| Self::List(list.into_iter().map(Self::from).collect()));
        let given = flag.or_else(|| number.map(given_number)).or_else(|| text.map(Self::Text));
        given.or_else(bytes).or_else(list).or_else(|| other.map(Self::Other)).unwrap_or(Self::Nothing)
    }
}

fn given_number(number: f64) -> Given {
    let is_whole = number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(&number);
    if is_whole { Given::Whole(number as u64) } else { Given::Number(number) }
}

/// The options of a memory to open.
#[napi]
#[derive(Default)]
pub struct NativeOpening {
    options: Vec<(String, Given)>,
    opening: Option<Opening>,
}

#[napi]
impl NativeOpening {
    /// Starts without options.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option.
    #[napi]
    pub fn set(&mut self, name: String, value: OptionValue) {
        self.options.push((name, value.into()));
    }

    /// Adds another memory to the option `name`.
    #[napi]
    pub fn mount(&mut self, name: String, point: String, location: &Location) {
        let mount = (point, location.0.clone());
        match self.options.iter_mut().find(|(other, _)| *other == name) {
            Some((_, Given::Mounts(mounts))) => mounts.push(mount),
            _ => self.options.push((name, Given::Mounts(vec![mount]))),
        }
    }

    /// Checks the options.
    #[napi]
    pub fn prepare(&mut self, location: &Location) -> Answer {
        match Opening::parse(location.0.clone(), std::mem::take(&mut self.options), camel_case) {
            Ok(opening) => {
                self.opening = Some(opening);
                Answer::default()
            }
            Err(error) => error.into(),
        }
    }

    /// Opens the memory, once.
    ///
    /// # Errors
    ///
    /// Fails if the options are not prepared.
    #[napi(ts_return_type = "Answer | Promise<Answer>")]
    pub fn open<'env>(
        &mut self,
        env: &'env Env,
        abort: Option<ClassInstance<'_, Abort>>,
    ) -> napi::Result<Started<'env>> {
        let opening = self.opening.take().ok_or_else(|| napi::Error::from_reason("the options are not prepared"))?;
        let work = Box::pin(async {
            match opening.open().await {
                Ok(memory) => Answer { memory: Some(memory.into()), ..Answer::default() },
                Err(error) => error.into(),
            }
        });
        start(env, work, abort)
    }
}

/// The error of an option whose text has a lone surrogate.
#[napi]
pub fn refuse_surrogate(name: String, surrogate: u16) -> Answer {
    OptionError::not_unicode(&name, surrogate).into()
}

/// The name of an option in TypeScript, such as `maxFiles`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(1.min(word.len()));
        name + &initial.to_ascii_uppercase() + rest
    })
}
