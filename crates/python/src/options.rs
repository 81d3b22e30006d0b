//! Locations and options from Python, as `python/memory_tool/options.py` describes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_bindings::{Given, Location, Opening, OptionError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use crate::memory::NativeMemory;
use crate::runtime::Process;
use crate::store::PythonStore;

/// Reads the arguments of a memory. Methods of stores in Python that are coroutines run on `event_loop`, if there is
/// one.
pub(crate) fn parse(
    location: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
    process: &'static Process,
    event_loop: Option<&Py<PyAny>>,
) -> PyResult<Opening> {
    let located = |given: &Bound<'_, PyAny>| parse_location(given, process, event_loop);
    let mut given = Vec::new();
    for (name, value) in options {
        let name = name.extract::<String>()?;
        let value = match name.as_str() {
            "mounts" | "read_only_mounts" if !value.is_none() => parse_mounts(&name, &value, located)?,
            _ => parse_value(&value)?,
        };
        given.push((name, value));
    }
    Opening::parse(located(location)?, given, str::to_owned).map_err(invalid)
}

fn invalid(error: OptionError) -> PyErr {
    match error {
        OptionError::Type(message) => PyTypeError::new_err(message),
        OptionError::Value(message) => PyValueError::new_err(message),
    }
}

fn parse_location(
    given: &Bound<'_, PyAny>,
    process: &'static Process,
    event_loop: Option<&Py<PyAny>>,
) -> PyResult<Location> {
    match parse_text_or_path(given)? {
        Some(Given::Text(path)) => return Ok(Location::Url(path.into())),
        Some(Given::Path(path) | Given::NotUnicode(_, Some(path))) => return Ok(Location::Url(path)),
        Some(Given::NotUnicode(surrogate, None)) => {
            return Err(invalid(OptionError::not_unicode("location", surrogate)));
        }
        _ => {}
    }
    // An open memory of this package.
    if let Ok(memory) = given.getattr("_native").and_then(|native| Ok(native.cast_into::<NativeMemory>()?)) {
        return Ok(Location::Memory(memory.get().memory()?.1.store()));
    }
    Ok(Location::Store(Arc::new(PythonStore::new(given, process, event_loop)?)))
}

fn parse_mounts(
    name: &str,
    given: &Bound<'_, PyAny>,
    located: impl Fn(&Bound<'_, PyAny>) -> PyResult<Location>,
) -> PyResult<Given> {
    let pairs = if given.hasattr("items")? { given.call_method0("items")? } else { given.clone() };
    let Ok(pairs) = pairs.try_iter() else { return parse_value(given) };
    let mut mounts = Vec::new();
    for pair in pairs {
        // A value of another type is refused with the name of the option.
        let Ok((point, mounted)) = pair?.extract::<(Bound<'_, PyString>, Bound<'_, PyAny>)>() else {
            return parse_value(given);
        };
        match parse_text(&point)? {
            Given::NotUnicode(surrogate, _) => return Err(invalid(OptionError::not_unicode(name, surrogate))),
            _ => mounts.push((point.to_str()?.to_owned(), located(&mounted)?)),
        }
    }
    Ok(Given::Mounts(mounts))
}

fn parse_value(value: &Bound<'_, PyAny>) -> PyResult<Given> {
    if let Some(given) = parse_item(value)? {
        return Ok(given);
    }
    // No option is a list of lists, which also could contain itself.
    let other = |value: &Bound<'_, PyAny>| Given::Other(value.get_type().to_string());
    let item = |item: PyResult<Bound<'_, PyAny>>| {
        let item = item?;
        Ok(parse_item(&item)?.unwrap_or_else(|| other(&item)))
    };
    match value.try_iter() {
        Ok(items) => items.map(item).collect::<PyResult<_>>().map(Given::List),
        Err(_) => Ok(other(value)),
    }
}

/// Parses a value that is not a list.
fn parse_item(value: &Bound<'_, PyAny>) -> PyResult<Option<Given>> {
    if value.is_none() {
        return Ok(Some(Given::Nothing));
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Some(Given::Flag(flag.is_true())));
    }
    if value.is_instance_of::<PyInt>()
        && let Ok(number) = value.extract::<u64>()
    {
        return Ok(Some(Given::Whole(number)));
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return Ok(Some(Given::Number(value.extract().unwrap_or(f64::INFINITY))));
    }
    if let Some(given) = parse_text_or_path(value)? {
        return Ok(Some(given));
    }
    if let Ok(duration) = value.extract::<Duration>() {
        return Ok(Some(Given::Duration(duration)));
    }
    Ok(value.extract::<&[u8]>().ok().map(|bytes| Given::Bytes(bytes.to_vec())))
}

/// Parses a `str` or `os.PathLike`. Returns `None` for other values.
fn parse_text_or_path(value: &Bound<'_, PyAny>) -> PyResult<Option<Given>> {
    if let Ok(text) = value.cast::<PyString>() {
        return parse_text(text).map(Some);
    }
    if !value.hasattr("__fspath__")? {
        return Ok(None);
    }
    let path = value.call_method0("__fspath__")?.cast_into::<PyString>().map_err(PyErr::from)?;
    Ok(Some(match parse_text(&path)? {
        Given::Text(path) => Given::Path(path.into()),
        other => other,
    }))
}

/// Parses text, which is not Unicode if it has a lone surrogate. Python uses them for bytes of file names that are not
/// UTF-8.
fn parse_text(text: &Bound<'_, PyString>) -> PyResult<Given> {
    if let Ok(text) = text.to_str() {
        return Ok(Given::Text(text.to_owned()));
    }
    let encoded = text.call_method1("encode", ("utf-32-le", "surrogatepass"))?.extract::<Vec<u8>>()?;
    let mut units = encoded.chunks_exact(4).map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]));
    let surrogate = units.find(|unit| char::from_u32(*unit).is_none()).unwrap_or_default();
    let surrogate = u16::try_from(surrogate).unwrap_or_default();
    Ok(Given::NotUnicode(surrogate, text.extract::<PathBuf>().ok()))
}
