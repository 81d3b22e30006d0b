//! Inputs of tool calls from Python.

use memory_tool::command::InputError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

use crate::errors::{CallError, is_interrupt};

/// The deepest nesting of an input, as for JSON.
const MAX_DEPTH: usize = 127;

/// Converts a value, such as the input of a call as the SDK passes it, to JSON.
pub(crate) fn from_python(object: &Bound<'_, PyAny>) -> Result<Value, CallError> {
    value(object, MAX_DEPTH)
}

fn value(object: &Bound<'_, PyAny>, depth: usize) -> Result<Value, CallError> {
    if let Ok(text) = object.cast::<PyString>() {
        return text.to_str().map(Value::from).map_err(|_| not_json("a string contains a lone surrogate"));
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        let whole = object.extract::<i64>().map(Number::from).or_else(|_| object.extract::<u64>().map(Number::from));
        return whole.map(Value::Number).or_else(|_| float(object));
    }
    if object.is_instance_of::<PyFloat>() {
        return float(object);
    }
    let deeper = depth.checked_sub(1).ok_or_else(|| not_json("it is nested too deeply"))?;
    if let Ok(dict) = object.cast::<PyDict>() {
        let mut fields = Map::new();
        for (key, item) in dict {
            let key = key.extract::<String>().map_err(|_| not_json("a key is not a string"))?;
            fields.insert(key, value(&item, deeper)?);
        }
        return Ok(Value::Object(fields));
    }
    if let Ok(list) = object.cast::<PyList>() {
        return list.iter().map(|item| value(&item, deeper)).collect::<Result<_, _>>().map(Value::Array);
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return tuple.iter().map(|item| value(&item, deeper)).collect::<Result<_, _>>().map(Value::Array);
    }
    // A model of the SDK, such as `BetaMemoryTool20250818ViewCommand`.
    match object.call_method0("to_dict") {
        Ok(dict) => value(&dict, deeper),
        Err(error) if is_interrupt(object.py(), &error) => Err(CallError::Python(error)),
        Err(_) => Err(not_json("it contains a value that is not JSON")),
    }
}

fn float(object: &Bound<'_, PyAny>) -> Result<Value, CallError> {
    let number = object.extract::<f64>().ok().and_then(Number::from_f64);
    number.map(Value::Number).ok_or_else(|| not_json("number out of range"))
}

fn not_json(reason: &str) -> CallError {
    InputError::NotJson { reason: reason.to_owned() }.into()
}
