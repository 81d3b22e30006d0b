//! [`NativeOpening`]: the location and the options of a memory.

use std::path::PathBuf;

use memory_tool::requests::{self, Given, Opening};
use memory_tool_cli::start_log_of_package;
use napi::Env;
use napi::bindgen_prelude::{ClassInstance, Function, Object, Uint8Array};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;

use crate::answer::{Answer, Raised};
use crate::call::{Abort, start};
use crate::memory::NativeMemory;
use crate::store::{NodeStore, StoreCall};

/// The location of a memory.
#[napi]
pub struct Location(pub(crate) requests::Location);

#[napi]
impl Location {
    /// A path or URL.
    #[napi(factory)]
    pub fn url(text: String) -> Self {
        Self(requests::Location::Url(PathBuf::from(text)))
    }

    /// An open memory.
    ///
    /// # Errors
    ///
    /// Fails if it is closed.
    #[napi(factory)]
    pub fn memory(memory: &NativeMemory) -> napi::Result<Self> {
        Ok(Self(requests::Location::Memory(memory.memory()?.store())))
    }

    /// A store in TypeScript. `dispatch` performs the calls, and never throws.
    ///
    /// # Errors
    ///
    /// Fails if the function cannot be shared between threads.
    #[napi(factory)]
    pub fn store(dispatch: Function<'_, StoreCall, ()>) -> napi::Result<Self> {
        Ok(Self(requests::Location::Store(NodeStore::new(&dispatch)?)))
    }
}

/// An open memory, or an error and its causes.
#[napi(object, object_from_js = false)]
pub struct Opened {
    /// The memory.
    pub memory: Option<NativeMemory>,
    /// The error.
    pub error: Option<Vec<Raised>>,
}

/// The options of a memory to open.
#[napi]
#[derive(Default)]
pub struct NativeOpening {
    given: Option<Given>,
    opening: Option<Opening>,
}

impl NativeOpening {
    fn given(&mut self) -> &mut Given {
        self.given.get_or_insert_with(|| Given {
            data: Vec::new(),
            key: None,
            old_keys: Vec::new(),
            mounts: Vec::new(),
            on_change: None,
            spelling: camel_case,
        })
    }
}

#[napi]
impl NativeOpening {
    /// Starts without options.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option to a value in JSON.
    #[napi]
    pub fn set(&mut self, name: String, json: String) {
        self.given().data.push((name, json));
    }

    /// Sets the primary key.
    #[napi]
    pub fn set_key(&mut self, key: Uint8Array) {
        self.given().key = Some(key.to_vec());
    }

    /// Adds a key that only decrypts.
    #[napi]
    pub fn add_old_key(&mut self, key: Uint8Array) {
        self.given().old_keys.push(key.to_vec());
    }

    /// Mounts another memory.
    #[napi]
    pub fn mount(&mut self, point: String, location: &Location, is_read_only: bool) {
        self.given().mounts.push((point, location.0.clone(), is_read_only));
    }

    /// Sets the function that receives each change as JSON. It never throws.
    ///
    /// # Errors
    ///
    /// Fails if the function cannot be shared between threads.
    #[napi]
    pub fn set_on_change(&mut self, report: Function<'_, String, ()>) -> napi::Result<()> {
        let builder = report.build_threadsafe_function::<String>().callee_handled::<false>().weak::<true>();
        let report = builder.build_callback(|context| Ok(context.value))?;
        self.given().on_change = Some(Box::new(move |change| {
            report.call(change.to_string(), ThreadsafeFunctionCallMode::NonBlocking);
        }));
        Ok(())
    }

    /// Checks the options.
    #[napi]
    pub fn prepare(&mut self, location: &Location) -> Answer {
        self.given();
        match self.given.take().map(|given| Opening::parse(location.0.clone(), given)) {
            Some(Ok(opening)) => {
                self.opening = Some(opening);
                Answer::default()
            }
            Some(Err(error)) => error.into(),
            None => Answer::default(),
        }
    }

    /// Opens the memory, once.
    ///
    /// # Errors
    ///
    /// Fails if the options are not prepared.
    #[napi(ts_return_type = "Promise<Opened>")]
    pub fn open<'env>(
        &mut self,
        env: &'env Env,
        abort: Option<ClassInstance<'_, Abort>>,
    ) -> napi::Result<Object<'env>> {
        let opening = self.opening.take().ok_or_else(|| napi::Error::from_reason("the options are not prepared"))?;
        start_log_of_package(opening.log());
        let work = Box::pin(async {
            match opening.open().await {
                Ok(memory) => Opened { memory: Some(memory.into()), error: None },
                Err(error) => Opened { memory: None, error: Answer::from(error).error },
            }
        });
        start(env, work, abort)
    }
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
